// Dynamic models in DyNet: runs one mini-batch many times and prints medians.
//
//     dynet_models MODEL WEIGHTS INSTANCES [--strategy NAME] [--repeat N] [--clock wall|cpu] [--memory MB]
//                  [--dump FILE]
//
// The strategies are none, agenda and depth. Compiled with `-DEDBATCH` against ED-Batch, they are base, sorted and max,
// which is what the states of its automaton say about the types that are ready. It learns from the mini-batch, in the
// first run.
//
// It prints `construction forward release nodes`: the milliseconds in which the graph of the whole mini-batch is made,
// computed and deleted, and how many nodes it has. Three runs warm up. `--memory` is what DyNet reserves for results.
//
// INSTANCES is text with one instance of the mini-batch in each line; words and characters are numbers.
//     tree, treegru, mvrnn    in postfix, with `+` for a node of two children: 3 17 + 5 +
//     tagger                  the words: 3 17 5
//     lattice, latticegru     the characters, and the words between two positions: 3 17 5 | 0:2:40 1:3:7
//
// WEIGHTS is in the format of `dynet_weights.h`, with the names that they have in `sources/`.
//
// --dump writes the outputs as 32-bit floats: the classes of each tree, word, or character, in the order of INSTANCES.

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <time.h>
#include <vector>

#include "dynet/dynet.h"
#include "dynet/init.h"
#include "dynet_sequences.h"
#include "dynet_trees.h"

#ifdef EDBATCH
#include "dynet_blocks.h"
#endif

namespace {

using Maker = std::unique_ptr<Model> (*)(const Weights&, const std::vector<std::string>&);

template <typename Made> std::unique_ptr<Model> made(const Weights& weights, const std::vector<std::string>& lines) {
    return std::unique_ptr<Model>(new Made(weights, lines));
}

#ifdef EDBATCH
const std::map<std::string, int> kStrategies = {{"base", 2}, {"sorted", 3}, {"max", 4}};

const std::map<std::string, Maker> kModels = {
    {"tree", made<BlockTrees<TreeLstm>>},
    {"treegru", made<BlockTrees<TreeGru>>},
    {"mvrnn", made<BlockMatrixTree>},
    {"tagger", made<Tagger<BlockCell<CopyLstmCell>>>},
    {"lattice", made<Lattice<BlockCell<CopyLstmCell>>>},
    {"latticegru", made<Lattice<BlockCell<GruCell>>>},
};

void choose(dynet::DynetParams& params, int strategy) {
    params.autobatch = 0;
    params.ooc_autobatch = strategy;
    params.block_opt_flag = 1;
    dynet::global_timer.lock(); // it takes time
}
#else
const std::map<std::string, int> kStrategies = {{"none", 0}, {"agenda", 1}, {"depth", 2}};

const std::map<std::string, Maker> kModels = {
    {"tree", made<TreeLstm>},
    {"treegru", made<TreeGru>},
    {"mvrnn", made<MatrixTree>},
    {"tagger", made<Tagger<LstmCell>>},
    {"lattice", made<Lattice<RowCell<LstmCell>>>},
    {"latticegru", made<Lattice<RowCell<GruCell>>>},
};

void choose(dynet::DynetParams& params, int strategy) {
    params.autobatch = strategy;
}
#endif

struct Options {
    std::string model, weights, instances, dump;
    int strategy = kStrategies.begin()->second, repeat = 10, memory = 512;
    clockid_t clock = CLOCK_MONOTONIC;
};

Options parse(int argc, char** argv) {
    const std::map<std::string, clockid_t> clocks = {{"wall", CLOCK_MONOTONIC}, {"cpu", CLOCK_PROCESS_CPUTIME_ID}};
    if (argc < 4 || argc % 2 != 0) {
        throw std::runtime_error("usage: dynet_models MODEL WEIGHTS INSTANCES [--OPTION VALUE]...");
    }
    Options found;
    found.model = argv[1];
    found.weights = argv[2];
    found.instances = argv[3];
    for (int index = 4; index < argc; index += 2) {
        std::string name = argv[index], value = argv[index + 1];
        if (name == "--strategy") {
            found.strategy = kStrategies.at(value);
        } else if (name == "--repeat") {
            found.repeat = std::stoi(value);
        } else if (name == "--memory") {
            found.memory = std::stoi(value);
        } else if (name == "--clock") {
            found.clock = clocks.at(value);
        } else if (name == "--dump") {
            found.dump = value;
        } else {
            throw std::runtime_error("no option " + name);
        }
    }
    return found;
}

std::unique_ptr<Model> load(const Options& options) {
    Weights weights(options.weights);
    std::vector<std::string> lines;
    std::ifstream file(options.instances);
    for (std::string line; std::getline(file, line);) {
        lines.push_back(line);
    }
    auto found = kModels.find(options.model);
    if (found == kModels.end()) {
        throw std::runtime_error("no model " + options.model);
    }
    return found->second(weights, lines);
}

void dump(ComputationGraph& graph, const Outputs& outputs, const std::string& path) {
    std::ofstream file(path, std::ios::binary);
    for (const Expression& output : outputs) {
        std::vector<float> values = dynet::as_vector(graph.get_value(output));
        file.write(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
    }
}

double milliseconds(clockid_t clock, const std::function<void()>& work) {
    timespec start, end;
    clock_gettime(clock, &start);
    work();
    clock_gettime(clock, &end);
    return 1e3 * (end.tv_sec - start.tv_sec) + 1e-6 * (end.tv_nsec - start.tv_nsec);
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    size_t middle = values.size() / 2;
    return values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

void measure(Model& model, const Options& options) {
    const int warm = 3;
    std::vector<double> construction, forward, release;
    size_t nodes = 0;
    for (int run = 0; run < warm + options.repeat; ++run) {
        std::unique_ptr<ComputationGraph> graph;
        Outputs outputs;
        double made = milliseconds(options.clock, [&] {
            graph.reset(new ComputationGraph);
            outputs = model.build(*graph);
        });
        // The last output has the largest index, so all nodes are computed.
        double computed = milliseconds(options.clock, [&] { graph->forward(outputs.back()); });
        nodes = graph->nodes.size();
        // Only now, as the memory that this takes and frees would slow down later runs.
        if (run == warm + options.repeat - 1 && !options.dump.empty()) {
            dump(*graph, outputs, options.dump);
        }
        double deleted = milliseconds(options.clock, [&] { graph.reset(); });
        if (run >= warm) {
            construction.push_back(made);
            forward.push_back(computed);
            release.push_back(deleted);
        }
    }
    std::printf("%.4f %.4f %.4f %zu\n", median(construction), median(forward), median(release), nodes);
}

} // namespace

int main(int argc, char** argv) {
    try {
        Options options = parse(argc, argv);
        dynet::DynetParams params;
        params.random_seed = 1;
        choose(params, options.strategy);
        params.mem_descriptor = std::to_string(options.memory) + ",1,128,64";
        dynet::initialize(params);
        measure(*load(options), options);
    } catch (const std::exception& error) {
        std::cerr << "dynet_models: " << error.what() << "\n";
        return 1;
    }
    return 0;
}

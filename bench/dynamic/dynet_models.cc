// Dynamic models in DyNet: runs one mini-batch many times and prints medians.
//
//     dynet_models MODEL WEIGHTS INSTANCES [--strategy none|agenda|depth] [--repeat N] [--clock wall|cpu]
//                  [--memory MB] [--dump FILE]
//
// It prints `construction forward release nodes`: the milliseconds in which the graph of the whole mini-batch is made,
// computed and deleted, and how many nodes it has. Three runs warm up. `--memory` is what DyNet reserves for results.
//
// INSTANCES is text with one instance of the mini-batch in each line; words and characters are numbers.
//     tree       in postfix, with `+` for a node of two children: 3 17 + 5 +
//     tagger     the words: 3 17 5
//     lattice    the characters, and the words between two positions: 3 17 5 | 0:2:40 1:3:7
//
// WEIGHTS is in the format of `dynet_weights.h`. With hidden size H and embeddings of E elements:
//     tree       embedding [E, words], leaf.W [3H, E], leaf.b [3H], node.L [5H, H], node.R [5H, H], node.b [5H],
//                out.W [classes, H], out.b [classes]; the gates are i o u in a leaf and i fl fr o u in a node
//     tagger     embedding, forward.X [4H, E], forward.H [4H, H], forward.b [4H], backward.X, backward.H, backward.b,
//                out.F [classes, H], out.B [classes, H], out.b; the gates are i f o u
//     lattice    char.embedding, char.X, char.H, char.b, word.embedding, word.X, word.H, word.b, out.W, out.b
//
// --dump writes the outputs as 32-bit floats: the classes of each tree, word, or character, in the order of INSTANCES.

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <time.h>
#include <vector>

#include "dynet/dynet.h"
#include "dynet/expr.h"
#include "dynet/init.h"
#include "dynet/model.h"
#include "dynet_weights.h"

namespace {

using dynet::ComputationGraph;
using dynet::Expression;

using Outputs = std::vector<Expression>;

// A model with the mini-batch that it runs.
class Model {
  public:
    virtual ~Model() = default;
    virtual Outputs build(ComputationGraph& graph) = 0;

  protected:
    dynet::ParameterCollection collection_;
};

struct State {
    Expression h, c;
};

// The binary tree LSTM of Tai, Socher and Manning (2015), with words in the leaves only.
class Tree : public Model {
  public:
    Tree(const Weights& weights, const std::vector<std::string>& lines)
        : hidden_(weights.array("leaf.b").dims[0] / 3), embedding_(weights.table(collection_, "embedding")),
          leaf_(collection_, weights, {"leaf.b", "leaf.W"}),
          node_(collection_, weights, {"node.b", "node.L", "node.R"}), out_(collection_, weights, {"out.b", "out.W"}) {
        for (const std::string& line : lines) {
            std::istringstream stream(line);
            trees_.emplace_back();
            for (std::string token; stream >> token;) {
                trees_.back().push_back(token == "+" ? kNode : std::stoi(token));
            }
        }
    }

    Outputs build(ComputationGraph& graph) override {
        for (Group* group : {&leaf_, &node_, &out_}) {
            group->enter(graph);
        }
        Outputs found;
        for (const std::vector<int>& tree : trees_) {
            std::vector<State> stack;
            for (int token : tree) {
                if (token != kNode) {
                    stack.push_back(leaf(dynet::const_lookup(graph, embedding_, token)));
                    continue;
                }
                State right = stack.back();
                stack.pop_back();
                stack.back() = node(stack.back(), right);
            }
            found.push_back(dynet::affine_transform({out_[0], out_[1], stack.back().h}));
        }
        return found;
    }

  private:
    State leaf(const Expression& x) const {
        Expression gates = dynet::affine_transform({leaf_[0], leaf_[1], x});
        Expression i = dynet::logistic(gate(gates, 0)), o = dynet::logistic(gate(gates, 1));
        Expression c = dynet::cmult(i, dynet::tanh(gate(gates, 2)));
        return {dynet::cmult(o, dynet::tanh(c)), c};
    }

    State node(const State& left, const State& right) const {
        Expression gates = dynet::affine_transform({node_[0], node_[1], left.h, node_[2], right.h});
        Expression sigmoids = dynet::logistic(dynet::pick_range(gates, 0, 4 * hidden_));
        Expression u = dynet::tanh(gate(gates, 4));
        Expression c = dynet::sum(
            {dynet::cmult(gate(sigmoids, 0), u), dynet::cmult(gate(sigmoids, 1), left.c),
             dynet::cmult(gate(sigmoids, 2), right.c)}
        );
        return {dynet::cmult(gate(sigmoids, 3), dynet::tanh(c)), c};
    }

    Expression gate(const Expression& gates, unsigned index) const {
        return dynet::pick_range(gates, index * hidden_, (index + 1) * hidden_);
    }

    static constexpr int kNode = -1;
    unsigned hidden_;
    dynet::LookupParameter embedding_;
    Group leaf_, node_, out_;
    std::vector<std::vector<int>> trees_;
};

// An LSTM cell of DyNet's nodes for the gates, for c and for h. The first adds 1 to the input of the forget gate, which
// is taken off the bias here. DyNet 2.1 gives nodes for c and for h the same signature, so some get into one batch and
// have wrong values: that of `lattice` with `depth`.
class Cell {
  public:
    Cell(dynet::ParameterCollection& collection, const Weights& weights, const std::string& prefix)
        : hidden_(weights.array(prefix + ".H").dims[1]),
          group_(collection, weights, {prefix + ".X", prefix + ".H", prefix + ".b"}) {
        std::vector<float> bias = weights.array(prefix + ".b").values;
        for (unsigned index = hidden_; index < 2 * hidden_; ++index) {
            bias[index] -= 1;
        }
        group_.set(2, bias);
    }

    void enter(ComputationGraph& graph) {
        group_.enter(graph);
    }

    State initial(ComputationGraph& graph) const {
        Expression zeros = dynet::zeros(graph, {hidden_});
        return {zeros, zeros};
    }

    State operator()(const Expression& x, const State& before) const {
        Expression gates = dynet::vanilla_lstm_gates(x, before.h, group_[0], group_[1], group_[2]);
        Expression c = dynet::vanilla_lstm_c(before.c, gates);
        return {dynet::vanilla_lstm_h(c, gates), c};
    }

  private:
    unsigned hidden_;
    Group group_;
};

// A tagger with an LSTM in each direction.
class Tagger : public Model {
  public:
    Tagger(const Weights& weights, const std::vector<std::string>& lines)
        : embedding_(weights.table(collection_, "embedding")), forward_(collection_, weights, "forward"),
          backward_(collection_, weights, "backward"), out_(collection_, weights, {"out.b", "out.F", "out.B"}) {
        for (const std::string& line : lines) {
            std::istringstream stream(line);
            sentences_.emplace_back();
            for (unsigned word; stream >> word;) {
                sentences_.back().push_back(word);
            }
        }
    }

    Outputs build(ComputationGraph& graph) override {
        forward_.enter(graph);
        backward_.enter(graph);
        out_.enter(graph);
        State start = forward_.initial(graph);
        Outputs found;
        for (const std::vector<unsigned>& words : sentences_) {
            std::vector<Expression> inputs;
            for (unsigned word : words) {
                inputs.push_back(dynet::const_lookup(graph, embedding_, word));
            }
            std::vector<Expression> ahead, back(words.size());
            State state = start;
            for (const Expression& input : inputs) {
                state = forward_(input, state);
                ahead.push_back(state.h);
            }
            state = start;
            for (size_t index = words.size(); index-- > 0;) {
                state = backward_(inputs[index], state);
                back[index] = state.h;
            }
            for (size_t index = 0; index < words.size(); ++index) {
                found.push_back(dynet::affine_transform({out_[0], out_[1], ahead[index], out_[2], back[index]}));
            }
        }
        return found;
    }

  private:
    dynet::LookupParameter embedding_;
    Cell forward_, backward_;
    Group out_;
    std::vector<std::vector<unsigned>> sentences_;
};

// Each character and each word is a step of an LSTM, one for characters and one for words, from the state of the
// position where it starts. The state of a position is the sum of the states of all steps that end there.
class Lattice : public Model {
  public:
    Lattice(const Weights& weights, const std::vector<std::string>& lines)
        : chars_(weights.table(collection_, "char.embedding")), words_(weights.table(collection_, "word.embedding")),
          char_(collection_, weights, "char"), word_(collection_, weights, "word"),
          out_(collection_, weights, {"out.b", "out.W"}) {
        for (const std::string& line : lines) {
            lattices_.push_back(parse(line));
        }
    }

    Outputs build(ComputationGraph& graph) override {
        char_.enter(graph);
        word_.enter(graph);
        out_.enter(graph);
        State start = char_.initial(graph);
        Outputs found;
        for (const Instance& lattice : lattices_) {
            std::vector<State> states = {start};
            for (size_t end = 1; end < lattice.arcs.size(); ++end) {
                std::vector<Expression> h, c;
                for (const Arc& arc : lattice.arcs[end]) {
                    Expression x = dynet::const_lookup(graph, arc.word ? words_ : chars_, arc.label);
                    State state = (arc.word ? word_ : char_)(x, states[arc.start]);
                    h.push_back(state.h);
                    c.push_back(state.c);
                }
                states.push_back(h.size() == 1 ? State{h[0], c[0]} : State{dynet::sum(h), dynet::sum(c)});
                found.push_back(dynet::affine_transform({out_[0], out_[1], states.back().h}));
            }
        }
        return found;
    }

  private:
    struct Arc {
        unsigned start, label;
        bool word;
    };

    // The arcs that end at each position.
    struct Instance {
        std::vector<std::vector<Arc>> arcs;
    };

    static Instance parse(const std::string& line) {
        Instance found;
        found.arcs.emplace_back();
        std::istringstream stream(line);
        for (std::string token; stream >> token && token != "|";) {
            unsigned position = found.arcs.size() - 1;
            found.arcs.push_back({Arc{position, static_cast<unsigned>(std::stoul(token)), false}});
        }
        unsigned start, end, label;
        for (char colon; stream >> start >> colon >> end >> colon >> label;) {
            found.arcs.at(end).push_back({start, label, true});
        }
        return found;
    }

    dynet::LookupParameter chars_, words_;
    Cell char_, word_;
    Group out_;
    std::vector<Instance> lattices_;
};

struct Options {
    std::string model, weights, instances, dump;
    int strategy = 1, repeat = 10, memory = 512;
    clockid_t clock = CLOCK_MONOTONIC;
};

Options parse(int argc, char** argv) {
    const std::map<std::string, clockid_t> clocks = {{"wall", CLOCK_MONOTONIC}, {"cpu", CLOCK_PROCESS_CPUTIME_ID}};
    const std::map<std::string, int> strategies = {{"none", 0}, {"agenda", 1}, {"depth", 2}};
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
            found.strategy = strategies.at(value);
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
    if (options.model == "tree") {
        return std::unique_ptr<Model>(new Tree(weights, lines));
    }
    if (options.model == "tagger") {
        return std::unique_ptr<Model>(new Tagger(weights, lines));
    }
    if (options.model == "lattice") {
        return std::unique_ptr<Model>(new Lattice(weights, lines));
    }
    throw std::runtime_error("no model " + options.model);
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
        params.autobatch = options.strategy;
        params.mem_descriptor = std::to_string(options.memory) + ",1,128,64";
        dynet::initialize(params);
        measure(*load(options), options);
    } catch (const std::exception& error) {
        std::cerr << "dynet_models: " << error.what() << "\n";
        return 1;
    }
    return 0;
}

// Models of sentences and lattices: see `sources/sequences.py` for their weights.

#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "dynet_weights.h"

// An LSTM cell of DyNet's nodes for the gates, for c and for h. The first adds 1 to the input of the forget gate, which
// is taken off the bias here. DyNet 2.1 gives nodes for c and for h the same signature, so some get into one batch and
// have wrong values: that of `lattice` with `depth`.
class LstmCell {
  public:
    using State = LstmState;

    LstmCell(dynet::ParameterCollection& collection, const Weights& weights, const std::string& prefix)
        : hidden_(weights.array(prefix + "_h").dims[1]),
          group_(collection, weights, {prefix + "_x", prefix + "_h", prefix + "_b"}) {
        std::vector<float> bias = weights.array(prefix + "_b").values;
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

    static State joined(const std::vector<State>& states) {
        std::vector<Expression> h, c;
        for (const State& state : states) {
            h.push_back(state.h);
            c.push_back(state.c);
        }
        return {dynet::sum(h), dynet::sum(c)};
    }

    static Expression output(const State& state) {
        return state.h;
    }

    State operator()(const Expression& x, const State& before) const {
        Expression gates = dynet::vanilla_lstm_gates(x, before.h, group_[0], group_[1], group_[2]);
        Expression c = dynet::vanilla_lstm_c(before.c, gates);
        return {dynet::vanilla_lstm_h(c, gates), c};
    }

  protected:
    unsigned hidden_;

  private:
    Group group_;
};

class GruCell {
  public:
    using State = Expression;

    GruCell(dynet::ParameterCollection& collection, const Weights& weights, const std::string& prefix)
        : hidden_(weights.array(prefix + "_n").dims[0]),
          gates_(collection, weights, {prefix + "_x", prefix + "_b"}, 0, 2 * hidden_),
          new_(collection, weights, {prefix + "_x", prefix + "_b"}, 2 * hidden_, 3 * hidden_),
          state_(collection, weights, {prefix + "_h", prefix + "_n"}) {}

    void enter(ComputationGraph& graph) {
        gates_.enter(graph);
        new_.enter(graph);
        state_.enter(graph);
    }

    State initial(ComputationGraph& graph) const {
        return dynet::zeros(graph, {hidden_});
    }

    static State joined(const std::vector<State>& states) {
        return dynet::average(states);
    }

    static Expression output(const State& state) {
        return state;
    }

    State operator()(const Expression& x, const State& h) const {
        Expression gates = dynet::logistic(dynet::affine_transform({gates_[1], gates_[0], x, state_[0], h}));
        Expression r = dynet::pick_range(gates, 0, hidden_), z = dynet::pick_range(gates, hidden_, 2 * hidden_);
        Expression made = dynet::tanh(dynet::affine_transform({new_[1], new_[0], x, state_[1], dynet::cmult(r, h)}));
        return dynet::cmult(z, h) + dynet::cmult(1 - z, made);
    }

  protected:
    unsigned hidden_;

  private:
    Group gates_, new_, state_;
};

// A tagger with an LSTM in each direction.
template <typename Cell> class Tagger : public Model {
  public:
    Tagger(const Weights& weights, const std::vector<std::string>& lines)
        : embedding_(weights.table(collection_, "embedding")), forward_(collection_, weights, "forward"),
          backward_(collection_, weights, "backward"), out_(collection_, weights, {"out_b", "out_fw", "out_bw"}) {
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
        typename Cell::State start = forward_.initial(graph);
        Outputs found;
        for (const std::vector<unsigned>& words : sentences_) {
            std::vector<Expression> inputs;
            for (unsigned word : words) {
                inputs.push_back(dynet::const_lookup(graph, embedding_, word));
            }
            std::vector<Expression> ahead, back(words.size());
            typename Cell::State state = start;
            for (const Expression& input : inputs) {
                state = forward_(input, state);
                ahead.push_back(Cell::output(state));
            }
            state = start;
            for (size_t index = words.size(); index-- > 0;) {
                state = backward_(inputs[index], state);
                back[index] = Cell::output(state);
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

// A cell whose input is a row of a table.
template <typename Made> class RowCell : public Made {
  public:
    using State = typename Made::State;

    RowCell(
        dynet::ParameterCollection& collection, const Weights& weights, const std::string& prefix,
        const dynet::LookupParameter& table
    )
        : Made(collection, weights, prefix), table_(table) {}

    State operator()(ComputationGraph& graph, unsigned row, const State& before) const {
        return Made::operator()(dynet::const_lookup(graph, table_, row), before);
    }

  private:
    dynet::LookupParameter table_;
};

// Each character and each word is a step of a cell, one for characters and one for words, from the state of the
// position where it starts. The states of all steps that end at a position are joined.
template <typename Cell> class Lattice : public Model {
  public:
    Lattice(const Weights& weights, const std::vector<std::string>& lines)
        : chars_(weights.table(collection_, "char_embedding")), words_(weights.table(collection_, "word_embedding")),
          char_(collection_, weights, "char", chars_), word_(collection_, weights, "word", words_),
          out_(collection_, weights, {"out_b", "out_w"}) {
        for (const std::string& line : lines) {
            lattices_.push_back(parse(line));
        }
    }

    Outputs build(ComputationGraph& graph) override {
        char_.enter(graph);
        word_.enter(graph);
        out_.enter(graph);
        typename Cell::State start = char_.initial(graph);
        Outputs found;
        for (const Instance& lattice : lattices_) {
            std::vector<typename Cell::State> states = {start};
            for (size_t end = 1; end < lattice.arcs.size(); ++end) {
                std::vector<typename Cell::State> ending;
                for (const Arc& arc : lattice.arcs[end]) {
                    ending.push_back((arc.word ? word_ : char_)(graph, arc.label, states[arc.start]));
                }
                states.push_back(ending.size() == 1 ? ending[0] : Cell::joined(ending));
                found.push_back(dynet::affine_transform({out_[0], out_[1], Cell::output(states.back())}));
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

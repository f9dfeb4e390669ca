// The models on ED-Batch (Chen et al., ICML 2023), a fork of DyNet: each cell is a block, which the graph has as one
// node. Its expressions are those of the plain models, made once, for placeholders.
//
// Blocks are such that the library computes them right. It does not for one product of several weights,
// `matmul(w, x, false)`, which takes `x` for its transpose and, without MKL, adds to memory that is not zero. So gates
// are merged, as in the plain models. Analysis ahead of time (`block_opt_flag` of 2 or more) takes the weight that has
// the number of the operand instead of the operand. So the level is 1: batches and memory inside a block by PQ-trees.

#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <unordered_map>
#include <vector>

#include "dynet/ooc-block.h"
#include "dynet_sequences.h"
#include "dynet_trees.h"

using Expressions = std::vector<Expression>;

inline Expressions parts(const Expression& state) {
    return {state};
}

inline Expressions parts(const LstmState& state) {
    return {state.h, state.c};
}

inline Expressions parts(const VectorAndMatrix& state) {
    return {state.vector, state.matrix};
}

inline Expressions joined(Expressions first, const Expressions& second) {
    first.insert(first.end(), second.begin(), second.end());
    return first;
}

// The state whose parts begin at `first`.
template <typename State> State whole(const Expressions& parts, size_t first = 0);

template <> inline Expression whole(const Expressions& parts, size_t first) {
    return parts.at(first);
}

template <> inline LstmState whole(const Expressions& parts, size_t first) {
    return {parts.at(first), parts.at(first + 1)};
}

template <> inline VectorAndMatrix whole(const Expressions& parts, size_t first) {
    return {parts.at(first), parts.at(first + 1)};
}

// A function of inputs with the given dims, and of rows of tables, as a block.
class Block {
  public:
    using Enter = std::function<void(ComputationGraph&)>;
    using Body = std::function<Expressions(const Expressions&)>;

    // `enter` makes the expressions of the weights.
    Block(
        const Enter& enter, const std::vector<dynet::Dim>& inputs, const std::vector<dynet::LookupParameter>& tables,
        const Body& body
    ) {
        enter(block_);
        block_.finish_params();
        Expressions given;
        for (const dynet::Dim& dim : inputs) {
            given.push_back(block_.placeholder(dim, std::to_string(given.size())));
        }
        block_.finish_input();
        for (const dynet::LookupParameter& table : tables) {
            given.push_back(block_.lookup(table));
        }
        Expressions found = body(given);
        outputs_ = found.size();
        block_.output(found);
        block_.freeze();
    }

    Expressions
    operator()(ComputationGraph& graph, const Expressions& inputs, std::initializer_list<unsigned> rows = {}) const {
        std::unordered_map<std::string, Expression> given;
        for (const Expression& input : inputs) {
            given.emplace(std::to_string(given.size()), input);
        }
        Expression made = block_(&graph, given, rows);
        Expressions found;
        for (size_t index = 0; index < outputs_; ++index) {
            found.push_back(made[index]);
        }
        return found;
    }

  private:
    mutable OoC::Block block_;
    size_t outputs_ = 0;
};

// A model of trees with a block for a leaf and one for a node.
template <typename Made> class BlockTrees : public Made {
  public:
    using State = typename Made::State;

    BlockTrees(const Weights& weights, const std::vector<std::string>& lines)
        : Made(weights, lines), leaf_(
                                    [this](ComputationGraph& graph) { Made::enter(graph); }, {}, {Made::embedding_},
                                    [this](const Expressions& given) { return parts(Made::of_word(given[0])); }
                                ),
          node_(
              [this](ComputationGraph& graph) { Made::enter(graph); }, dims(), {},
              [this](const Expressions& given) {
                  return parts(Made::node(whole<State>(given), whole<State>(given, given.size() / 2)));
              }
          ) {}

  protected:
    State leaf(ComputationGraph& graph, unsigned word) const override {
        return whole<State>(leaf_(graph, {}, {word}));
    }

    State node(const State& left, const State& right) const override {
        Expressions given = joined(parts(left), parts(right));
        return whole<State>(node_(*given[0].pg, given));
    }

  private:
    // Those of both children; all vectors of a model of trees have the same size.
    std::vector<dynet::Dim> dims() const {
        return std::vector<dynet::Dim>(2 * sizeof(State) / sizeof(Expression), {Made::hidden_});
    }

    Block leaf_, node_;
};

// MV-RNN with a block for a node. Rows of tables cannot be results of a block.
class BlockMatrixTree : public MatrixTree {
  public:
    BlockMatrixTree(const Weights& weights, const std::vector<std::string>& lines)
        : MatrixTree(weights, lines),
          node_(
              [this](ComputationGraph& graph) { enter(graph); },
              {{hidden_}, {hidden_, hidden_}, {hidden_}, {hidden_, hidden_}}, {},
              [this](const Expressions& given) {
                  return parts(MatrixTree::node(whole<State>(given), whole<State>(given, 2)));
              }
          ) {}

  protected:
    State node(const State& left, const State& right) const override {
        return whole<State>(node_(*left.vector.pg, joined(parts(left), parts(right))));
    }

  private:
    Block node_;
};

// In a block, nodes see its results without their shapes, so that of h needs another c than the result.
class CopyLstmCell : public LstmCell {
  public:
    using LstmCell::LstmCell;

    State operator()(const Expression& x, const State& before) const {
        State made = LstmCell::operator()(x, before);
        return {made.h, dynet::identity(made.c)};
    }
};

// A step of a cell as a block, which looks up its input if it has a table.
template <typename Made> class BlockCell : public Made {
  public:
    using State = typename Made::State;

    BlockCell(dynet::ParameterCollection& collection, const Weights& weights, const std::string& prefix)
        : BlockCell(collection, weights, prefix, 1, {}) {}

    BlockCell(
        dynet::ParameterCollection& collection, const Weights& weights, const std::string& prefix,
        const dynet::LookupParameter& table
    )
        : BlockCell(collection, weights, prefix, 0, {table}) {}

    void enter(ComputationGraph&) {}

    State operator()(const Expression& x, const State& before) const {
        return whole<State>(step_(*x.pg, joined(parts(before), {x})));
    }

    State operator()(ComputationGraph& graph, unsigned row, const State& before) const {
        return whole<State>(step_(graph, parts(before), {row}));
    }

  private:
    BlockCell(
        dynet::ParameterCollection& collection, const Weights& weights, const std::string& prefix, size_t inputs,
        const std::vector<dynet::LookupParameter>& tables
    )
        : Made(collection, weights, prefix),
          step_(
              [this](ComputationGraph& graph) { Made::enter(graph); },
              std::vector<dynet::Dim>(inputs + sizeof(State) / sizeof(Expression), {Made::hidden_}), tables,
              [this](const Expressions& given) { return parts(Made::operator()(given.back(), whole<State>(given))); }
          ) {}

    Block step_;
};

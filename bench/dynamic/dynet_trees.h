// Models of binary trees: see `sources/trees.py` for their weights.

#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "dynet_weights.h"

// A tree for each line, in postfix, with `+` for a node of two children. `State` is what is computed for each node.
template <typename Computed> class Trees : public Model {
  public:
    using State = Computed;

    explicit Trees(const std::vector<std::string>& lines) {
        for (const std::string& line : lines) {
            std::istringstream stream(line);
            trees_.emplace_back();
            for (std::string token; stream >> token;) {
                trees_.back().push_back(token == "+" ? kNode : std::stoi(token));
            }
        }
    }

    Outputs build(ComputationGraph& graph) override {
        enter(graph);
        Outputs found;
        for (const std::vector<int>& tree : trees_) {
            std::vector<State> stack;
            for (int token : tree) {
                if (token != kNode) {
                    stack.push_back(leaf(graph, token));
                    continue;
                }
                State right = stack.back();
                stack.pop_back();
                stack.back() = node(stack.back(), right);
            }
            found.push_back(classes(stack.back()));
        }
        return found;
    }

  protected:
    virtual void enter(ComputationGraph& graph) = 0;
    virtual State leaf(ComputationGraph& graph, unsigned word) const = 0;
    virtual State node(const State& left, const State& right) const = 0;
    virtual Expression classes(const State& root) const = 0;

  private:
    static constexpr int kNode = -1;
    std::vector<std::vector<int>> trees_;
};

class TreeLstm : public Trees<LstmState> {
  public:
    TreeLstm(const Weights& weights, const std::vector<std::string>& lines)
        : Trees(lines), hidden_(weights.array("leaf_b").dims[0] / 3),
          embedding_(weights.table(collection_, "embedding")), leaf_(collection_, weights, {"leaf_b", "leaf_w"}),
          node_(collection_, weights, {"node_b", "node_l", "node_r"}), out_(collection_, weights, {"out_b", "out_w"}) {}

  protected:
    void enter(ComputationGraph& graph) override {
        for (Group* group : {&leaf_, &node_, &out_}) {
            group->enter(graph);
        }
    }

    LstmState leaf(ComputationGraph& graph, unsigned word) const override {
        return of_word(dynet::const_lookup(graph, embedding_, word));
    }

    LstmState of_word(const Expression& x) const {
        Expression gates = dynet::affine_transform({leaf_[0], leaf_[1], x});
        Expression i = dynet::logistic(part(gates, 0)), o = dynet::logistic(part(gates, 1));
        Expression c = dynet::cmult(i, dynet::tanh(part(gates, 2)));
        return {dynet::cmult(o, dynet::tanh(c)), c};
    }

    LstmState node(const LstmState& left, const LstmState& right) const override {
        Expression gates = dynet::affine_transform({node_[0], node_[1], left.h, node_[2], right.h});
        Expression sigmoids = dynet::logistic(dynet::pick_range(gates, 0, 4 * hidden_));
        Expression u = dynet::tanh(part(gates, 4));
        Expression c = dynet::sum(
            {dynet::cmult(part(sigmoids, 0), u), dynet::cmult(part(sigmoids, 1), left.c),
             dynet::cmult(part(sigmoids, 2), right.c)}
        );
        return {dynet::cmult(part(sigmoids, 3), dynet::tanh(c)), c};
    }

    Expression classes(const LstmState& root) const override {
        return dynet::affine_transform({out_[0], out_[1], root.h});
    }

    unsigned hidden_;
    dynet::LookupParameter embedding_;

  private:
    Expression part(const Expression& gates, unsigned index) const {
        return dynet::pick_range(gates, index * hidden_, (index + 1) * hidden_);
    }

    Group leaf_, node_, out_;
};

class TreeGru : public Trees<Expression> {
  public:
    TreeGru(const Weights& weights, const std::vector<std::string>& lines)
        : Trees(lines), hidden_(weights.array("leaf_w").dims[0]), embedding_(weights.table(collection_, "embedding")),
          weights_(collection_, weights, {"leaf_w", "gate_b", "gate_l", "gate_r", "new_l", "new_r", "out_w"}) {}

  protected:
    void enter(ComputationGraph& graph) override {
        weights_.enter(graph);
    }

    Expression leaf(ComputationGraph& graph, unsigned word) const override {
        return of_word(dynet::const_lookup(graph, embedding_, word));
    }

    Expression of_word(const Expression& x) const {
        return dynet::tanh(weights_[0] * x);
    }

    Expression node(const Expression& left, const Expression& right) const override {
        Expression gates =
            dynet::logistic(dynet::affine_transform({weights_[1], weights_[2], left, weights_[3], right}));
        Expression from_left = weights_[4] * dynet::cmult(part(gates, 0), left);
        Expression made = dynet::tanh(from_left + weights_[5] * dynet::cmult(part(gates, 1), right));
        Expression z = part(gates, 2);
        return dynet::cmult(z, left + right) * 0.5 + dynet::cmult(1 - z, made);
    }

    Expression classes(const Expression& root) const override {
        return weights_[6] * root;
    }

    unsigned hidden_;
    dynet::LookupParameter embedding_;

  private:
    Expression part(const Expression& gates, unsigned index) const {
        return dynet::pick_range(gates, index * hidden_, (index + 1) * hidden_);
    }

    Group weights_;
};

struct VectorAndMatrix {
    Expression vector, matrix;
};

class MatrixTree : public Trees<VectorAndMatrix> {
  public:
    MatrixTree(const Weights& weights, const std::vector<std::string>& lines)
        : Trees(lines), hidden_(weights.array("vector_b").dims[0]), vectors_(weights.table(collection_, "vectors")),
          matrices_(weights.table(collection_, "matrices")),
          weights_(collection_, weights, {"vector_b", "vector_l", "vector_r", "matrix_l", "matrix_r", "out_w"}) {}

  protected:
    void enter(ComputationGraph& graph) override {
        weights_.enter(graph);
    }

    VectorAndMatrix leaf(ComputationGraph& graph, unsigned word) const override {
        return {dynet::const_lookup(graph, vectors_, word), dynet::const_lookup(graph, matrices_, word)};
    }

    VectorAndMatrix node(const VectorAndMatrix& left, const VectorAndMatrix& right) const override {
        Expression from_left = right.matrix * left.vector, from_right = left.matrix * right.vector;
        Expression vector =
            dynet::tanh(dynet::affine_transform({weights_[0], weights_[1], from_left, weights_[2], from_right}));
        return {vector, weights_[3] * left.matrix + weights_[4] * right.matrix};
    }

    Expression classes(const VectorAndMatrix& root) const override {
        return weights_[5] * root.vector;
    }

    unsigned hidden_;

  private:
    dynet::LookupParameter vectors_, matrices_;
    Group weights_;
};

// What all models have: a mini-batch, and weights.
//
// The file of weights is binary, little-endian: for each tensor the length of its name, its name, its rank and its dims
// as 32-bit integers, and its elements as 32-bit floats. The first dim is the innermost: matrices are stored column by
// column.

#pragma once

#include <cstdint>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "dynet/dynet.h"
#include "dynet/expr.h"
#include "dynet/model.h"

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

struct LstmState {
    Expression h, c;
};

struct Array {
    std::vector<uint32_t> dims;
    std::vector<float> values;
};

class Weights {
  public:
    explicit Weights(const std::string& path) {
        std::ifstream file(path, std::ios::binary);
        for (uint32_t size; file.read(reinterpret_cast<char*>(&size), sizeof size);) {
            std::string name(size, ' ');
            file.read(&name[0], size);
            Array array;
            uint32_t rank = 0;
            file.read(reinterpret_cast<char*>(&rank), sizeof rank);
            array.dims.resize(rank);
            file.read(reinterpret_cast<char*>(array.dims.data()), rank * sizeof(uint32_t));
            size_t count = 1;
            for (uint32_t dim : array.dims) {
                count *= dim;
            }
            array.values.resize(count);
            file.read(reinterpret_cast<char*>(array.values.data()), count * sizeof(float));
            if (!file) {
                throw std::runtime_error(path + " ends within " + name);
            }
            arrays_[name] = array;
        }
    }

    const Array& array(const std::string& name) const {
        auto found = arrays_.find(name);
        if (found == arrays_.end()) {
            throw std::runtime_error("no weights " + name);
        }
        return found->second;
    }

    // The rows of a matrix or a vector from `first` to before `end`.
    Array rows(const std::string& name, size_t first, size_t end) const {
        const Array& whole = array(name);
        Array found = {whole.dims, {}};
        found.dims[0] = end - first;
        for (size_t column = 0; column < whole.values.size(); column += whole.dims[0]) {
            auto start = whole.values.begin() + column;
            found.values.insert(found.values.end(), start + first, start + end);
        }
        return found;
    }

    // A row of the table is a vector or a matrix.
    dynet::LookupParameter table(dynet::ParameterCollection& collection, const std::string& name) const {
        const Array& found = array(name);
        std::vector<long> dims(found.dims.begin(), found.dims.end() - 1);
        dynet::LookupParameter made = collection.add_lookup_parameters(found.dims.back(), dynet::Dim(dims));
        const size_t size = found.values.size() / found.dims.back();
        for (unsigned row = 0; row < found.dims.back(); ++row) {
            auto start = found.values.begin() + row * size;
            made.initialize(row, std::vector<float>(start, start + size));
        }
        return made;
    }

  private:
    std::map<std::string, Array> arrays_;
};

// Parameters, and their expressions in the current graph.
class Group {
  public:
    Group(dynet::ParameterCollection& collection, const Weights& weights, const std::vector<std::string>& names) {
        for (const std::string& name : names) {
            add(collection, weights.array(name));
        }
    }

    // Of each, the rows from `first` to before `end`.
    Group(
        dynet::ParameterCollection& collection, const Weights& weights, const std::vector<std::string>& names,
        size_t first, size_t end
    ) {
        for (const std::string& name : names) {
            add(collection, weights.rows(name, first, end));
        }
    }

    void enter(ComputationGraph& graph) {
        expressions_.clear();
        for (dynet::Parameter& parameter : parameters_) {
            expressions_.push_back(dynet::parameter(graph, parameter));
        }
    }

    void set(size_t index, const std::vector<float>& values) {
        parameters_[index].set_value(values);
    }

    const Expression& operator[](size_t index) const {
        return expressions_[index];
    }

  private:
    void add(dynet::ParameterCollection& collection, const Array& array) {
        std::vector<long> dims(array.dims.begin(), array.dims.end());
        parameters_.push_back(collection.add_parameters(dynet::Dim(dims)));
        parameters_.back().set_value(array.values);
    }

    std::vector<dynet::Parameter> parameters_;
    std::vector<dynet::Expression> expressions_;
};

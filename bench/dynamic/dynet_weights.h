// The weights of a model, in DyNet.
//
// Their file is binary, little-endian: for each tensor the length of its name, its name, its rank and its dims as
// 32-bit integers, and its elements as 32-bit floats. The first dim is the innermost: matrices are stored column by
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

    dynet::Parameter parameter(dynet::ParameterCollection& collection, const std::string& name) const {
        const Array& found = array(name);
        dynet::Parameter made =
            collection.add_parameters(dynet::Dim(std::vector<long>(found.dims.begin(), found.dims.end())));
        made.set_value(found.values);
        return made;
    }

    dynet::LookupParameter table(dynet::ParameterCollection& collection, const std::string& name) const {
        const Array& found = array(name);
        dynet::LookupParameter made = collection.add_lookup_parameters(found.dims.at(1), {found.dims[0]});
        for (unsigned row = 0; row < found.dims[1]; ++row) {
            auto start = found.values.begin() + row * found.dims[0];
            made.initialize(row, std::vector<float>(start, start + found.dims[0]));
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
            parameters_.push_back(weights.parameter(collection, name));
        }
    }

    void enter(dynet::ComputationGraph& graph) {
        expressions_.clear();
        for (dynet::Parameter& parameter : parameters_) {
            expressions_.push_back(dynet::const_parameter(graph, parameter));
        }
    }

    void set(size_t index, const std::vector<float>& values) {
        parameters_[index].set_value(values);
    }

    const dynet::Expression& operator[](size_t index) const {
        return expressions_[index];
    }

  private:
    std::vector<dynet::Parameter> parameters_;
    std::vector<dynet::Expression> expressions_;
};

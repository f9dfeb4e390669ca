"""PyTorch's jagged nested tensors: the encoders of `bench.ragged.models` in eager mode, on the packed batch.

The weights are those of the ONNX file, whose graph tells which is which: products with a weight are those of queries,
keys, values, the output of attention, and the two of the feed-forward part, layer by layer; each layer has two
normalisations, and a model that looks up embeddings has one more before the first layer. All else is what PyTorch
offers for these tensors: `linear`, `layer_norm`, and `scaled_dot_product_attention` of [batch, heads, length, head].
On CPUs PyTorch 2.13 has no fused kernel for the latter. It copies operands to nested tensors of its older layout,
pads them for the products, and computes softmax instance by instance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import helper, numpy_helper

from bench.ragged.models import MASK
from deploykit.checks.reference import Runner

Tensor = Any
Weights = Mapping[str, Tensor]
Function = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class _Layer:
    """The functions of a layer, from values to values. `project` are those of queries, keys and values."""

    project: tuple[Function, ...]
    output: Function
    widen: Function
    narrow: Function
    attended: Function
    fed: Function


def load(model: Path, threads: int) -> Runner:
    """A function that takes the packed batch (`Batch.packed`), and returns packed outputs."""
    torch.set_num_threads(threads)
    graph = onnx.load(model).graph
    weights = {tensor.name: torch.from_numpy(numpy_helper.to_array(tensor).copy()) for tensor in graph.initializer}
    names = [value.name for value in graph.input if value.name != MASK]
    tables = [weights[node.input[0]] for node in graph.node if node.op_type == "Gather" and _floats(node, weights)]
    norms = [_normalisation(node, weights) for node in graph.node if node.op_type == "LayerNormalization"]
    before = norms.pop(0) if len(norms) % 2 else None
    layers = _layers(_products(graph, weights), norms)
    heads = next(weights[node.input[1]].tolist()[2] for node in graph.node if node.op_type == "Reshape")
    activation = F.gelu if any(node.op_type == "Erf" for node in graph.node) else F.relu
    result = graph.output[0].name

    def run(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        with torch.inference_mode():
            lengths = torch.from_numpy(arrays["lengths"])
            offsets = F.pad(lengths.cumsum(0), (1, 0))
            given = [torch.from_numpy(arrays[name]) for name in names]
            if tables:
                places = torch.arange(len(given[0])) - offsets[:-1].repeat_interleave(lengths)
                given = [F.embedding(ids, table) for ids, table in zip([*given, places], tables, strict=False)]
            value = torch.nested.nested_tensor_from_jagged(sum(given[1:], given[0]), offsets)
            value = before(value) if before else value
            for layer in layers:
                value = layer.attended(value + _attention(layer, value, heads))
                value = layer.fed(value + layer.narrow(activation(layer.widen(value))))
            return {result: value.values().numpy()}

    return run


def _attention(layer: _Layer, value: Tensor, heads: int) -> Tensor:
    queries, keys, values = (project(value).unflatten(-1, (heads, -1)).transpose(1, 2) for project in layer.project)
    return layer.output(F.scaled_dot_product_attention(queries, keys, values).transpose(1, 2).flatten(-2))


def _layers(products: list[Function], norms: list[Function]) -> list[_Layer]:
    return [
        _Layer((queries, keys, values), output, widen, narrow, *norms[2 * number : 2 * number + 2])
        for number, (queries, keys, values, output, widen, narrow) in enumerate(
            tuple(products[start : start + 6]) for start in range(0, len(products), 6)
        )
    ]


def _products(graph: onnx.GraphProto, weights: Weights) -> list[Function]:
    """The products with a weight, each with the bias that the next node adds."""
    return [
        _linear(weights[product.input[1]].T.contiguous(), weights[bias.input[1]])
        for product, bias in zip(graph.node, graph.node[1:], strict=False)
        if product.op_type == "MatMul" and product.input[1] in weights
    ]


def _linear(weight: Tensor, bias: Tensor) -> Function:
    return lambda value: F.linear(value, weight, bias)


def _normalisation(node: onnx.NodeProto, weights: Weights) -> Function:
    _, scale, bias = node.input
    epsilon = next(helper.get_attribute_value(each) for each in node.attribute if each.name == "epsilon")
    width = weights[scale].shape
    return lambda value: F.layer_norm(value, width, weights[scale], weights[bias], epsilon)


def _floats(node: onnx.NodeProto, weights: Weights) -> bool:
    return node.input[0] in weights and bool(weights[node.input[0]].is_floating_point())

"""Inputs and outputs of integers: a quantised model without the conversions at its ends.

x: float -> QuantizeLinear -> q ...      becomes      q: int8 ..., called x
... q -> DequantizeLinear -> y: float    becomes      ... q: int8, called y
"""

from __future__ import annotations

import onnx
from onnx import TensorProto

from deploykit.errors import UsageError

QUANTIZE, DEQUANTIZE = "QuantizeLinear", "DequantizeLinear"


def with_integer_ends(model: onnx.ModelProto) -> list[str]:
    """Take the conversions off the ends of a model, in place. Returns the names of the inputs and outputs that stay
    as they are, because no conversion of their own stands there. Raises `UsageError` if none changes."""
    ends = [*model.graph.input, *model.graph.output]
    changed = {value.name for value in model.graph.input if _input(model.graph, value)}
    changed |= {value.name for value in model.graph.output if _output(model.graph, value)}
    if not changed:
        raise UsageError("no input and no output of the quantised model is converted at its end: leave out --io")
    return [value.name for value in ends if value.name not in changed]


def _input(graph: onnx.GraphProto, value: onnx.ValueInfoProto) -> bool:
    readers = [node for node in graph.node if value.name in node.input]
    if len(readers) != 1 or readers[0].op_type != QUANTIZE or value.name in {out.name for out in graph.output}:
        return False
    (first,) = readers
    integers = first.output[0]
    _retyped(graph, value, first)
    for node in graph.node:
        for position, name in enumerate(node.input):
            if name == integers:
                node.input[position] = value.name
    graph.node.remove(first)
    return True


def _output(graph: onnx.GraphProto, value: onnx.ValueInfoProto) -> bool:
    producers = [node for node in graph.node if value.name in node.output]
    if len(producers) != 1 or producers[0].op_type != DEQUANTIZE:
        return False
    (last,) = producers
    integers = last.input[0]
    made = any(integers in node.output for node in graph.node)
    read = any(value.name in node.input for node in graph.node)
    if not made or read or integers in {out.name for out in graph.output}:
        return False
    _retyped(graph, value, last)
    for node in graph.node:
        for names in (node.input, node.output):
            for position, name in enumerate(names):
                if name == integers:
                    names[position] = value.name
    graph.node.remove(last)
    return True


def _retyped(graph: onnx.GraphProto, value: onnx.ValueInfoProto, node: onnx.NodeProto) -> None:
    """Give an end the dtype of the zero point of its conversion; without one, it is uint8."""
    types = {tensor.name: tensor.data_type for tensor in graph.initializer}
    dtype = types[node.input[2]] if len(node.input) > 2 and node.input[2] in types else TensorProto.UINT8
    value.type.tensor_type.elem_type = dtype

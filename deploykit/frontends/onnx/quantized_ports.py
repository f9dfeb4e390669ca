"""The scale and zero point of quantised inputs and outputs: `number = (integer - zero_point) * scale`.

An input has those with which all nodes that read it dequantise it, an output those with which it was quantised. Both
may be reshaped or transposed in between. An input or an output of floats has none. Scales for each channel are not
stated.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from deploykit.compiler.model import Affine
from deploykit.frontends.onnx.tensors import elements

_READ = {"DequantizeLinear": (1, 2), "QLinearConv": (1, 2), "QLinearMatMul": (1, 2)}
_WRITTEN = {"QuantizeLinear": (1, 2), "QLinearConv": (6, 7), "QLinearMatMul": (6, 7)}
"""The positions of the scale and the zero point of an operator's first input, and of its result."""

_MOVES = frozenset({"Identity", "Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze"})
"""Operators that only move the elements of their first input."""


def of_input(value: ir.Value) -> Affine | None:
    """What the integers of an input mean."""
    found: set[Affine | None] = set()
    for node, position in value.uses():
        if position == 0 and node.op_type in _MOVES:
            found.add(of_input(node.outputs[0]))
        else:
            found.add(_affine(node, _READ) if position == 0 else None)
    return found.pop() if len(found) == 1 else None


def of_output(value: ir.Value) -> Affine | None:
    """What the integers of an output mean."""
    node = _source(value)
    return None if node is None else _affine(node, _WRITTEN)


def step_of_output(value: ir.Value) -> float | None:
    """How far neighbouring numbers of an output are apart: 1 for quantised ones, the scale for dequantised ones, None
    for others."""
    node = _source(value)
    if node is None:
        return None
    if node.op_type == "DequantizeLinear":
        affine = _affine(node, _READ)
        return None if affine is None else affine.scale
    return 1.0 if node.op_type in _WRITTEN else None


def steps_of(model: ir.Model) -> Mapping[str, float]:
    """`step_of_output` of each output that has a step."""
    steps = {value.name or "": step_of_output(value) for value in model.graph.outputs}
    return {name: step for name, step in steps.items() if step is not None}


def _source(value: ir.Value) -> ir.Node | None:
    """The node that computes the elements of a value."""
    node = value.producer()
    while node is not None and node.op_type in _MOVES and node.inputs[0] is not None:
        node = node.inputs[0].producer()
    return node


def _affine(node: ir.Node, positions: Mapping[str, tuple[int, int]]) -> Affine | None:
    if node.op_type not in positions:
        return None
    scale, zero = (_number(node, position) for position in positions[node.op_type])
    if scale is None:
        return None
    if zero is None:
        absent = len(node.inputs) <= positions[node.op_type][1] or node.inputs[positions[node.op_type][1]] is None
        return Affine(scale, 0) if absent else None
    return Affine(scale, int(zero))


def _number(node: ir.Node, position: int) -> float | None:
    """A constant input of one element."""
    value = node.inputs[position] if position < len(node.inputs) else None
    tensor = None if value is None else value.const_value
    if value is not None and tensor is None and (source := value.producer()) is not None:
        given = source.attributes.get("value") if source.op_type == "Constant" else None
        tensor = None if given is None else given.as_tensor()
    if tensor is None or tensor.size != 1:
        return None
    return float(np.asarray(elements(tensor), np.float64).reshape(()))

"""Finds the dims that may be 0 although nobody says so: those of what a decoder remembers, of which its first step has
nothing.

Such a dim is one of an input, along which the model joins the input with other elements behind it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import onnx_ir as ir

from deploykit.frontends.onnx.attributes import MICROSOFT
from deploykit.frontends.onnx.names import dim_name
from deploykit.frontends.onnx.registry import normalise_domain

_JOINED: Mapping[tuple[str, str], Mapping[int, int]] = {
    ("", "Attention"): {4: 2, 5: 2},
    (MICROSOFT, "Attention"): {4: 3},
    (MICROSOFT, "QAttention"): {8: 3},
    (MICROSOFT, "MultiHeadAttention"): {6: 2, 7: 2},
    (MICROSOFT, "GroupQueryAttention"): {3: 2, 4: 2},
}
"""By operator, its inputs that hold what came before, and the axis along which these grow."""

_SAME = ("Identity", "Cast")


def dims_that_may_be_empty(graph: ir.Graph) -> set[str]:
    """The names of these dims."""
    found = set()
    for port in graph.inputs:
        shape = () if port.shape is None else tuple(port.shape)
        for axis in _joined_axes(port):
            size = shape[axis] if -len(shape) <= axis < len(shape) else 0
            if isinstance(size, ir.SymbolicDim):
                found.add(dim_name(port.name or "", axis % len(shape), size.value))
    return found


def _joined_axes(value: ir.Value) -> Iterator[int]:
    """The axes along which a value is joined with others."""
    for node, position in value.uses():
        axis = node.attributes.get("axis")
        joined = _JOINED.get((normalise_domain(node.domain), node.op_type), {})
        if node.op_type == "Concat" and not node.domain and axis is not None:
            if position == 0 and any(other is not value for other in node.inputs):
                yield axis.as_int()
        elif position in joined:
            yield joined[position]
        elif node.op_type in _SAME and not node.domain:
            yield from _joined_axes(node.outputs[0])

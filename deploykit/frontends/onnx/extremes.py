"""Refuses models on which ONNX's own checks crash, take all memory, or find nothing, before these checks run:

* an axis that does not fit into 32 bits, in `axis`, `axes` and the like;
* a Split whose `num_outputs` is not the number of its outputs;
* a Scan whose `num_scan_inputs` is not between 1 and the number of its inputs;
* a flag, such as `keepdims`, that is neither 0 nor 1: its meaning would differ between runtimes;
* an Einsum whose equation has `...` twice in a term;
* a reference to an attribute of a function (`ref_attr_name`) outside of functions;
* a graph without outputs, of the model or in a node.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import onnx

from deploykit.errors import UnsupportedModelError
from deploykit.frontends.onnx.graphs import graphs_of

WIDEST_AXIS = 2**31 - 1

_AXES = frozenset(
    ("axis", "axes", "batch_axis", "time_axis", "batch_dims", "seq_axis", "scan_input_axes", "scan_output_axes")
)

_FLAGS = frozenset(
    (
        *("align_corners", "allowzero", "antialias", "ceil_mode", "center_point_box", "channels_last"),
        *("count_include_pad", "detect_negative", "detect_positive", "exclude_outside", "exclusive", "fmod"),
        *("inverse", "is_causal", "keepdims", "largest", "layout", "linear_before_reset", "noop_with_empty_axes"),
        *("onesided", "reverse", "saturate", "select_last_index", "sorted", "storage_order", "training_mode", "transA"),
        *("transB", "upper"),
    )
)


def refuse_extremes(model: onnx.ModelProto, label: str) -> None:
    """Raise `UnsupportedModelError` for the first faulty node; the message names it."""
    _check_graph(model.graph, label, "the model")
    for function in model.functions:
        for node in function.node:
            _check_node(node, label, in_function=True)


def _check_graph(graph: onnx.GraphProto, label: str, owner: str) -> None:
    if not graph.output:
        raise UnsupportedModelError(f"{label}: {owner} has no outputs, so nothing would be computed. Export it again.")
    for node in graph.node:
        _check_node(node, label, in_function=False)


def _check_node(node: onnx.NodeProto, label: str, *, in_function: bool) -> None:
    for reason in _faults(node, in_function):
        name = node.name or next((n for n in node.output if n), "")
        raise UnsupportedModelError(
            f"{label}: {node.op_type} '{name}': {reason}. Correct the model or export it again."
        )
    for attribute in node.attribute:
        for graph in graphs_of(attribute):
            _check_graph(graph, label, f"'{attribute.name}' of {node.op_type} '{node.name}'")


def _faults(node: onnx.NodeProto, in_function: bool) -> Iterator[str]:
    for attribute in node.attribute:
        if attribute.ref_attr_name and not in_function:
            yield f"its attribute '{attribute.name}' refers to one of a function, and the node is in none"
        if attribute.name in _AXES:
            for axis in (attribute.i, *attribute.ints):
                if abs(axis) > WIDEST_AXIS:
                    yield f"{attribute.name} {axis} is outside of every tensor"
        if attribute.name in _FLAGS and attribute.type == onnx.AttributeProto.INT and attribute.i not in (0, 1):
            yield f"{attribute.name} is {attribute.i}; it must be 0 or 1"
        if (node.op_type, attribute.name) == ("Split", "num_outputs") and attribute.i != len(node.output):
            yield f"num_outputs is {attribute.i}, and it has {len(node.output)} outputs"
        if attribute.name == "equation" and any(term.count(b".") > 3 for term in re.split(b",|->", attribute.s)):
            yield "its equation has '...' twice in a term"
        if attribute.name == "num_scan_inputs" and not 1 <= attribute.i <= len(node.input):
            yield f"num_scan_inputs is {attribute.i}, and it has {len(node.input)} inputs"

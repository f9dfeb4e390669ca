"""Finds the reason for a node whose importer failed with an unexpected exception.

ONNX's own shape inference decides. If it rejects the node, the model is at fault, and its message is the reason. If it
accepts the node, deploykit is at fault.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import onnx
import onnx.shape_inference
import onnx_ir as ir

from deploykit.compiler.operators.building.value import AnyValue, Value
from deploykit.errors import DeploykitError, InternalError
from deploykit.frontends.onnx.folding import inferred

if TYPE_CHECKING:
    from deploykit.frontends.onnx.node import Node

LONGEST_REASON = 240
LONGEST_ATTRIBUTE = 64
"""How many characters of an attribute's value are shown."""

_GRAPHS = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)


def reason_for(error: Exception, node: Node, inputs: Sequence[AnyValue | None], place: str) -> str:
    """Why a node cannot be imported, whose importer raised `error`. `place` is its position in the model.

    Raises `InternalError` if nothing is wrong with the node. An error that deploykit raised on purpose is raised
    again."""
    if isinstance(error, MemoryError):
        return f"it takes more memory than there is; {_given(node, inputs)}"
    if isinstance(error, OSError):
        return f"a tensor of it cannot be read from {error.filename or 'its file'}: {error.strerror or error}"
    on_purpose = isinstance(error, DeploykitError)
    reason = None if on_purpose and not isinstance(error, InternalError) else _inferred(node, inputs)
    if reason is not None:
        return reason
    if on_purpose:
        raise error
    at = f"at {node.op_type} '{node.name}' (opset {node.opset}), {place}, with {_given(node, inputs)}"
    raise InternalError(at, error) from error


def _inferred(node: Node, inputs: Sequence[AnyValue | None]) -> str | None:
    """The objection of ONNX's shape inference to the node; None if there is none, and for a node with graphs."""
    if any(attribute.type in _GRAPHS for attribute in node.attributes.values()):
        return None
    try:
        inferred(node, inputs)
    except onnx.shape_inference.InferenceError as found:
        return _plain(str(found))
    return None


def _plain(message: str) -> str | None:
    """The sentence of an inference error, without the place in ONNX's own sources."""
    words = " ".join(message.split()).split("==> Context")[0]
    for label in ("[ShapeInferenceError]", "[TypeInferenceError]"):
        words = words.split(label)[-1]
    return words.strip(" .:")[:LONGEST_REASON] or None


def _given(node: Node, inputs: Sequence[AnyValue | None]) -> str:
    """Dtypes and shapes of a node's inputs, and its attributes, for messages."""
    tensors = ", ".join(_described(value) for value in inputs) or "none"
    plain = [a for a in node.attributes.values() if a.type not in _GRAPHS]
    attributes = ", ".join(f"{a.name} = {_shown(a)}" for a in plain)
    return f"inputs {tensors}" + (f"; attributes {attributes}" if attributes else "")


def _shown(attribute: ir.Attr) -> str:
    if attribute.type == ir.AttributeType.TENSOR:
        return f"{attribute.value.dtype.name}{list(attribute.value.shape)}"
    return str(attribute.value)[:LONGEST_ATTRIBUTE]


def _described(value: AnyValue | None) -> str:
    if value is None:
        return "(absent)"
    if not isinstance(value, Value):
        return "(not a tensor)"
    return str(value)

"""Why a node cannot be imported, where its importer failed without giving a reason.

In this order: it has more or fewer operands than its operator takes; ONNX's own inference of shapes says what is wrong;
else what it was given, which the user can compare with the operator's specification.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import onnx
import onnx.shape_inference
import onnx_ir as ir

from deploykit.compiler.operators.building.value import AnyValue, Value
from deploykit.frontends.onnx.folding import inferred, schema_of

if TYPE_CHECKING:
    from deploykit.frontends.onnx.node import Node

LONGEST_REASON = 240
LONGEST_ATTRIBUTE = 64
"""Characters of an attribute's value that are shown."""


def misfit(node: Node, inputs: Sequence[AnyValue | None], error: Exception) -> str:
    """The reason to show for a node whose importer raised `error`."""
    if isinstance(error, MemoryError):
        return f"it takes more memory than there is; {_given(node, inputs)}"
    if isinstance(error, OSError):
        return f"a tensor of it cannot be read from {error.filename or 'its file'}: {error.strerror or error}"
    return (
        _wrong_count(node, inputs)
        or _inferred(node, inputs)
        or f"it cannot be computed as given: {_given(node, inputs)}"
    )


def _wrong_count(node: Node, inputs: Sequence[AnyValue | None]) -> str | None:
    schema = schema_of(node)
    if schema is None:
        return None
    for what, count, least, most in (
        ("input", len(inputs), schema.min_input, schema.max_input),
        ("output", len(node.outputs), schema.min_output, schema.max_output),
    ):
        if not least <= count <= most:
            allowed = f"{least}" if least == most else f"{least} to {most}"
            return f"it has {count} {what}s, the operator has {allowed}"
    return None


def _inferred(node: Node, inputs: Sequence[AnyValue | None]) -> str | None:
    """What ONNX's inference of shapes says against the node."""
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
    """Dtypes and shapes of a node's inputs, and its attributes."""
    tensors = ", ".join(_described(value) for value in inputs) or "none"
    plain = [a for a in node.attributes.values() if a.type not in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)]
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

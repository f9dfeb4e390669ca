"""Dropout, which passes its input on unless it trains."""

from __future__ import annotations

from tvm import tirx

from deploykit.frontends.onnx.broadcast import elementwise
from deploykit.frontends.onnx.context import Context
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import Unsupported, operator
from deploykit.frontends.onnx.value import Value


@operator("Dropout")
def dropout(
    ctx: Context, node: Node, x: Value, ratio: Value | None = None, training: Value | None = None
) -> tuple[Value, ...]:
    if training is not None and _may_drop(ratio, training):
        raise Unsupported("training mode draws random numbers; export the model for inference")
    if not node.uses_output(1):
        return (x,)
    dtype = "bool" if node.opset >= 10 else x.dtype
    return x, elementwise(ctx, "keep_all", lambda _: tirx.const(1, "bool"), x, dtype=dtype)


def _may_drop(ratio: Value | None, training: Value) -> bool:
    if training.array is not None and not training.array.reshape(-1)[0]:
        return False
    return ratio is None or ratio.array is None or bool(ratio.array.reshape(-1)[0])

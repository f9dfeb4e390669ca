"""ONNX: BatchNormalization (`compiler.operators.batch_normalization`)."""

from __future__ import annotations

from tvm import ir

from deploykit.compiler.operators.batch_normalization import normalise, statistics_of
from deploykit.compiler.operators.broadcast import elementwise
from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.errors import Unsupported
from deploykit.compiler.operators.value import Value
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator


@operator("BatchNormalization")
def batch_normalization(
    ctx: Context, node: Node, x: Value, scale: Value, shift: Value, mean: Value, variance: Value
) -> Value | tuple[Value, ...]:
    epsilon = node.float("epsilon", 1e-5)
    if node.opset < 9 and not node.int("spatial", 1):
        raise Unsupported("statistics for each position (spatial=0)")
    training = node.int("training_mode", 0) if node.opset >= 14 else 0
    if not training:
        return normalise(ctx, x, scale, shift, mean, variance, epsilon)
    momentum = node.float("momentum", 0.9)
    batch_mean, batch_variance = statistics_of(ctx, x, mean.dtype)

    def running(old: ir.Expr, new: ir.Expr) -> ir.Expr:
        return old * momentum + new * (1.0 - momentum)

    y = normalise(ctx, x, scale, shift, batch_mean, batch_variance, epsilon)
    return (
        y,
        elementwise(ctx, "running_mean", running, mean, batch_mean),
        elementwise(ctx, "running_variance", running, variance, batch_variance),
    )

"""Imports the ONNX operator BatchNormalization (`compiler.operators.batch_normalization`).

Opset 14 and later have a training mode."""

from __future__ import annotations

from deploykit.compiler.operators.batch_normalization import batch_normalization, batch_normalization_in_training
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.value import Value
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator


@operator("BatchNormalization")
def batch_normalization_operator(
    ctx: Context, node: Node, x: Value, scale: Value, shift: Value, mean: Value, variance: Value
) -> Value | tuple[Value, ...]:
    epsilon = node.float("epsilon", 1e-5)
    if node.opset < 9 and not node.int("spatial", 1):
        raise Unsupported("statistics for each position (spatial=0)")
    if node.opset < 14 or not node.int("training_mode", 0):
        return batch_normalization(ctx, x, scale, shift, mean=mean, variance=variance, epsilon=epsilon)
    momentum = node.float("momentum", 0.9)
    return batch_normalization_in_training(
        ctx, x, scale, shift, mean=mean, variance=variance, epsilon=epsilon, momentum=momentum
    )

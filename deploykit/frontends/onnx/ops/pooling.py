"""ONNX: MaxPool, AveragePool, LpPool, GlobalMaxPool, GlobalAveragePool, GlobalLpPool (`compiler.operators.pooling`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deploykit.compiler.operators import pooling
from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.value import Value
from deploykit.compiler.operators.windows import Windows
from deploykit.frontends.onnx.attributes import windows
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator

if TYPE_CHECKING:
    pass


@operator("MaxPool")
def max_pool(ctx: Context, node: Node, x: Value) -> tuple[Value | None, ...]:
    shape = _windows(ctx, node, x)
    if not node.uses_output(1):
        return (pooling.max_pool(ctx, x, shape), None)
    y = pooling.pool(ctx, x, shape, pooling.highest(x.dtype))
    return (y, pooling.positions(ctx, x, y, shape, column_major=node.int("storage_order", 0) == 1))


@operator("AveragePool")
def average_pool(ctx: Context, node: Node, x: Value) -> Value:
    shape = _windows(ctx, node, x)
    return pooling.pool(
        ctx, x, shape, pooling.average(ctx, x.dtype, shape, include_padding=node.int("count_include_pad", 0) == 1)
    )


@operator("LpPool")
def lp_pool(ctx: Context, node: Node, x: Value) -> Value:
    return pooling.pool(ctx, x, _windows(ctx, node, x), pooling.norm(x.dtype, node.int("p", 2)))


@operator("GlobalMaxPool")
def global_max_pool(ctx: Context, node: Node, x: Value) -> Value:
    return pooling.max_pool(ctx, x, pooling.one_window(x))


@operator("GlobalAveragePool")
def global_average_pool(ctx: Context, node: Node, x: Value) -> Value:
    shape = pooling.one_window(x)
    return pooling.pool(ctx, x, shape, pooling.average(ctx, x.dtype, shape, include_padding=False))


@operator("GlobalLpPool")
def global_lp_pool(ctx: Context, node: Node, x: Value) -> Value:
    return pooling.pool(ctx, x, pooling.one_window(x), pooling.norm(x.dtype, node.int("p", 2)))


def _windows(ctx: Context, node: Node, x: Value) -> Windows:
    return windows(ctx, node, x.shape[2:], node.ints("kernel_shape"), ceil_mode=node.int("ceil_mode", 0) == 1)

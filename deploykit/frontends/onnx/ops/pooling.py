"""Imports the ONNX operators MaxPool, AveragePool, LpPool, GlobalMaxPool, GlobalAveragePool, GlobalLpPool
(`compiler.operators.pooling`)."""

from __future__ import annotations

from deploykit.compiler.operators import pooling
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.building.windows import Windows
from deploykit.frontends.onnx.attributes import windows
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator


@operator("MaxPool")
def max_pool(ctx: Context, node: Node, x: Value) -> tuple[Value | None, ...]:
    column_major = node.int("storage_order", 0) == 1
    return pooling.max_pool(ctx, x, _windows(ctx, node, x), indices=node.uses_output(1), column_major=column_major)


@operator("AveragePool")
def average_pool(ctx: Context, node: Node, x: Value) -> Value:
    include_padding = node.int("count_include_pad", 0) == 1
    return pooling.average_pool(ctx, x, _windows(ctx, node, x), include_padding=include_padding)


@operator("LpPool")
def lp_pool(ctx: Context, node: Node, x: Value) -> Value:
    return pooling.lp_pool(ctx, x, _windows(ctx, node, x), _order(node))


@operator("GlobalMaxPool")
def global_max_pool(ctx: Context, node: Node, x: Value) -> tuple[Value | None, ...]:
    return pooling.max_pool(ctx, x, pooling.one_window(x))


@operator("GlobalAveragePool")
def global_average_pool(ctx: Context, node: Node, x: Value) -> Value:
    return pooling.average_pool(ctx, x, pooling.one_window(x))


@operator("GlobalLpPool")
def global_lp_pool(ctx: Context, node: Node, x: Value) -> Value:
    return pooling.lp_pool(ctx, x, pooling.one_window(x), _order(node))


def _order(node: Node) -> int:
    """The order of a norm. In opset 1 it is a float."""
    order = node.float("p", 2.0)
    if not order.is_integer():
        raise Unsupported(f"p is {order:g}; it must be an integer")
    return int(order)


def _windows(ctx: Context, node: Node, x: Value) -> Windows:
    return windows(ctx, node, x.shape[2:], node.ints("kernel_shape"), ceil_mode=node.int("ceil_mode", 0) == 1)

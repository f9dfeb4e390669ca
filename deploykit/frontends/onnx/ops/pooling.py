"""Imports the ONNX operators MaxPool, AveragePool, LpPool, GlobalMaxPool, GlobalAveragePool, GlobalLpPool
(`compiler.operators.pooling`)."""

from __future__ import annotations

from deploykit.compiler.operators import pooling
from deploykit.compiler.operators.building.context import Context
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
    return pooling.lp_pool(ctx, x, _windows(ctx, node, x), node.int("p", 2))


@operator("GlobalMaxPool")
def global_max_pool(ctx: Context, node: Node, x: Value) -> tuple[Value | None, ...]:
    return pooling.max_pool(ctx, x, pooling.one_window(x))


@operator("GlobalAveragePool")
def global_average_pool(ctx: Context, node: Node, x: Value) -> Value:
    return pooling.average_pool(ctx, x, pooling.one_window(x))


@operator("GlobalLpPool")
def global_lp_pool(ctx: Context, node: Node, x: Value) -> Value:
    return pooling.lp_pool(ctx, x, pooling.one_window(x), node.int("p", 2))


def _windows(ctx: Context, node: Node, x: Value) -> Windows:
    return windows(ctx, node, x.shape[2:], node.ints("kernel_shape"), ceil_mode=node.int("ceil_mode", 0) == 1)

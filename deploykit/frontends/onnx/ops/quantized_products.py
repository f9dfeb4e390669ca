"""Imports the ONNX operators MatMulInteger, QLinearMatMul, ConvInteger, QLinearConv
(`compiler.operators.quantized.products`)."""

from __future__ import annotations

from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.quantized import products
from deploykit.frontends.onnx.attributes import windows
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator


@operator("MatMulInteger")
def matmul_integer(
    ctx: Context, node: Node, a: Value, b: Value, a_zero: Value | None = None, b_zero: Value | None = None
) -> Value:
    return products.matmul_integer(ctx, a, b, a_zero, b_zero)


@operator("QLinearMatMul")
def qlinear_matmul(
    ctx: Context,
    node: Node,
    a: Value,
    a_scale: Value,
    a_zero: Value,
    b: Value,
    b_scale: Value,
    b_zero: Value,
    y_scale: Value,
    y_zero: Value,
) -> Value:
    return products.qlinear_matmul(ctx, a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero)


@operator("ConvInteger")
def conv_integer(
    ctx: Context, node: Node, x: Value, w: Value, x_zero: Value | None = None, w_zero: Value | None = None
) -> Value:
    shape = windows(ctx, node, x.shape[2:], w.shape[2:])
    return products.conv_integer(ctx, x, w, x_zero, w_zero, shape, node.int("group", 1))


@operator("QLinearConv")
def qlinear_conv(
    ctx: Context,
    node: Node,
    x: Value,
    x_scale: Value,
    x_zero: Value,
    w: Value,
    w_scale: Value,
    w_zero: Value,
    y_scale: Value,
    y_zero: Value,
    bias: Value | None = None,
) -> Value:
    shape = windows(ctx, node, x.shape[2:], w.shape[2:])
    return products.qlinear_conv(
        ctx, x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias, shape, node.int("group", 1)
    )

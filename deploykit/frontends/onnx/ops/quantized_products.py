"""ONNX: MatMulInteger, QLinearMatMul, ConvInteger, QLinearConv (`compiler.operators.quantized_products`)."""

from __future__ import annotations

from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.conv import conv
from deploykit.compiler.operators.integer_products import Operand, exact_conv
from deploykit.compiler.operators.quantized_products import by_channel, by_row, factor_of, matmul_of, quantize, shifted
from deploykit.compiler.operators.value import Value
from deploykit.frontends.onnx.attributes import windows
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator


@operator("MatMulInteger")
def matmul_integer(
    ctx: Context, node: Node, a: Value, b: Value, a_zero: Value | None = None, b_zero: Value | None = None
) -> Value:
    return matmul_of(ctx, a, by_row(ctx, a_zero), b, b_zero)


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
    product = matmul_of(ctx, a, by_row(ctx, a_zero), b, b_zero)
    factor = factor_of(ctx, by_row(ctx, a_scale), b_scale, by_row(ctx, y_scale))
    return quantize(ctx, product, factor, by_row(ctx, y_zero))


@operator("ConvInteger")
def conv_integer(
    ctx: Context, node: Node, x: Value, w: Value, x_zero: Value | None = None, w_zero: Value | None = None
) -> Value:
    return _conv(ctx, node, x, x_zero, w, by_channel(ctx, w_zero, w.rank))


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
    y = _conv(ctx, node, x, x_zero, w, by_channel(ctx, w_zero, w.rank))
    factor = factor_of(ctx, x_scale, by_channel(ctx, w_scale, w.rank - 1), y_scale)
    return quantize(ctx, y, factor, y_zero, by_channel(ctx, bias, w.rank - 1))


def _conv(ctx: Context, node: Node, x: Value, x_zero: Value | None, w: Value, w_zero: Value | None) -> Value:
    shape = windows(ctx, node, x.shape[2:], w.shape[2:])
    exact = exact_conv(ctx, Operand(x, x_zero), Operand(w, w_zero), shape, node.int("group", 1))
    if exact is not None:
        return exact.value(ctx)
    x, w = shifted(ctx, x, x_zero), shifted(ctx, w, w_zero)
    pads = (*shape.before, *shape.after)
    return conv(ctx, x, w, strides=shape.strides, pads=pads, dilations=shape.dilations, group=node.int("group", 1))

"""Products of quantised tensors: `matmul_integer`, `conv_integer`, `qlinear_matmul`, `qlinear_conv`.

Products are exact in int32 (`integer_products`) if possible. Otherwise zero points are subtracted first, and the
product of the differences is one of int32 tensors (for float8 operands, it is rounded in float32). The QLinear forms
scale the product by `scale of a * scale of b / scale of y` and quantise the result. Zero points and scales of a matrix
apply to all of it, or to the rows of the left or the columns of the right one; those of a filter apply to all of it, or
to its output channels. (Source: ONNX operators MatMulInteger, ConvInteger, QLinearMatMul, QLinearConv.)
"""

from __future__ import annotations

import numpy as np
from tvm import ir, tirx

from deploykit.compiler.operators.building.broadcast import elementwise
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.building.windows import Windows
from deploykit.compiler.operators.conv import conv
from deploykit.compiler.operators.elementwise import is_float
from deploykit.compiler.operators.matmul import wide_matmul
from deploykit.compiler.operators.quantized.integer_products import Operand, exact_conv, exact_matmul
from deploykit.compiler.operators.quantized.numbers import quantized, rounded, without_zero_point


def matmul_integer(ctx: Context, a: Value, b: Value, a_zero: Value | None = None, b_zero: Value | None = None) -> Value:
    """numpy.matmul, in int32, of 8-bit integers minus their zero points."""
    return _matmul(ctx, a, _by_row(ctx, a_zero), b, b_zero)


def qlinear_matmul(
    ctx: Context,
    a: Value,
    a_scale: Value,
    a_zero: Value,
    b: Value,
    b_scale: Value,
    b_zero: Value,
    y_scale: Value,
    y_zero: Value,
) -> Value:
    """numpy.matmul of quantised matrices, quantised by `y_scale` and `y_zero`."""
    product = _matmul(ctx, a, _by_row(ctx, a_zero), b, b_zero)
    factor = _factor(ctx, _by_row(ctx, a_scale), b_scale, _by_row(ctx, y_scale))
    return _quantize(ctx, product, factor, _by_row(ctx, y_zero))


def conv_integer(
    ctx: Context, x: Value, w: Value, x_zero: Value | None, w_zero: Value | None, windows: Windows, group: int = 1
) -> Value:
    """The convolution, in int32, of `x` (N, C, spatial axes) with `w` (M, C / group, taps): 8-bit integers minus their
    zero points."""
    return _conv(ctx, x, x_zero, w, _by_channel(ctx, w_zero, w.rank), windows, group)


def qlinear_conv(
    ctx: Context,
    x: Value,
    x_scale: Value,
    x_zero: Value,
    w: Value,
    w_scale: Value,
    w_zero: Value,
    y_scale: Value,
    y_zero: Value,
    bias: Value | None,
    windows: Windows,
    group: int = 1,
) -> Value:
    """The convolution of quantised tensors, with shapes as in `conv_integer`, plus `bias` (M,), which is int32 in units
    of `x_scale * w_scale`. The result is quantised by `y_scale` and `y_zero`."""
    y = _conv(ctx, x, x_zero, w, _by_channel(ctx, w_zero, w.rank), windows, group)
    factor = _factor(ctx, x_scale, _by_channel(ctx, w_scale, w.rank - 1), y_scale)
    return _quantize(ctx, y, factor, y_zero, _by_channel(ctx, bias, w.rank - 1))


def _matmul(ctx: Context, a: Value, a_zero: Value | None, b: Value, b_zero: Value | None) -> Value:
    """The product of `a - a_zero` and `b - b_zero` in int32, or in float32 for float8."""
    exact = exact_matmul(ctx, Operand(a, a_zero), Operand(b, b_zero))
    return (
        exact.value(ctx) if exact is not None else wide_matmul(ctx, _shifted(ctx, a, a_zero), _shifted(ctx, b, b_zero))
    )


def _conv(
    ctx: Context, x: Value, x_zero: Value | None, w: Value, w_zero: Value | None, windows: Windows, group: int
) -> Value:
    """The convolution of `x - x_zero` with `w - w_zero` in int32, or in float32 for float8."""
    exact = exact_conv(ctx, Operand(x, x_zero), Operand(w, w_zero), windows, group)
    if exact is not None:
        return exact.value(ctx)
    x, w = _shifted(ctx, x, x_zero), _shifted(ctx, w, w_zero)
    pads = (*windows.before, *windows.after)
    return conv(ctx, x, w, strides=windows.strides, pads=pads, dilations=windows.dilations, group=group)


def _shifted(ctx: Context, x: Value, zero: Value | None) -> Value:
    """`x - zero` as int32, or as float32 for float8."""
    dtype = "float32" if x.dtype.startswith("float") else "int32"
    if x.array is not None and dtype == "int32" and (zero is None or zero.array is not None):
        shift = 0 if zero is None or zero.array is None else zero.array.astype(np.int32)
        return ctx.constant(x.array.astype(np.int32) - shift, dtype)
    if zero is None:
        return ctx.cast(x, dtype)
    return elementwise(ctx, "shift", without_zero_point, x, zero, dtype=dtype)


def _by_row(ctx: Context, parameter: Value | None) -> Value | None:
    """A vector with one element per row of a matrix, as a column."""
    if parameter is None or parameter.rank != 1:
        return parameter
    return ctx.reshape(parameter, (parameter.shape[0], 1))


def _by_channel(ctx: Context, parameter: Value | None, rank: int) -> Value | None:
    """A vector with one element per output channel, reshaped for tensors whose channels are `rank` axes before the
    end."""
    if parameter is None or parameter.rank != 1:
        return parameter
    return ctx.reshape(parameter, (parameter.shape[0], *[1] * (rank - 1)))


def _factor(ctx: Context, *scales: Value | None) -> Value:
    """`a * b / y` for the scales of two operands and of their product, with each step in the scales' dtype."""
    given = [scale for scale in scales if scale is not None]
    arrays = [scale.array for scale in given if scale.array is not None]
    if len(arrays) == 3:
        return ctx.constant(arrays[0] * arrays[1] / arrays[2])
    return elementwise(ctx, "factor", lambda a, b, y: rounded(a * b, given[0].dtype) / y, *given)


def _quantize(ctx: Context, y: Value, factor: Value, zero: Value | None, bias: Value | None = None) -> Value:
    """`(y + bias) * factor + zero` in the dtype of `zero`."""
    assert zero is not None

    def function(total: ir.Expr, scale: ir.Expr, shift: ir.Expr, *addend: ir.Expr) -> ir.Expr:
        total = total + addend[0] if addend else total
        number = total if is_float(total) else tirx.Cast("float32", total)
        return quantized(number * scale, shift, zero.dtype)

    return elementwise(
        ctx, "requantize", function, y, factor, zero, *([] if bias is None else [bias]), dtype=zero.dtype
    )

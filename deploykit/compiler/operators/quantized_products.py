"""Products of quantised tensors: MatMulInteger, ConvInteger, QLinearMatMul, QLinearConv.

Products are exact in int32 (`integer_products`), or else zero points are subtracted first, and the product of what is
left is one of int32 tensors (of float8 operands, rounded in float32). The QLinear forms scale it by `scale of a * scale
of b / scale of y` and quantise the result. Zero points and scales of a matrix belong to all of it, to the rows of the
left or the columns of the right one; those of a filter to all of it or to its output channels.
"""

from __future__ import annotations

import numpy as np
from tvm import ir, tirx

from deploykit.compiler.operators.broadcast import elementwise
from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.elementwise import is_float
from deploykit.compiler.operators.integer_products import Operand, exact_matmul
from deploykit.compiler.operators.matmul import wide_matmul
from deploykit.compiler.operators.quantization import quantized, rounded, without_zero_point
from deploykit.compiler.operators.value import Value


def matmul_of(ctx: Context, a: Value, a_zero: Value | None, b: Value, b_zero: Value | None) -> Value:
    exact = exact_matmul(ctx, Operand(a, a_zero), Operand(b, b_zero))
    return exact.value(ctx) if exact is not None else wide_matmul(ctx, shifted(ctx, a, a_zero), shifted(ctx, b, b_zero))


def shifted(ctx: Context, x: Value, zero: Value | None) -> Value:
    """`x - zero` as int32, or float8 as float32."""
    dtype = "float32" if x.dtype.startswith("float") else "int32"
    if x.array is not None and dtype == "int32" and (zero is None or zero.array is not None):
        shift = 0 if zero is None or zero.array is None else zero.array.astype(np.int32)
        return ctx.constant(x.array.astype(np.int32) - shift, dtype)
    if zero is None:
        return ctx.cast(x, dtype)
    return elementwise(ctx, "shift", without_zero_point, x, zero, dtype=dtype)


def by_row(ctx: Context, parameter: Value | None) -> Value | None:
    """A vector with an element a row of a matrix, as a column."""
    if parameter is None or parameter.rank != 1:
        return parameter
    return ctx.reshape(parameter, (parameter.shape[0], 1))


def by_channel(ctx: Context, parameter: Value | None, rank: int) -> Value | None:
    """A vector with an element an output channel, for tensors whose channels are `rank` axes before the end."""
    if parameter is None or parameter.rank != 1:
        return parameter
    return ctx.reshape(parameter, (parameter.shape[0], *[1] * (rank - 1)))


def factor_of(ctx: Context, *scales: Value | None) -> Value:
    """`a * b / y` of the scales of two factors and of their product, each step in the scales' dtype."""
    given = [scale for scale in scales if scale is not None]
    arrays = [scale.array for scale in given if scale.array is not None]
    if len(arrays) == 3:
        return ctx.constant(arrays[0] * arrays[1] / arrays[2])
    return elementwise(ctx, "factor", lambda a, b, y: rounded(a * b, given[0].dtype) / y, *given)


def quantize(ctx: Context, y: Value, factor: Value, zero: Value | None, bias: Value | None = None) -> Value:
    assert zero is not None

    def function(total: ir.Expr, scale: ir.Expr, shift: ir.Expr, *addend: ir.Expr) -> ir.Expr:
        total = total + addend[0] if addend else total
        number = total if is_float(total) else tirx.Cast("float32", total)
        return quantized(number * scale, shift, zero.dtype)

    return elementwise(
        ctx, "requantize", function, y, factor, zero, *([] if bias is None else [bias]), dtype=zero.dtype
    )

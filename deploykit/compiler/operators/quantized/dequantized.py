"""Computes products of dequantised operands as integer products.

    sum (a - za) sa (b - zb) sb = (sum (a - za) (b - zb)) (sa sb)

The sum is exact in int32 (`integer_products`). Scaling, bias and other elementwise operators, including the
quantisation of the result, end up in the same kernel. The data must have one constant scale, and the weights one in all
or one per output. The functions return `None` for other operands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from tvm import ir, tirx

from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.operators.building.broadcast import elementwise
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.value import Quantized, Scaled, Value
from deploykit.compiler.operators.building.windows import Windows
from deploykit.compiler.operators.quantized.integer_products import Operand, Product, exact_conv, exact_matmul


def quantized_matmul(ctx: Context, a: Value, b: Value) -> Value | None:
    """numpy.matmul of dequantised matrices."""
    left, right = a.quantized, b.quantized
    if left is None or right is None or not _constant_scale(left, right) or not left.whole:
        return None
    columns = b.rank - 1
    zero, scale = (_along(ctx, right, v, columns, [-1]) for v in (right.zero, right.scale))
    if scale is None or (zero is None and right.zero is not None):
        return None
    product = exact_matmul(ctx, Operand(left.x, left.zero), Operand(right.x, zero))
    return None if product is None else _scaled(ctx, product, left.scale, scale, None)


def quantized_conv(ctx: Context, x: Value, w: Value, bias: Value | None, shape: Windows, groups: int) -> Value | None:
    """The convolution of a dequantised `x` (N, C, ...) with dequantised constant filters `w` (O, C / groups, ...)."""
    data, filters = x.quantized, w.quantized
    if data is None or filters is None or not _constant_scale(data, filters) or not data.whole:
        return None
    if bias is not None and bias.array is None:
        return None
    ones = [1] * (x.rank - 2)
    zero = _along(ctx, filters, filters.zero, 0, [-1, 1, *ones])
    scale = _along(ctx, filters, filters.scale, 0, [-1, *ones])
    if scale is None or (zero is None and filters.zero is not None):
        return None
    product = exact_conv(ctx, Operand(data.x, data.zero), Operand(filters.x, zero), shape, groups)
    column = None if bias is None or bias.array is None else ctx.constant(bias.array.reshape(-1, *ones))
    return None if product is None else _scaled(ctx, product, data.scale, scale, column)


def _constant_scale(*sources: Quantized) -> bool:
    return all(source.scale.array is not None and source.scale.dtype == "float32" for source in sources)


def _along(
    ctx: Context, source: Quantized, parameter: Value | None, axis: int, shape: Sequence[IntExpr]
) -> Value | None:
    """A parameter of `source` that is one number, or one per position of `axis`; the latter is returned as `shape`."""
    if parameter is None or parameter.array is None:
        return None
    if source.whole:
        return ctx.constant(parameter.array.reshape(()))
    return ctx.constant(parameter.array.reshape(shape)) if source.axis % source.x.rank == axis else None


def added(ctx: Context, x: Value, addend: Value) -> Value | None:
    """The sum of a product, as this module computes it, and a constant that broadcasts to it, added together with the
    bias."""
    if x.scaled is None or addend.array is None or addend.dtype != "float32" or addend.rank > x.rank:
        return None
    sizes = x.shape[x.rank - addend.rank :]
    if not all(n == 1 or (isinstance(size, int) and n == size) for n, size in zip(addend.shape, sizes, strict=True)):
        return None
    bias = (x.scaled.bias + addend.array.astype(np.float64)).astype(np.float32)
    while bias.ndim and bias.shape[0] == 1:
        bias = bias[0]
    return _of_integers(ctx, replace(x.scaled, bias=bias))


def _scaled(ctx: Context, product: Product, a: Value, b: Value, bias: Value | None) -> Value:
    """The product minus its surplus, times both scales, plus the bias."""
    assert a.array is not None
    assert b.array is not None
    factor = a.array.reshape(()) * b.array
    surplus = np.zeros((), np.float64) if product.surplus is None else product.surplus.astype(np.float64) * factor
    offset = ((0 if bias is None or bias.array is None else bias.array) - surplus).astype(np.float32)
    return _of_integers(ctx, Scaled(product.total, factor, offset))


def _of_integers(ctx: Context, scaled: Scaled) -> Value:
    def function(value: ir.Expr, by: ir.Expr, addend: ir.Expr) -> ir.Expr:
        return tirx.Cast("float32", value) * by + addend

    constants = ctx.constant(scaled.factor), ctx.constant(scaled.bias)
    y = elementwise(ctx, "scaled", function, scaled.total, *constants, dtype="float32")
    return replace(y, inexact=True, scaled=scaled)

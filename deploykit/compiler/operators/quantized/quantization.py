"""Quantisation: `quantize_linear`, `dequantize_linear`, `dynamic_quantize_linear`.

    y = saturate(round(x / scale) + zero point)        round to nearest, ties to even
    x = (y - zero point) * scale

Scales and zero points are scalars, or have one element per position along `axis`. If they are blocked, they have one
element per `block_size` positions along `axis`, for every position of the other axes. Quotients are rounded to the
precision that is asked for; sums with the zero point are exact. (Source: ONNX operators QuantizeLinear,
DequantizeLinear, DynamicQuantizeLinear.)

Dequantised values record their source, for integer products. Values computed from them are inexact anyway, so their
quotients are computed as products with the reciprocal of a constant scale. If a dequantised value is quantised again
with the same parameters, the result is its source (`requantization`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from tvm import ir, te, tirx

from deploykit.compiler.dtypes import is_narrow_float
from deploykit.compiler.operators.building.axes import from_front
from deploykit.compiler.operators.building.broadcast import elementwise
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.conversion import compute_dtype, load, store
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.expressions import compute
from deploykit.compiler.operators.building.integers import equal, expr
from deploykit.compiler.operators.building.moved import first_of
from deploykit.compiler.operators.building.reduce_axes import MAXIMUM, MINIMUM, reduce_axes
from deploykit.compiler.operators.building.value import Quantized, Value
from deploykit.compiler.operators.elementwise import is_float, like
from deploykit.compiler.operators.quantized.numbers import INTEGERS, RANGES, quantized, rounded, without_zero_point
from deploykit.compiler.operators.quantized.requantization import (
    codes,
    dequantized,
    is_single,
    looked_up,
    requantized,
    same,
    single,
    unclipped,
)
from deploykit.compiler.tir.extrema import maximum, minimum

_Position: TypeAlias = Callable[[Sequence[ir.Expr]], list[ir.Expr]]


def quantize_linear(
    ctx: Context,
    x: Value,
    scale: Value,
    zero_point: Value | None = None,
    *,
    dtype: str = "uint8",
    precision: str | None = None,
    axis: int = 1,
    block_size: int = 0,
    saturate: bool = True,
) -> Value:
    """`x` as numbers of logical `dtype`, which is that of `zero_point` if there is one. Quotients have the dtype
    `precision` (default: that of `scale`). Numbers out of range become the nearest number of `dtype`; without
    `saturate`, those of a float8 format become infinite or NaN. `axis` may count from the end; for `axis` and
    `block_size`, see the module.

    Raises `Unsupported` if the dtype is not a quantised one, or if scales do not fit `x`."""
    if dtype not in RANGES and not is_narrow_float(dtype):
        raise Unsupported(f"{dtype} is not a quantised dtype")
    if x.quantized is not None and same(x.quantized, scale, zero_point, dtype):
        return x.quantized.x
    precision = precision or scale.dtype
    whole = is_single(scale) and (zero_point is None or is_single(zero_point))
    if x.table is not None and x.table.heavy and whole:
        entries = quantize_linear(
            ctx, x.table.entries, scale, zero_point, dtype=dtype, precision=precision, saturate=saturate
        )
        return looked_up(ctx, x.table.index, entries)
    ends = None
    by = single(scale, zero_point, dtype) if dtype in INTEGERS and precision == x.dtype == "float32" else None
    if by is not None:
        x, by = unclipped(x, by)
        if x.quantized is not None and by.ends == RANGES[dtype] and same(x.quantized, scale, zero_point, dtype):
            return x.quantized.x
        product = requantized(ctx, x, by, dtype)
        if product is not None:
            return product
        ends = by.ends
    inverse = x.inexact and precision == x.dtype == "float32" and scale.array is not None and bool(scale.array.all())
    if inverse and scale.array is not None:
        scale = ctx.constant(np.float32(1) / scale.array)
    parameters = _Parameters(_Granularity(ctx, x, axis, block_size), scale, zero_point)
    source = x.last if x.last is not None and whole else x

    def build(*tensors: te.Tensor) -> te.Tensor:
        def element(*index: ir.Expr) -> ir.Expr:
            value = _as_float(load(tensors[0], x.dtype, index))
            step, shift = parameters.at(tensors[1:], index)
            factor = tirx.Cast(value.ty.dtype, step)
            quotient = rounded(value * factor if inverse else value / factor, precision)
            return quantized(quotient, shift, dtype, saturate=saturate, ends=ends)

        return compute(source.shape, element, name="quantize")

    y = ctx.kernel("quantize", build, source, *parameters.operands, dtype=dtype)
    return y if source is x else first_of(y)


def _as_float(value: ir.Expr) -> ir.Expr:
    """Integers in float64, which holds every int32; floats as they are."""
    return value if is_float(value) else tirx.Cast("float64", value)


def dequantize_linear(
    ctx: Context,
    x: Value,
    scale: Value,
    zero_point: Value | None = None,
    *,
    dtype: str = "float32",
    axis: int = 1,
    block_size: int = 0,
) -> Value:
    """The numbers of logical `dtype` that quantised numbers represent. Constant integers are dequantised at import, if
    `is_dequantized_at_import`. `axis` may count from the end; for `axis` and `block_size`, see the module.

    Raises `Unsupported` if scales do not fit `x`."""
    source = Quantized(x, scale, zero_point, axis)

    def restored(other: Value) -> Value:
        """The numbers of other integers. Single scales need no axis."""
        return dequantize_linear(ctx, other, scale, zero_point, dtype=dtype)

    source = replace(source, restored=restored) if source.whole else source
    if is_dequantized_at_import(x, scale, zero_point, dtype, block_size):
        return dequantized(source)
    if x.last is not None and source.whole:
        inner = dequantize_linear(ctx, x.last, scale, zero_point, dtype=dtype, axis=axis, block_size=block_size)
        return replace(first_of(inner), quantized=source, inexact=True, table=codes(source))
    parameters = _Parameters(_Granularity(ctx, x, axis, block_size), scale, zero_point)

    def build(*tensors: te.Tensor) -> te.Tensor:
        def element(*index: ir.Expr) -> ir.Expr:
            step, shift = parameters.at(tensors[1:], index)
            value = without_zero_point(load(tensors[0], x.dtype, index), shift)
            return store(tirx.Cast(compute_dtype(dtype), value) * step, dtype)

        return compute(x.shape, element, name="dequantize")

    y = ctx.kernel("dequantize", build, x, *parameters.operands, dtype=dtype)
    if block_size:
        return replace(y, inexact=True)
    return replace(y, quantized=source, inexact=True, table=codes(source))


def is_dequantized_at_import(
    x: Value, scale: Value, zero_point: Value | None, dtype: str = "float32", block_size: int = 0
) -> bool:
    """Whether `dequantize_linear` gives a constant."""
    constant = all(v.is_constant for v in (x, scale, zero_point) if v is not None)
    integer = x.array is not None and x.array.dtype.kind in "iu"
    return constant and integer and dtype == "float32" and not block_size


def dynamic_quantize_linear(ctx: Context, x: Value) -> tuple[Value, Value, Value]:
    """`x` as uint8, its scale, and its zero point. The range covers all elements and zero."""
    everything = range(x.rank)
    greatest = reduce_axes(ctx, "greatest", [x], everything, MAXIMUM, keepdims=False)
    least = reduce_axes(ctx, "least", [x], everything, MINIMUM, keepdims=False)

    def scale_of(high: ir.Expr, low: ir.Expr) -> ir.Expr:
        span = maximum(high, like(high, 0)) - minimum(low, like(low, 0))
        return tirx.Select(tirx.EQ(span, like(span, 0)), like(span, 1), span) / like(span, 255)

    scale = elementwise(ctx, "scale", scale_of, greatest, least)
    zero_point = elementwise(
        ctx,
        "zero_point",
        lambda low, s: quantized(-minimum(low, like(low, 0)) / s, None, "uint8"),
        least,
        scale,
        dtype="uint8",
    )
    y = elementwise(ctx, "quantize", lambda v, s, z: quantized(v / s, z, "uint8"), x, scale, zero_point, dtype="uint8")
    return y, scale, zero_point


class _Granularity:
    """Which element of a scale or zero point applies to an element of `x`."""

    def __init__(self, ctx: Context, x: Value, axis: int, block: int) -> None:
        self._ctx, self._x = ctx, x
        self._axis, self._block = axis, block

    def position(self, parameter: Value) -> _Position:
        """The index into `parameter` for an index of `x`. Raises `Unsupported` if its shape fits none of the
        granularities."""
        if is_single(parameter):
            return lambda _: [expr(0)] * parameter.rank
        rank = self._x.rank
        axis = from_front(self._axis, rank)
        if not self._block and parameter.rank == 1:
            size, length = parameter.shape[0], self._x.shape[axis]
            self._ctx.require(equal(size, length), f"{{}} scales for axis {axis} of size {{}}", size, length)
            return lambda index: [index[axis]]
        if parameter.rank != rank or not self._block:
            raise Unsupported(f"a scale of rank {parameter.rank} for a tensor of rank {rank}, block size {self._block}")
        last = expr(parameter.shape[axis]) - 1

        def blocked(index: Sequence[ir.Expr]) -> list[ir.Expr]:
            return [
                tirx.min(tirx.floordiv(v, expr(self._block)), last) if i == axis else v for i, v in enumerate(index)
            ]

        return blocked


class _Parameters:
    """The scale and zero point of a kernel: operands, or numbers in its code if they are single constants."""

    def __init__(self, granularity: _Granularity, scale: Value, zero: Value | None) -> None:
        given = [v for v in (scale, zero) if v is not None]
        self._positions = [granularity.position(v) for v in given]
        self._given = given
        self._numbers = [_number(v) for v in given]
        self.operands = [v for v, number in zip(given, self._numbers, strict=True) if number is None]

    def at(self, tensors: Sequence[te.Tensor], index: Sequence[ir.Expr]) -> tuple[ir.Expr, ir.Expr | None]:
        """The scale and zero point of an element. `tensors` are the operands."""
        remaining = iter(tensors)
        values = [
            number if number is not None else load(next(remaining), v.dtype, position(index))
            for v, number, position in zip(self._given, self._numbers, self._positions, strict=True)
        ]
        return values[0], values[1] if len(values) > 1 else None


def _number(parameter: Value) -> ir.Expr | None:
    """The number of a single constant of a plain dtype; None for other parameters."""
    if parameter.array is None or not is_single(parameter) or parameter.dtype not in ("float32", *INTEGERS):
        return None
    return tirx.const(parameter.array.reshape(()).item(), parameter.dtype)

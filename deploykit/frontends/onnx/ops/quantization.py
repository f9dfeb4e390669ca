"""Conversion between numbers and their quantised form: QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear.

    y = saturate(round(x / scale) + zero point)        round to nearest, ties to even
    x = (y - zero point) * scale

Scales and zero points are scalars, or have an element for each position along `axis`, or (blocked) for each
`block_size` positions along `axis` at every position of the other axes. Quotients are rounded to the precision that
ONNX asks for, `precision` or the scale's dtype; sums with the zero point are exact. (Source: ONNX operator schemas.)

Results of DequantizeLinear remember what they come from, for integer products. What is computed from them is inexact
anyway, so that its quotients are products with the reciprocal of a constant scale; and where such a value is quantised
again as it was, it is the integers that it came from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from tvm import ir, te, tirx

from deploykit.compiler.dtypes import is_narrow_float
from deploykit.compiler.operators.broadcast import compute_dtype, elementwise, load, store
from deploykit.compiler.operators.channels import first_of
from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.conversion import convert
from deploykit.compiler.operators.errors import Unsupported
from deploykit.compiler.operators.expressions import compute
from deploykit.compiler.operators.float_formats import decode
from deploykit.compiler.operators.integers import equal, expr, is_plain
from deploykit.compiler.operators.reduction import MAXIMUM, MINIMUM, reduce_axes
from deploykit.compiler.operators.value import Quantized, Table, Value, constant
from deploykit.frontends.onnx import folding
from deploykit.frontends.onnx.node import Node, from_front
from deploykit.frontends.onnx.ops.elementwise import is_float, like
from deploykit.frontends.onnx.registry import operator

_Position: TypeAlias = Callable[[Sequence[ir.Expr]], list[ir.Expr]]

RANGES = {
    f"{sign}int{bits}": (0, 2**bits - 1) if sign else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    for sign in ("", "u")
    for bits in (2, 4, 8, 16)
}
"""Least and greatest number of the quantised integer dtypes."""

INTEGERS = ("int8", "uint8", "int16", "uint16")
"""Those that storage holds as they are."""


def quantized(quotient: ir.Expr, zero_point: ir.Expr | None, dtype: str, *, saturate: bool = True) -> ir.Expr:
    """`saturate(round(quotient) + zero_point)` as an element of logical `dtype`, from a float32 or float64."""
    if dtype not in RANGES:
        if zero_point is not None and dtype == "float4_e2m1":
            quotient = quotient + zero_point
        return convert(quotient, dtype, saturate=saturate)
    low, high = (like(quotient, limit) for limit in RANGES[dtype])
    if zero_point is None:
        return convert(tirx.nearbyint(tirx.max(tirx.min(quotient, high), low)), dtype)
    shift = tirx.Cast(quotient.ty.dtype, zero_point)
    y = tirx.nearbyint(tirx.max(tirx.min(quotient, high - shift), low - shift))
    if dtype not in INTEGERS:
        return convert(y + shift, dtype)
    return tirx.Cast(dtype, tirx.Cast("int32", y) + tirx.Cast("int32", zero_point))


def without_zero_point(x: ir.Expr, zero_point: ir.Expr | None) -> ir.Expr:
    """`x - zero_point`, of integers as int32. Zero points of floats are zero."""
    if is_float(x):
        return x
    x = tirx.Cast("int32", x)
    return x if zero_point is None else x - tirx.Cast("int32", zero_point)


@operator("QuantizeLinear")
def quantize_linear(ctx: Context, node: Node, x: Value, scale: Value, zero_point: Value | None = None) -> Value:
    dtype = zero_point.dtype if zero_point is not None else node.dtype("output_dtype", "uint8")
    if dtype not in RANGES and not is_narrow_float(dtype):
        raise Unsupported(f"{dtype} is not a quantised dtype")
    if x.quantized is not None and _alike(x.quantized, scale, zero_point, dtype):
        return x.quantized.x
    precision = node.float_dtype("precision", scale.dtype)
    saturate = node.int("saturate", 1) == 1
    if x.table is not None and x.table.heavy and is_single(scale) and (zero_point is None or is_single(zero_point)):
        entries = quantize_linear(ctx, node, x.table.entries, scale, zero_point)
        assert isinstance(entries, Value)
        return _looked_up(ctx, x.table.index, entries)
    if dtype in INTEGERS and precision == x.dtype == "float32":
        again = _requantized(ctx, x, scale, zero_point, dtype)
        if again is not None:
            return again
    if x.last is not None and is_single(scale) and (zero_point is None or is_single(zero_point)):
        inner = quantize_linear(ctx, node, replace(x.last, inexact=x.inexact), scale, zero_point)
        assert isinstance(inner, Value)
        return first_of(inner)
    granularity = _Granularity(ctx, node, x)
    inverse = x.inexact and precision == x.dtype == "float32" and scale.array is not None and bool(scale.array.all())
    if inverse and scale.array is not None:
        scale = ctx.constant(np.float32(1) / scale.array)
    parameters = _Parameters(granularity, scale, zero_point)

    def build(*tensors: te.Tensor) -> te.Tensor:
        def element(*index: ir.Expr) -> ir.Expr:
            value = _float(load(tensors[0], x.dtype, index))
            step, shift = parameters.at(tensors[1:], index)
            factor = tirx.Cast(value.ty.dtype, step)
            quotient = rounded(value * factor if inverse else value / factor, precision)
            return quantized(quotient, shift, dtype, saturate=saturate)

        return compute(x.shape, element, name="quantize")

    return ctx.kernel("quantize", build, x, *parameters.operands, dtype=dtype)


@operator("DequantizeLinear")
def dequantize_linear(ctx: Context, node: Node, x: Value, scale: Value, zero_point: Value | None = None) -> Value:
    source = Quantized(x, scale, zero_point, node.int("axis", 1))
    dtype = node.dtype("output_dtype", scale.dtype)
    inputs = [v for v in (x, scale, zero_point) if v is not None]
    if all(v.is_constant for v in inputs):
        if dtype == "float32" and not node.int("block_size", 0) and _is_integer(x):
            return _dequantized(source)
        folded = folding.evaluate(node, inputs)
        if folded is not None:
            return constant(folded[0])
    if x.last is not None and source.whole:
        inner = dequantize_linear(ctx, node, x.last, scale, zero_point)
        assert isinstance(inner, Value)
        return replace(first_of(inner), quantized=source, inexact=True, table=_codes(source))
    granularity = _Granularity(ctx, node, x)
    parameters = _Parameters(granularity, scale, zero_point)

    def build(*tensors: te.Tensor) -> te.Tensor:
        def element(*index: ir.Expr) -> ir.Expr:
            step, shift = parameters.at(tensors[1:], index)
            value = without_zero_point(load(tensors[0], x.dtype, index), shift)
            return store(tirx.Cast(compute_dtype(dtype), value) * step, dtype)

        return compute(x.shape, element, name="dequantize")

    y = ctx.kernel("dequantize", build, x, *parameters.operands, dtype=dtype)
    if node.int("block_size", 0):
        return replace(y, inexact=True)
    return replace(y, quantized=source, inexact=True, table=_codes(source))


def _codes(source: Quantized) -> Table | None:
    """What each 8-bit integer stands for, where one constant scale and zero point say so."""
    if source.x.dtype not in ("int8", "uint8") or not source.whole or source.scale.dtype != "float32":
        return None
    if source.scale.array is None or (source.zero is not None and source.zero.array is None):
        return None
    low, high = RANGES[source.x.dtype]
    codes = replace(source, x=constant(np.arange(low, high + 1).astype(source.x.dtype)))
    return Table(source.x, replace(_dequantized(codes), quantized=None, inexact=True))


def _looked_up(ctx: Context, index: Value, entries: Value) -> Value:
    """The entry of each element of `index`."""
    if index.last is not None:
        return first_of(_looked_up(ctx, index.last, entries))
    low = RANGES[index.dtype][0]

    def build(x: te.Tensor, table: te.Tensor) -> te.Tensor:
        return compute(index.shape, lambda *i: table(tirx.Cast("int64", x(*i)) - low), name="look_up")

    return ctx.kernel("look_up", build, index, entries, dtype=entries.dtype)


def _is_integer(x: Value) -> bool:
    return x.array is not None and x.array.dtype.kind in "iu"


def _dequantized(source: Quantized) -> Value:
    """The constant that `source` stands for, in float32."""
    x, scale, zero = (None if v is None else v.array for v in (source.x, source.scale, source.zero))
    assert x is not None
    assert scale is not None

    def along(parameter: np.ndarray) -> np.ndarray:
        if source.whole:
            return parameter.reshape(())
        return parameter.reshape([-1 if axis == source.axis % x.ndim else 1 for axis in range(x.ndim)])

    shifted = x.astype(np.int32) if zero is None else x.astype(np.int32) - along(zero).astype(np.int32)
    return replace(constant(shifted.astype(np.float32) * along(scale)), quantized=source)


def is_single(parameter: Value) -> bool:
    """Whether a scale or zero point holds for a whole tensor."""
    return all(is_plain(n) and n == 1 for n in parameter.shape)


def _requantized(ctx: Context, x: Value, scale: Value, zero: Value | None, dtype: str) -> Value | None:
    """A product of integers from its sums, with one factor; `None` for other values. Bounds that quantised numbers
    have anyway are left out."""
    if scale.array is None or (zero is not None and zero.array is None) or not scale.array.all():
        return None
    if not is_single(scale) or (zero is not None and not is_single(zero)):
        return None
    step = float(scale.array.reshape(()))
    shift = 0 if zero is None or zero.array is None else int(zero.array.reshape(()))
    low, high = RANGES[dtype]
    first, last = (low - shift + 0.5) * step, (high - shift - 0.5) * step
    while x.clipped is not None and x.clipped.low <= first and x.clipped.high >= last:
        x = x.clipped.x
    if x.scaled is None:
        return None
    factor, bias = ((v / np.float32(step)).astype(np.float32) for v in (x.scaled.factor, x.scaled.bias))

    def function(total: ir.Expr, by: ir.Expr, addend: ir.Expr) -> ir.Expr:
        return quantized(tirx.Cast("float32", total) * by + addend, tirx.const(shift, dtype), dtype)

    operands = [x.scaled.total, ctx.constant(factor), ctx.constant(bias)]
    return elementwise(ctx, "requantize", function, *operands, dtype=dtype)


def _alike(source: Quantized, scale: Value, zero: Value | None, dtype: str) -> bool:
    """Whether quantising with these parameters gives what `source` holds."""
    if source.x.dtype != dtype or not source.whole or not is_single(scale):
        return False
    for given, own in ((scale, source.scale), (zero, source.zero)):
        a, b = (np.zeros(1) if v is None else v.array for v in (given, own))
        if a is None or b is None or a.reshape(-1)[0] != b.reshape(-1)[0]:
            return False
    return True


def _float(value: ir.Expr) -> ir.Expr:
    """Integers in double precision, which holds every int32."""
    return value if is_float(value) else tirx.Cast("float64", value)


def rounded(value: ir.Expr, dtype: str) -> ir.Expr:
    """`value` as close as logical `dtype` can hold it."""
    if dtype == "float16":
        return tirx.Cast("float32", tirx.Cast("float16", value))
    return decode(convert(value, "bfloat16"), "bfloat16") if dtype == "bfloat16" else value


class _Granularity:
    """Which element of a scale or zero point belongs to an element of `x`."""

    def __init__(self, ctx: Context, node: Node, x: Value) -> None:
        self._ctx, self._x = ctx, x
        self._block = node.int("block_size", 0)
        self._axis = node.int("axis", 1)

    def position(self, parameter: Value) -> _Position:
        """Raises `Unsupported` when the parameter's shape fits none of the granularities."""
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
    """Scale and zero point of a kernel: operands, or numbers in its code where they are single constants."""

    def __init__(self, granularity: _Granularity, scale: Value, zero: Value | None) -> None:
        given = [v for v in (scale, zero) if v is not None]
        self._positions = [granularity.position(v) for v in given]
        self._given = given
        self._numbers = [_number(v) for v in given]
        self.operands = [v for v, number in zip(given, self._numbers, strict=True) if number is None]

    def at(self, tensors: Sequence[te.Tensor], index: Sequence[ir.Expr]) -> tuple[ir.Expr, ir.Expr | None]:
        """Scale and zero point of an element; `tensors` are the operands."""
        remaining = iter(tensors)
        values = [
            number if number is not None else load(next(remaining), v.dtype, position(index))
            for v, number, position in zip(self._given, self._numbers, self._positions, strict=True)
        ]
        return values[0], values[1] if len(values) > 1 else None


def _number(parameter: Value) -> ir.Expr | None:
    """A single constant of a plain dtype."""
    if parameter.array is None or not is_single(parameter) or parameter.dtype not in ("float32", *INTEGERS):
        return None
    return tirx.const(parameter.array.reshape(()).item(), parameter.dtype)


@operator("DynamicQuantizeLinear")
def dynamic_quantize_linear(ctx: Context, node: Node, x: Value) -> tuple[Value, ...]:
    """uint8 with a range that holds all elements and zero."""
    everything = range(x.rank)
    greatest = reduce_axes(ctx, "greatest", [x], everything, MAXIMUM, keepdims=False)
    least = reduce_axes(ctx, "least", [x], everything, MINIMUM, keepdims=False)

    def scale_of(high: ir.Expr, low: ir.Expr) -> ir.Expr:
        span = tirx.max(high, like(high, 0)) - tirx.min(low, like(low, 0))
        return tirx.Select(tirx.EQ(span, like(span, 0)), like(span, 1), span) / like(span, 255)

    scale = elementwise(ctx, "scale", scale_of, greatest, least)
    zero_point = elementwise(
        ctx,
        "zero_point",
        lambda low, s: quantized(-tirx.min(low, like(low, 0)) / s, None, "uint8"),
        least,
        scale,
        dtype="uint8",
    )
    y = elementwise(ctx, "quantize", lambda v, s, z: quantized(v / s, z, "uint8"), x, scale, zero_point, dtype="uint8")
    return y, scale, zero_point

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

from dataclasses import replace

import numpy as np
from tvm import ir, te, tirx

from deploykit.compiler.operators.broadcast import elementwise
from deploykit.compiler.operators.channels import first_of
from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.conversion import convert
from deploykit.compiler.operators.elementwise import is_float, like
from deploykit.compiler.operators.expressions import compute
from deploykit.compiler.operators.float_formats import decode
from deploykit.compiler.operators.integers import is_plain
from deploykit.compiler.operators.value import Quantized, Table, Value, constant

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


def codes_of(source: Quantized) -> Table | None:
    """What each 8-bit integer stands for, where one constant scale and zero point say so."""
    if source.x.dtype not in ("int8", "uint8") or not source.whole or source.scale.dtype != "float32":
        return None
    if source.scale.array is None or (source.zero is not None and source.zero.array is None):
        return None
    low, high = RANGES[source.x.dtype]
    codes = replace(source, x=constant(np.arange(low, high + 1).astype(source.x.dtype)))
    return Table(source.x, replace(dequantized(codes), quantized=None, inexact=True))


def looked_up(ctx: Context, index: Value, entries: Value) -> Value:
    """The entry of each element of `index`."""
    if index.last is not None:
        return first_of(looked_up(ctx, index.last, entries))
    low = RANGES[index.dtype][0]

    def build(x: te.Tensor, table: te.Tensor) -> te.Tensor:
        return compute(index.shape, lambda *i: table(tirx.Cast("int64", x(*i)) - low), name="look_up")

    return ctx.kernel("look_up", build, index, entries, dtype=entries.dtype)


def is_integer(x: Value) -> bool:
    return x.array is not None and x.array.dtype.kind in "iu"


def dequantized(source: Quantized) -> Value:
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


def requantized(ctx: Context, x: Value, scale: Value, zero: Value | None, dtype: str) -> Value | None:
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


def alike(source: Quantized, scale: Value, zero: Value | None, dtype: str) -> bool:
    """Whether quantising with these parameters gives what `source` holds."""
    if source.x.dtype != dtype or not source.whole or not is_single(scale):
        return False
    for given, own in ((scale, source.scale), (zero, source.zero)):
        a, b = (np.zeros(1) if v is None else v.array for v in (given, own))
        if a is None or b is None or a.reshape(-1)[0] != b.reshape(-1)[0]:
            return False
    return True


def float_of(value: ir.Expr) -> ir.Expr:
    """Integers in double precision, which holds every int32."""
    return value if is_float(value) else tirx.Cast("float64", value)


def rounded(value: ir.Expr, dtype: str) -> ir.Expr:
    """`value` as close as logical `dtype` can hold it."""
    if dtype == "float16":
        return tirx.Cast("float32", tirx.Cast("float16", value))
    return decode(convert(value, "bfloat16"), "bfloat16") if dtype == "bfloat16" else value


def number_of(parameter: Value) -> ir.Expr | None:
    """A single constant of a plain dtype."""
    if parameter.array is None or not is_single(parameter) or parameter.dtype not in ("float32", *INTEGERS):
        return None
    return tirx.const(parameter.array.reshape(()).item(), parameter.dtype)

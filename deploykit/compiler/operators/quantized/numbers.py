"""The formula of quantisation: how a number becomes an element of a quantised tensor, and back.

    y = saturate(round(quotient) + zero point)        round to nearest, ties to even; NaN becomes the least number

Sums with the zero point are exact.
"""

from __future__ import annotations

from tvm import ir, tirx

from deploykit.compiler.operators.building.conversion import convert
from deploykit.compiler.operators.building.float_formats import decode
from deploykit.compiler.operators.elementwise import is_float, like

RANGES = {
    f"{sign}int{bits}": (0, 2**bits - 1) if sign else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    for sign in ("", "u")
    for bits in (2, 4, 8, 16)
}
"""The least and the greatest number of each quantised integer dtype."""

INTEGERS = ("int8", "uint8", "int16", "uint16")
"""The quantised dtypes that are stored without conversion."""


def quantized(
    quotient: ir.Expr,
    zero_point: ir.Expr | None,
    dtype: str,
    *,
    saturate: bool = True,
    ends: tuple[int, int] | None = None,
) -> ir.Expr:
    """`saturate(round(quotient) + zero_point)` as an element of logical `dtype`, from a float32 or float64. For an
    integer dtype, `ends` are the least and the greatest element, by default those of the dtype."""
    if dtype not in RANGES:
        if zero_point is not None and dtype == "float4_e2m1":
            quotient = quotient + zero_point
        return convert(quotient, dtype, saturate=saturate)
    low, high = (like(quotient, limit) for limit in ends or RANGES[dtype])
    if zero_point is None:
        return convert(tirx.Cast("int32", tirx.nearbyint(tirx.min(tirx.max(quotient, low), high))), dtype)
    shift = tirx.Cast(quotient.ty.dtype, zero_point)
    y = tirx.nearbyint(tirx.min(tirx.max(quotient, low - shift), high - shift))
    if dtype not in INTEGERS:
        return convert(tirx.Cast("int32", y + shift), dtype)
    return tirx.Cast(dtype, tirx.Cast("int32", y) + tirx.Cast("int32", zero_point))


def without_zero_point(x: ir.Expr, zero_point: ir.Expr | None) -> ir.Expr:
    """`x - zero_point`, as int32 for integers. Zero points of floats are zero."""
    if is_float(x):
        return x
    x = tirx.Cast("int32", x)
    return x if zero_point is None else x - tirx.Cast("int32", zero_point)


def rounded(value: ir.Expr, dtype: str) -> ir.Expr:
    """`value` rounded to logical `dtype`, in the dtype that it is computed in."""
    if dtype == "float16":
        return tirx.Cast("float32", tirx.Cast("float16", value))
    return decode(convert(value, "bfloat16"), "bfloat16") if dtype == "bfloat16" else value

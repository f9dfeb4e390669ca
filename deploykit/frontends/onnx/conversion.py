"""From a computed number to an element of any logical dtype.

    to bool             whether it differs from zero (NaN does)
    to an integer       integers keep their low bits; floats are cut off towards zero
    to a narrow float   rounded once to nearest even, see `narrow`
    to any other float  rounded to nearest even

What is beyond the range of an integer is left open by ONNX; here a float is first taken to the nearest int32 (int64
for 32-bit and wider targets) and NaN to zero, and then keeps its low bits. That is what compiled code does on x86
within that range, it is the same on every target, and no value makes it undefined.
"""

from __future__ import annotations

from tvm import ir, tirx

from deploykit.frontends.dtypes import is_narrow_float, is_raw, storage_dtype
from deploykit.frontends.onnx.narrow import encode, encode_e8m0, wrap

_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "uint8": 8, "uint16": 16, "uint32": 32, "uint64": 64}


def convert(value: ir.Expr, dtype: str, *, saturate: bool = True, round_mode: str = "up") -> ir.Expr:
    """`value` (of any storage dtype) as an element of logical `dtype`, in its storage dtype.

    `saturate` and `round_mode` are the attributes of ONNX `Cast`; they concern the float8 formats only."""
    source = str(value.ty.dtype)
    if dtype == "bool":
        return value if source == "bool" else value != tirx.const(0, source)
    if dtype == "float8_e8m0":
        return encode_e8m0(tirx.Cast("float32", value), round_mode, saturate=saturate)
    if is_narrow_float(dtype):
        return encode(value, dtype, saturate=saturate and dtype != "bfloat16")
    if is_raw(dtype):
        return wrap(_integer(value, "int32") if source.startswith("float") else value, dtype)
    target = storage_dtype(dtype)
    if source == target:
        return value
    if source.startswith("float") and target in _BITS:
        return _integer(value, target)
    return tirx.Cast(target, value)


def _integer(value: ir.Expr, target: str) -> ir.Expr:
    """A float cut off towards zero."""
    bits = _BITS[target]
    if target == "uint64":
        lower = tirx.Cast("uint64", _within(value, "int64", -(2**63), 2**63 - 1))
        return tirx.Select(value < _like(value, 2.0**63), lower, _within(value, "uint64", 0, 2**64 - 1))
    wide = "int32" if bits < 32 or target == "int32" else "int64"
    result = _within(value, wide, -(2 ** (_BITS[wide] - 1)), 2 ** (_BITS[wide] - 1) - 1)
    return result if wide == target else tirx.Cast(target, result)


def _within(value: ir.Expr, dtype: str, low: int, high: int) -> ir.Expr:
    """The float as `dtype`; `low` or `high`, which are the ends of its range, where it is beyond, and 0 for NaN."""
    outside = tirx.Select(value < _like(value, 0.0), tirx.const(low, dtype), tirx.const(0, dtype))
    inside = tirx.Select(value >= _like(value, float(low)), tirx.Cast(dtype, value), outside)
    return tirx.Select(value >= _like(value, float(high + 1)), tirx.const(high, dtype), inside)


def _like(value: ir.Expr, number: float) -> ir.Expr:
    return tirx.const(number, str(value.ty.dtype))

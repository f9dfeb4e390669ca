"""Converts a computed number to an element of any logical dtype.

    to bool             whether it differs from zero (NaN does)
    to an integer       integers keep their low bits; floats are cut off towards zero
    to a narrow float   rounded once to nearest even, see `narrow`
    to any other float  rounded to nearest even

ONNX does not define the result for a float outside of the range of an integer dtype. Here the float is first converted
to the nearest int32, and NaN to zero, as kernels do; then the low bits are kept. (int64 instead of int32 for uint32,
and for negative values that become uint64.) This is what compiled code does on x86 within that range, and it is the
same on every target.
"""

from __future__ import annotations

from tvm import ir, tirx

from deploykit.compiler.dtypes import is_narrow_float, is_raw, storage_dtype
from deploykit.compiler.operators.building.float_formats import encode, encode_e8m0, wrap

_THROUGH = {"int8": "int32", "int16": "int32", "uint8": "int32", "uint16": "int32", "uint32": "int64"}
"""The integer dtype that a float is converted to first. Kernels saturate at the ends of its range."""


def convert(value: ir.Expr, dtype: str, *, saturate: bool = True, round_mode: str = "up") -> ir.Expr:
    """`value` (of any storage dtype) as an element of logical `dtype`, in its storage dtype.

    `saturate` and `round_mode` are the attributes of ONNX `Cast`; they affect only the float8 formats."""
    source = str(value.ty.dtype)
    if dtype == "bool":
        return value if source == "bool" else tirx.NE(value, tirx.const(0, source))
    if dtype == "float8_e8m0":
        return encode_e8m0(tirx.Cast("float32", value), round_mode, saturate=saturate)
    if is_narrow_float(dtype):
        return encode(value, dtype, saturate=saturate and dtype != "bfloat16")
    if is_raw(dtype):
        return wrap(tirx.Cast("int32", value) if source.startswith("float") else value, dtype)
    target = storage_dtype(dtype)
    if source == target:
        return value
    if source.startswith("float") and target in _THROUGH:
        value = tirx.Cast(_THROUGH[target], value)
    if source.startswith("float") and target == "uint64":
        negative = tirx.Cast(target, tirx.Cast("int64", value))
        return tirx.Select(value < tirx.const(0, source), negative, tirx.Cast(target, value))
    return tirx.Cast(target, value)

"""Converts a computed number to an element of any logical dtype (`convert`, `store`), and back (`load`).

    to bool             whether it differs from zero (NaN does)
    to an integer       integers keep their low bits; floats are cut off towards zero
    to a narrow float   rounded once to nearest even, see `narrow`
    to any other float  rounded to nearest even

ONNX does not define the result for a float outside of the range of an integer dtype. Here it is that of NumPy and ONNX
Runtime on x86-64, on every target. A NaN, and a number that is too large, become `none`, the least number of a signed
dtype:

    to int32, int64                `none` of int32, int64
    to narrower integers           the low bits of the result for int32: 0 if that is `none`
    to uint32                      the low bits of the result for int64: 0 if that is `none`
    to uint64                      below 2^63 the bits of the result for int64; from there on 2^63 plus the result for
                                   the rest, so 0 if that is `none`

To uint32, x86-64 has one result for single numbers, which is this one, and another for vectors: NumPy and ONNX Runtime
give either for NaN and beyond -2^31 and 2^32.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tvm import ir, te, tirx

from deploykit.compiler.dtypes import is_narrow_float, is_raw, numpy_dtype, storage_dtype
from deploykit.compiler.operators.building.float_formats import decode, encode, encode_e8m0, wrap

_LEAST = {"int32": -(2**31), "int64": -(2**63)}
"""`none` of the dtypes that a float is converted to first."""

_OF_64_BITS = ("int64", "uint32", "uint64")


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
        return wrap(_cut_off(value, "int32") if source.startswith("float") else value, dtype)
    target = storage_dtype(dtype)
    if source == target:
        return value
    return _cut_off(value, target) if source.startswith("float") and "int" in target else tirx.Cast(target, value)


def cut_off(array: np.ndarray, dtype: str) -> np.ndarray:
    """Floats as elements of a logical integer `dtype`: what `convert` does, computed with NumPy."""
    values = array.astype(np.float64)
    first = "int64" if dtype in _OF_64_BITS else "int32"
    none, half = np.array(_LEAST[first], first), -float(_LEAST[first])
    above = (values >= half) & (dtype == "uint64")
    rest = np.where(above, values - half, values)
    fits = np.abs(rest) < half
    whole = np.where(fits, np.where(fits, rest, 0).astype(first), none)
    return np.where(above, whole ^ none, whole).astype(numpy_dtype(dtype))


def load(tensor: te.Tensor, dtype: str, index: Sequence[ir.Expr]) -> ir.Expr:
    """An element as a number to compute with: float16 and narrower floats become float32."""
    element = tensor(*index)
    if dtype == "float16":
        return tirx.Cast("float32", element)
    return decode(element, dtype) if is_narrow_float(dtype) else element


def store(value: ir.Expr, dtype: str) -> ir.Expr:
    """A computed number as an element of logical `dtype`."""
    return convert(value, dtype)


def compute_dtype(dtype: str) -> str:
    """The dtype in which elements of `dtype` are computed."""
    return "float32" if dtype == "float16" or is_narrow_float(dtype) else storage_dtype(dtype)


def _cut_off(value: ir.Expr, target: str) -> ir.Expr:
    """A float as an integer of dtype `target`."""
    if str(value.ty.dtype) == "float16":  # too narrow for the ends of a range
        value = tirx.Cast("float32", value)
    first = "int64" if target in _OF_64_BITS else "int32"
    none, half = tirx.const(_LEAST[first], first), tirx.const(-float(_LEAST[first]), str(value.ty.dtype))

    def whole(number: ir.Expr) -> ir.Expr:
        return tirx.Select(tirx.abs(number) < half, tirx.Cast(first, number), none)

    if target == "uint64":
        result = tirx.Select(value >= half, whole(value - half) ^ none, whole(value))
    else:
        result = whole(value)
    return result if first == target else tirx.Cast(target, result)

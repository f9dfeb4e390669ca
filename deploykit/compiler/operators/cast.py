"""Conversion between dtypes: Cast, BitCast.

`conversion` defines the value of a number in another dtype. `saturate` and `round_mode` concern the float8 formats.
BitCast keeps the bits; both dtypes must have the same width.
(Source: ONNX operators Cast, BitCast.)
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from onnx import numpy_helper
from tvm import ir, te, tirx

from deploykit.compiler.dtypes import logical_name, numpy_dtype, storage_dtype
from deploykit.compiler.operators.anchors.attention import ROUNDED
from deploykit.compiler.operators.building.broadcast import load
from deploykit.compiler.operators.building.conversion import convert, cut_off
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.expressions import compute
from deploykit.compiler.operators.building.value import Value, constant, known

if TYPE_CHECKING:
    from deploykit.compiler.operators.building.context import Context

_FOLDED = 1 << 20
"""Constants of at least this many elements are converted at run time, which keeps the smaller dtype in the weights."""


def cast(
    ctx: Context, value: Value, dtype: str, *, saturate: bool = True, round_mode: str = "up", free: bool = False
) -> Value:
    """`value` in another dtype, or `value` itself if it has this dtype. `free`: rounding is optional for a float that
    is converted back later."""
    if value.dtype == dtype:
        return value
    if value.array is not None and value.array.size < _FOLDED:
        return constant(_cast_array(value.array, dtype, saturate=saturate, round_mode=round_mode))
    if value.elements is not None and dtype in ("int64", "int32") and value.dtype in ("int64", "int32"):
        return known(value.elements, dtype)

    def build(x: te.Tensor) -> te.Tensor:
        def element(*index: ir.Expr) -> ir.Expr:
            return convert(load(x, value.dtype, index), dtype, saturate=saturate, round_mode=round_mode)

        floats = _is_float(value.dtype) and _is_float(dtype)
        return compute(
            value.shape, element, name="cast", attrs={ROUNDED: "free" if free else "exact"} if floats else {}
        )

    result = ctx.kernel("cast", build, value, dtype=dtype)
    return replace(result, narrow=value) if (value.dtype, dtype) == ("int32", "int64") else result


def bit_cast(ctx: Context, x: Value, dtype: str) -> Value:
    """The bits of `x` as elements of another dtype.

    Raises `Unsupported` if the dtype has another width."""
    if _width(x.dtype) != _width(dtype):
        raise Unsupported(f"{x.dtype} has {_width(x.dtype)} bits an element and {dtype} {_width(dtype)}")

    def build(t: te.Tensor) -> te.Tensor:
        def element(*index: ir.Expr) -> ir.Expr:
            bits = tirx.Cast("uint8", t(*index)) if x.dtype == "bool" else t(*index)
            if dtype == "bool":
                return convert(bits, "bool")
            if _width(dtype) < 8:
                return convert(bits, dtype) if "int" in dtype else convert(bits, "uint4")
            target = storage_dtype(dtype)
            return bits if str(bits.ty.dtype) == target else tirx.reinterpret(target, bits)

        return compute(x.shape, element, name="bitcast")

    return ctx.kernel("bitcast", build, x, dtype=dtype)


def _cast_array(array: np.ndarray, dtype: str, *, saturate: bool = True, round_mode: str = "up") -> np.ndarray:
    """ONNX `Cast` of a constant, computed with numpy."""
    target = numpy_dtype(dtype)
    with np.errstate(all="ignore"):
        if dtype == "float8_e8m0":
            return numpy_helper.to_float8e8m0(array, saturate, round_mode)
        if dtype.startswith("float8") and saturate:
            return numpy_helper.saturate_cast(array, target)
        if "int" in dtype and logical_name(array.dtype).startswith(("float", "bfloat")):
            return cut_off(array, dtype)
        return array.astype(target)


def _is_float(dtype: str) -> bool:
    return dtype in ("float16", "bfloat16", "float32")


def _width(dtype: str) -> int:
    """Bits of one element; a bool has 8."""
    digits = re.search(r"\d+", dtype)
    return int(digits.group()) if digits else 8

"""Conversion between dtypes: Cast, BitCast.

`conversion` defines the value of a number in another dtype. `saturate` and `round_mode` concern the float8 formats.
A cast is made by `Context.cast`, because the builder needs casts, too. BitCast keeps the bits; both dtypes must have
the same width.
(Source: ONNX operators Cast, BitCast.)
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tvm import ir, te, tirx

from deploykit.compiler.dtypes import storage_dtype
from deploykit.compiler.operators.building.conversion import convert
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.expressions import compute
from deploykit.compiler.operators.building.value import Value

if TYPE_CHECKING:
    from deploykit.compiler.operators.building.context import Context


def cast(
    ctx: Context, value: Value, dtype: str, *, saturate: bool = True, round_mode: str = "up", free: bool = False
) -> Value:
    """`value` in another dtype, or `value` itself if it has this dtype. `free`: rounding is optional for a float that
    is converted back later."""
    return ctx.cast(value, dtype, saturate=saturate, round_mode=round_mode, free=free)


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


def _width(dtype: str) -> int:
    """Bits of one element; a bool has 8."""
    digits = re.search(r"\d+", dtype)
    return int(digits.group()) if digits else 8

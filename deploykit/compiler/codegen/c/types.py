"""The C spelling of TIR dtypes and literals.

A buffer's element type (`storage_type`) and the type of a value in an expression (`value_type`) differ for one dtype:
`float16` is stored as `uint16_t` and computed as a `float` that is representable in half precision.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from tvm.ir import Expr

_STORAGE = {
    "bool": "uint8_t",
    "float16": "uint16_t",
    "float32": "float",
    "float64": "double",
    **{f"{sign}int{bits}": f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}


def storage_type(dtype: str) -> str:
    """The C type of a buffer element. Raises `ValueError` for a dtype without one (vectors, bfloat16, ...)."""
    if dtype not in _STORAGE:
        raise ValueError(f"dtype `{dtype}` has no portable C type")
    return _STORAGE[dtype]


def value_type(dtype: str) -> str:
    """The C type of a value of that dtype inside an expression."""
    return "float" if dtype == "float16" else storage_type(dtype)


def dtype_of(expr: Expr) -> str:
    """The dtype of an expression."""
    return str(expr.ty.dtype)


def short(dtype: str) -> str:
    """The short name of a dtype in support functions: `float32` -> `f32`, `uint8` -> `u8`."""
    return dtype.replace("float", "f").replace("uint", "u").replace("int", "i")


def computed(dtype: str) -> str:
    """The dtype in which operations on a dtype are computed."""
    return "float32" if dtype == "float16" else dtype


def is_float(dtype: str) -> bool:
    return dtype.startswith("float")


def is_unsigned(dtype: str) -> bool:
    return dtype.startswith("uint")


def bits(dtype: str) -> int:
    """Bits of a numeric dtype such as `int32`."""
    return int(re.sub(r"\D", "", dtype))


def integer_range(dtype: str) -> tuple[int, int]:
    """Smallest and largest value of an integer dtype."""
    width = bits(dtype)
    return (0, 2**width - 1) if is_unsigned(dtype) else (-(2 ** (width - 1)), 2 ** (width - 1) - 1)


def integer_literal(value: int, dtype: str) -> str:
    """A constant expression of that value, at least as wide as `int`."""
    if dtype == "bool":
        return "1" if value else "0"
    low, high = integer_range(dtype)
    if is_unsigned(dtype):
        value %= high + 1
        if bits(dtype) < 32:
            return str(value)
        return f"{value}u" if value < 2**32 else f"UINT64_C({value})"
    if value == low and bits(dtype) >= 32:
        return f"INT{bits(dtype)}_MIN"
    if -(2**31) < value < 2**31:
        return str(value)
    return f"INT64_C({value})" if value > 0 else f"-INT64_C({-value})"


def float_literal(value: float, dtype: str) -> str:
    """The shortest decimal that reads back as exactly that value; `INFINITY` and `NAN` of <math.h> otherwise."""
    if math.isnan(value):
        return "NAN"
    if math.isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    if dtype == "float64":
        return repr(value)
    return f"{np.float32(value)!s}f"

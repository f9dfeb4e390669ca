"""The WGSL spelling of TIR dtypes. WGSL has `f32`, `i32`, `u32` and `bool`, and on some devices `f16`.

| TIR | in memory | as a value |
|---|---|---|
| float32 | `f32` | `f32` |
| float16 | `f16`, or half of a `u32` | `f32` that is rounded where it is stored |
| int32, uint32 | `i32`, `u32` | the same |
| 8 and 16 bits, bool | part of a `u32` | `i32`, `u32`, `bool` |
| int64 from memory | `vec2<u32>`, the low half first | the same |
| int64 of indices and sizes | | `i32`; larger values are refused before the shader runs |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deploykit.compiler.codegen.c.types import bits
from deploykit.compiler.codegen.shaders.errors import NoShader

if TYPE_CHECKING:
    from tvm.ir import Expr

WIDE = "vec2<u32>"
"""A 64-bit integer: its low half, then its high half."""

LANES = 4
"""The number of elements of a vector in these shaders; every device of this language has it as `Gpu.lanes`."""

_VALUES = {
    "bool": "bool",
    **dict.fromkeys(("float32", "float16"), "f32"),
    **dict.fromkeys(("int8", "int16", "int32", "int64"), "i32"),
    **dict.fromkeys(("uint8", "uint16", "uint32"), "u32"),
}


def value_type(dtype: str, *, wide: bool = False) -> str:
    """The WGSL type of a value. Raises `NoShader` for a dtype without one."""
    if dtype not in _VALUES:
        raise NoShader(f"{dtype} has no type in WGSL")
    kind = _VALUES[dtype]
    return WIDE if wide and kind in ("i32", "u32") else kind


def packed(dtype: str) -> int:
    """The number of elements in a word of memory; 1 for dtypes of 32 bits and more."""
    return 4 if dtype == "bool" else max(1, 32 // bits(dtype))


def element_type(dtype: str) -> str:
    """The element type of an array in memory."""
    if packed(dtype) > 1:
        return "u32"
    return WIDE if dtype == "int64" else value_type(dtype)


def dtype_of(expr: Expr) -> str:
    """The dtype of an expression, or of the elements of a vector. Raises `NoShader` for a length other than 4."""
    dtype, _, lanes = str(expr.ty.dtype).partition("x")
    if lanes and int(lanes) != LANES:
        raise NoShader(f"no WGSL for vectors of {lanes}")
    return dtype


def lanes_of(expr: Expr) -> int:
    """The number of lanes: 1, or `LANES` for a vector."""
    return LANES if "x" in str(expr.ty.dtype) else 1

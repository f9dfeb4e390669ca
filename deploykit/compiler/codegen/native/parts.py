"""Building blocks for the expansions of functions, the same for scalars and for the lanes of vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tvm import tirx
from tvm.ir import Var
from tvm.ir.prim import expr as prim

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tvm.ir import Expr


def dtype_of(value: Expr) -> str:
    return str(value.ty.dtype)


def lanes_of(value: Expr, element: str) -> str:
    """The dtype with elements of type `element` and the lanes of `value`."""
    _, cross, lanes = dtype_of(value).partition("x")
    return f"{element}{cross}{lanes}"


def named(value: Expr, use: Callable[[Expr], Expr]) -> Expr:
    """`use(value)` with the value computed once."""
    name = Var("x", value.ty)
    return prim.Let(name, value, use(name))


def const(value: float, like: Expr) -> Expr:
    """A number of the type of `like`, in every lane."""
    dtype = dtype_of(like)
    return tirx.const(value, dtype.partition("x")[0]).astype(dtype)


def multiply_add(a: Expr, b: Expr, c: Expr) -> Expr:
    """`a * b + c`, with one rounding where the CPU has an instruction for it."""
    return tirx.call_llvm_pure_intrin(dtype_of(c), "llvm.fmuladd", a, b, c)


def rounded_sum(a: Expr, b: Expr) -> Expr:
    """`a + b`, which no simplification can cancel against `a` or `b`."""
    return multiply_add(a, const(1.0, a), b)


def polynomial(x: Expr, coefficients: Sequence[float]) -> Expr:
    """`coefficients[0] + coefficients[1] x + ...`"""
    result = const(coefficients[-1], x)
    for coefficient in reversed(coefficients[:-1]):
        result = multiply_add(result, x, const(coefficient, x))
    return result


def clamped(x: Expr, low: float, high: float) -> Expr:
    """`x` clamped to the bounds, by one minimum and one maximum; NaN stays NaN."""
    least, greatest = const(low, x), const(high, x)
    return named(tirx.Select(x < least, least, x), lambda y: tirx.Select(y > greatest, greatest, y))


def absolute(x: Expr) -> Expr:
    return tirx.call_llvm_pure_intrin(dtype_of(x), "llvm.fabs", x)


def with_sign(magnitude: Expr, sign: Expr) -> Expr:
    return tirx.call_llvm_pure_intrin(dtype_of(sign), "llvm.copysign", magnitude, sign)


def bits_of(x: Expr, element: str) -> Expr:
    """The bits of floats as integers of type `element`, which has the same size."""
    return tirx.reinterpret(lanes_of(x, element), x)


def from_bits(bits: Expr, element: str) -> Expr:
    """Floats of type `element` from their bits."""
    return tirx.reinterpret(lanes_of(bits, element), bits)

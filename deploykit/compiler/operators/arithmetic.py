"""Elementwise operators of several operands: arithmetic, comparison, logic, bits, selection.

All broadcast in both directions; before opset 7 the second operand's shape was aligned with the first one's at
`axis` (default: at the end). Integers wrap around. Integer division truncates; `Mod` takes the divisor's sign, or
with `fmod` the dividend's. By zero both give zero. Shifts by less than 0 or by all bits leave the sign only. `Pow` of
integers is computed in double precision.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from tvm import ir, tirx

from deploykit.compiler.operators.elementwise import is_float
from deploykit.compiler.operators.value import Value

Binary = Callable[[ir.Expr, ir.Expr], ir.Expr]


def divide(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    return a / b if is_float(a) else tirx.truncdiv(a, b)


def number(x: ir.Expr) -> ir.Expr:
    """Truth values as integers, which compare on every target."""
    return tirx.Cast("uint8", x) if str(x.ty.dtype) == "bool" else x


def extreme(choose: Binary, a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """The greater or lesser; NaN when either is (`choose` itself gives `b` then)."""
    return tirx.Select(tirx.isnan(a), a, choose(a, b)) if is_float(a) else choose(a, b)


def single(value: Value) -> float | None:
    """The only element of a constant."""
    if value.array is None or value.array.size != 1:
        return None
    return float(value.array.astype(np.float64).reshape(()))

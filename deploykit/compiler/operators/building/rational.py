"""Float arithmetic on sizes, as exporters write it: `floor(float(n) * 0.5)`, scales as `float(wanted) / float(n)`.

Such a number is kept as a float expression over dims and read back as a fraction of integer expressions, so that
rounding it gives a size again. A float constant stands for the simplest fraction that rounds to it.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from tvm import ir, tirx

from deploykit.compiler.operators.building.integers import ceil_div, floor_div, is_plain

if TYPE_CHECKING:
    from deploykit.compiler.dims.expressions import IntExpr

Ratio: TypeAlias = "tuple[IntExpr, IntExpr]"
"""A numerator and a denominator."""

LARGEST_DENOMINATOR = 1000


def simplest_fraction(number: float) -> Fraction:
    """The fraction with a small denominator that equals `number` in float32, or else exactly `number`."""
    simple = Fraction(number).limit_denominator(LARGEST_DENOMINATOR)
    return simple if np.float32(float(simple)) == np.float32(number) else Fraction(number)


def ratio_of(number: Any) -> Ratio | None:
    """A float or float expression as a fraction; `None` if it is not built from sizes by arithmetic."""
    if isinstance(number, (float, int, np.floating)):
        fraction = simplest_fraction(float(number))
        return fraction.numerator, fraction.denominator
    if isinstance(number, tirx.FloatImm):
        return ratio_of(float(number.value))
    if isinstance(number, tirx.Cast):
        source = str(number.value.ty.dtype)
        return (number.value, 1) if source == "int64" else ratio_of(number.value)
    if isinstance(number, (tirx.Mul, tirx.Div, tirx.Add, tirx.Sub)):
        left, right = ratio_of(number.a), ratio_of(number.b)
        return None if left is None or right is None else _combined(type(number), left, right)
    if isinstance(number, ir.Call) and number.op.name in _ROUNDED:
        inner = ratio_of(number.args[0])
        return None if inner is None else (_ROUNDED[number.op.name](*inner), 1)
    return None


_ROUNDED = {"tirx.floor": floor_div, "prim.ceil": ceil_div}


def _combined(operation: type, left: Ratio, right: Ratio) -> Ratio | None:
    if operation is tirx.Mul:
        return left[0] * right[0], left[1] * right[1]
    if operation is tirx.Div:
        positive = not is_plain(right[0]) or right[0] > 0
        return (left[0] * right[1], left[1] * right[0]) if positive else None
    sign = 1 if operation is tirx.Add else -1
    return left[0] * right[1] + sign * right[0] * left[1], left[1] * right[1]

"""Exponentials of numbers that are at most 0, such as the differences to the greatest element in a softmax.

No result overflows. A result that is too small for a normal number is negligible next to the greatest one, which is 1.
In this form, native code scales by one power of two and needs no operations for results at the ends of the range.
"""

from __future__ import annotations

from tvm import tirx

from deploykit.compiler.tir.rewriting import Expr
from deploykit.compiler.tir.values import dtype_of

LEAST = -87.0
"""Below this, exponentials in float32 are not normal numbers."""


def power_of(value: Expr) -> Expr:
    """`exp(value)` for `value <= 0` or NaN; of a float32 `value < LEAST` it is 0."""
    if dtype_of(value) != "float32":
        return tirx.exp(value)
    least, zero = tirx.const(LEAST, dtype_of(value)), tirx.const(0.0, dtype_of(value))
    bounded = tirx.Select(value < least, least, tirx.Select(zero < value, zero, value))
    return tirx.Select(value < least, zero, tirx.exp(bounded))

"""Reading a tensor between its elements: interpolation at fractional positions, also outside of the tensor.

Positions are floats in units of elements, one per spatial axis. A `Reader` gives the element at integer positions,
which may lie outside. All functions give expressions of one element.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from itertools import product
from operator import mul
from typing import TYPE_CHECKING, TypeAlias

from tvm import ir, tirx

from deploykit.compiler.operators.building.integers import clamp, expr

if TYPE_CHECKING:
    from deploykit.compiler.dims.expressions import IntExpr

Reader: TypeAlias = "Callable[[Sequence[ir.Expr]], ir.Expr]"

CUBIC = -0.75
"""The parameter of Keys' cubic kernel that image libraries use."""


def number(like: ir.Expr, value: float) -> ir.Expr:
    """A constant of the dtype of an expression."""
    return tirx.const(value, str(like.ty.dtype))


def size_as(like: ir.Expr, size: IntExpr) -> ir.Expr:
    """A size as a float of the dtype of an expression."""
    return tirx.Cast(str(like.ty.dtype), expr(size))


def near(position: ir.Expr, size: IntExpr) -> ir.Expr:
    """A position clamped to within a few elements of the axis, so that it converts to an integer. Positions further
    outside have no weight in elements within the axis."""
    return tirx.max(tirx.min(position, size_as(position, size) + number(position, 4)), number(position, -4))


def floor_index(position: ir.Expr) -> ir.Expr:
    return tirx.Cast("int64", tirx.floor(position))


def linear(read: Reader, where: Sequence[ir.Expr]) -> ir.Expr:
    """Multilinear interpolation between the elements around a position."""
    fractions = [position - tirx.floor(position) for position in where]
    terms = []
    for corner in product((0, 1), repeat=len(where)):
        weights = [f if bit else number(f, 1) - f for f, bit in zip(fractions, corner, strict=True)]
        element = read([floor_index(position) + bit for position, bit in zip(where, corner, strict=True)])
        terms.append(reduce(mul, weights) * element)
    return reduce(lambda a, b: a + b, terms)


def linear_weight(distance: ir.Expr) -> ir.Expr:
    """The weight of an element at a distance below 1 from the position."""
    return number(distance, 1) - tirx.abs(distance)


def cubic_weight(distance: ir.Expr) -> ir.Expr:
    """The weight of an element at a distance from the position; 0 from a distance of 2 on."""
    d = tirx.abs(distance)
    a, one = number(d, CUBIC), number(d, 1)
    inner = ((a + number(d, 2)) * d - (a + number(d, 3))) * d * d + one
    outer = ((a * d - number(d, 5) * a) * d + number(d, 8) * a) * d - number(d, 4) * a
    return tirx.Select(d <= one, inner, tirx.Select(d < number(d, 2), outer, number(d, 0)))


def inside(index: Sequence[ir.Expr], sizes: Sequence[IntExpr]) -> ir.Expr:
    """Whether integer positions lie within axes of `sizes`."""
    return tirx.all(*(bound for i, n in zip(index, sizes, strict=True) for bound in (i >= 0, i < expr(n))))


def clamped(index: ir.Expr, size: IntExpr) -> ir.Expr:
    """The nearest integer position within the axis."""
    return expr(clamp(index, 0, size - 1))


def reflected(position: ir.Expr, low: ir.Expr, high: ir.Expr) -> ir.Expr:
    """A position mirrored at `low` and `high` until it lies between them."""
    room = high - low
    safe = tirx.Select(room > number(room, 0), room, number(room, 1))
    beyond = tirx.Select(position < low, low - position, position - high)
    times = tirx.floor(beyond / safe)
    rest = beyond - times * safe
    even = times - number(times, 2) * tirx.floor(times * number(times, 0.5)) == number(times, 0)
    from_low = tirx.Select(position < low, even, tirx.Not(even))
    mirrored = tirx.Select(from_low, low + rest, high - rest)
    outside = tirx.any(position < low, position > high)
    return tirx.Select(outside, tirx.Select(room > number(room, 0), mirrored, low), position)

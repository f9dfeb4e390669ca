"""How large numbers can become while an expression is computed, to decide whether they fit 64 bits."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from tvm import ir, tirx

from deploykit.compiler.dims.evaluate import operands
from deploykit.compiler.dims.ranges import LARGEST

if TYPE_CHECKING:
    from deploykit.compiler.dims.bounds import Box
    from deploykit.compiler.dims.expressions import IntExpr

_TRUTHS = (
    *(tirx.EQ, tirx.NE, tirx.LT, tirx.LE, tirx.GT, tirx.GE, tirx.And, tirx.Or, tirx.Not),
    *(tirx.expr.EqualOp, tirx.expr.NotEqualOp),
)
_OTHERS = (tirx.FloorDiv, tirx.FloorMod, tirx.Div, tirx.Mod, tirx.Min, tirx.Max, tirx.Cast, tirx.Select, ir.Call)
"""Operations whose result is no further from 0 than their operands."""


def magnitude(expr: IntExpr, nonnegative: Collection[tirx.Var]) -> IntExpr:
    """An upper bound of the absolute value of `expr` and of all its intermediate values, built from sums, products,
    maxima, and quotients by constants. Constants do not count as intermediate values. `nonnegative`: variables that are
    never below 0.

    Raises:
        TypeError: `expr` has shifts, or operations on bits.
    """
    divided: dict[str, IntExpr] = {}  # what a quotient no longer bounds

    def distance(part: IntExpr) -> IntExpr:
        if isinstance(part, tirx.Var):
            return part if part in nonnegative else _larger(part, 0 - part)
        parts = [distance(operand) for operand in operands(part)]
        if isinstance(part, (tirx.FloorDiv, tirx.Div)) and isinstance(part.b, tirx.IntImm) and part.b.value > 1:
            divided[str(parts[0])] = parts[0]
            return tirx.floordiv(_expr(parts[0]), part.b) + 1
        return _distance(part, parts)

    most = distance(expr)
    return reduce(_larger, divided.values(), most)


def largest(expr: IntExpr, box: Box) -> int | None:
    """An upper bound, over `box`, of the absolute value of `expr` and of all its intermediate values; None if a
    variable is not bounded. Constants do not count as intermediate values.

    Raises:
        TypeError: `expr` has shifts, or operations on bits.
    """
    found: list[int] = []

    def distance(part: IntExpr) -> int | None:
        parts = [distance(operand) for operand in operands(part)]
        known = [n for n in parts if n is not None]
        if len(known) < len(parts):
            return None
        if isinstance(part, tirx.Var):
            low, high = box.get(part, (None, None))
            if low is None or high is None:
                return None
            most = max(abs(low), abs(high))
        elif isinstance(part, (tirx.FloorDiv, tirx.Div)) and isinstance(part.b, tirx.IntImm) and known[1]:
            most = known[0] // known[1] + 1
        else:
            most = int(_distance(part, known))
        if not isinstance(part, (int, tirx.IntImm)):
            found.append(most)
        return most

    most = distance(expr)
    return None if most is None else max(found, default=most)


def _distance(expr: IntExpr, parts: Sequence[IntExpr]) -> IntExpr:
    """An upper bound of the absolute value of `expr` and of its operands except constants; `parts` bound the
    operands."""
    if isinstance(expr, (int, tirx.IntImm)):
        return abs(int(expr))
    kept = _without_limit(expr, parts)
    if kept is not None:
        return kept
    if isinstance(expr, (tirx.Add, tirx.Sub)):
        return parts[0] + parts[1]
    if isinstance(expr, tirx.Mul):
        return _product(*parts)
    if isinstance(expr, _TRUTHS):
        return reduce(_larger, parts, 1)
    if isinstance(expr, _OTHERS):
        return reduce(_larger, parts)
    raise TypeError(f"not an integer expression over dims: {expr}")


def _without_limit(expr: IntExpr, parts: Sequence[IntExpr]) -> IntExpr | None:
    """The bound of the operand that `expr` limits, if `expr` limits one: from above by a constant of at least 0, or
    from below by a constant of at most 0. Such a limit never increases the absolute value, however large the constant
    is, as in a Slice "to the end"."""
    if isinstance(expr, (tirx.Min, tirx.Max)):
        sign = 1 if isinstance(expr, tirx.Min) else -1
        for limit, part in ((expr.b, parts[0]), (expr.a, parts[1])):
            if isinstance(limit, tirx.IntImm) and limit.value * sign >= 0:
                return part
    return None


def _product(a: IntExpr, b: IntExpr) -> IntExpr:
    """A bound of a product and of both factors: with a factor of 0 the product is small, but the other factor may not
    be."""
    if any(isinstance(factor, int) and factor for factor in (a, b)):
        return a * b
    return _larger(a, 1) * _larger(b, 1)


def _larger(a: IntExpr, b: IntExpr) -> IntExpr:
    if isinstance(a, int) and isinstance(b, int):
        return max(a, b)
    return tirx.max(*(_expr(x) for x in (a, b)))


def _expr(value: IntExpr) -> Any:
    return tirx.IntImm("int64", min(value, LARGEST)) if isinstance(value, int) else value

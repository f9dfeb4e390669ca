"""How large a number can become while an expression is computed: whether it fits 64 bits."""

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
"""What gives nothing further from 0 than its operands are."""


def magnitude(expr: IntExpr, nonnegative: Collection[tirx.Var]) -> IntExpr:
    """Sums, products and maxima that are nowhere less than the distance from 0 of `expr`, and of all that is computed
    on the way to it, which constants are not. `nonnegative`: variables never below 0.

    Raises:
        TypeError: `expr` has shifts, or operations on bits.
    """
    if isinstance(expr, tirx.Var):
        return expr if expr in nonnegative else _larger(expr, 0 - expr)
    return _distance(expr, [magnitude(operand, nonnegative) for operand in operands(expr)])


def largest(expr: IntExpr, box: Box) -> int | None:
    """At least the distance from 0 of `expr`, and of all that is computed on the way to it, which constants are not,
    anywhere in `box`; None where a variable is not bounded. Unlike `magnitude`, it counts what constants divide.

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
    """At least the distance from 0 of `expr`, and of its operands but constants, which are at most `parts` away."""
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
    """The distance of what `expr` limits, if it limits something: from above by a constant that is at least 0, or from
    below by one that is at most 0. Neither leads further from 0, however large the constant is, as in a Slice "to the
    end"."""
    if isinstance(expr, (tirx.Min, tirx.Max)):
        sign = 1 if isinstance(expr, tirx.Min) else -1
        for limit, part in ((expr.b, parts[0]), (expr.a, parts[1])):
            if isinstance(limit, tirx.IntImm) and limit.value * sign >= 0:
                return part
    return None


def _product(a: IntExpr, b: IntExpr) -> IntExpr:
    """A factor of 0 makes the product small, but not the other factor."""
    if any(isinstance(factor, int) and factor for factor in (a, b)):
        return a * b
    return _larger(a, 1) * _larger(b, 1)


def _larger(a: IntExpr, b: IntExpr) -> IntExpr:
    if isinstance(a, int) and isinstance(b, int):
        return max(a, b)
    return tirx.max(*(_expr(x) for x in (a, b)))


def _expr(value: IntExpr) -> Any:
    return tirx.IntImm("int64", min(value, LARGEST)) if isinstance(value, int) else value

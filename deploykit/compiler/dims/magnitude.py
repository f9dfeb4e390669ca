"""How large a number can become while an expression is computed: whether it fits 64 bits."""

from __future__ import annotations

from collections.abc import Collection
from functools import reduce
from math import prod
from typing import TYPE_CHECKING, Any

from tvm import ir, tirx

from deploykit.compiler.dims.evaluate import operands

if TYPE_CHECKING:
    from deploykit.compiler.dims.bounds import Box
    from deploykit.compiler.program.ir import IntExpr

_SUMS = (tirx.Add, tirx.Sub)
_TRUTHS = (
    *(tirx.EQ, tirx.NE, tirx.LT, tirx.LE, tirx.GT, tirx.GE, tirx.And, tirx.Or, tirx.Not),
    *(tirx.expr.EqualOp, tirx.expr.NotEqualOp),
)
_OTHERS = (tirx.FloorDiv, tirx.FloorMod, tirx.Div, tirx.Mod, tirx.Min, tirx.Max, tirx.Cast, tirx.Select, ir.Call)
"""What gives nothing further from 0 than its operands are."""


def magnitude(expr: IntExpr, nonnegative: Collection[tirx.Var]) -> IntExpr:
    """Sums, products and maxima that are nowhere less than the distance from 0 of `expr`, and of all that is computed
    on the way to it. `nonnegative`: variables never below 0.

    Raises:
        TypeError: `expr` has shifts, or operations on bits.
    """
    if isinstance(expr, (int, tirx.IntImm)):
        return abs(int(expr))
    if isinstance(expr, tirx.Var):
        return expr if expr in nonnegative else _larger(expr, 0 - expr)
    parts = [magnitude(operand, nonnegative) for operand in operands(expr)]
    if isinstance(expr, _SUMS):
        return parts[0] + parts[1]
    if isinstance(expr, tirx.Mul):
        return _product(*parts)
    if isinstance(expr, _TRUTHS):
        return reduce(_larger, parts, 1)
    if isinstance(expr, _OTHERS):
        return reduce(_larger, parts)
    raise TypeError(f"not an integer expression over dims: {expr}")


def largest(expr: IntExpr, box: Box) -> int | None:
    """At least the distance from 0 of `expr`, and of all that is computed on the way to it, anywhere in `box`; None
    where a variable is not bounded. Unlike `magnitude`, it counts what constants divide."""
    found: list[int] = []

    def distance(part: IntExpr) -> int:
        found.append(_farthest(part, box, [distance(operand) for operand in operands(part)]))
        return found[-1]

    try:
        distance(expr)
    except _UnboundedError:
        return None
    return max(found)


class _UnboundedError(Exception):
    """A variable has no bounds."""


def _farthest(expr: IntExpr, box: Box, parts: list[int]) -> int:
    """At least the distance from 0 of `expr`, whose operands are at most `parts` away."""
    if isinstance(expr, (int, tirx.IntImm)):
        return abs(int(expr))
    if isinstance(expr, tirx.Var):
        low, high = box.get(expr, (None, None))
        if low is None or high is None:
            raise _UnboundedError
        return max(abs(low), abs(high))
    if isinstance(expr, _SUMS):
        return sum(parts)
    if isinstance(expr, tirx.Mul):
        return prod(parts)
    if isinstance(expr, (tirx.FloorDiv, tirx.Div)) and isinstance(expr.b, tirx.IntImm) and parts[1]:
        return parts[0] // parts[1] + 1
    return max(*parts, 1)


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
    return tirx.IntImm("int64", value) if isinstance(value, int) else value

"""How large numbers can become while an expression is computed, to decide whether they fit 64 bits.

A bound of `x` is that of `-x`, too, and a sum has the sum of the bounds of its parts. The exception is a sum that is
cut at 0, such as the size of a Slice to a far end, `min(0, 2147483648 - n) + 1`: only what is on its side of 0 counts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
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

FAR = 1 << 16
"""The smallest constant that makes a sum so large that it matters on which side of 0 it is. With others, the shorter
bound is as good."""


def magnitude(expr: IntExpr, nonnegative: Collection[tirx.Var]) -> IntExpr:
    """An upper bound of the absolute value of `expr` and of all its intermediate values, built from sums, products,
    maxima, and quotients by constants. Constants do not count as intermediate values. `nonnegative`: variables that are
    never below 0.

    Raises:
        TypeError: `expr` has shifts, or operations on bits.
    """
    divided: dict[str, IntExpr] = {}  # what a quotient or a cut no longer bounds

    def distance(part: IntExpr) -> IntExpr:
        if isinstance(part, tirx.Var):
            return part if part in nonnegative else _larger(part, 0 - part)
        if (cut := _cut(part)) is not None:
            kept, other = (_side(cut[0], sign, side_of) for sign in (cut[1], -cut[1]))
            whole = _larger(kept, other)
            divided[str(whole)] = whole
            return kept
        parts = [distance(operand) for operand in operands(part)]
        if isinstance(part, (tirx.FloorDiv, tirx.Div)) and isinstance(part.b, tirx.IntImm) and part.b.value > 1:
            divided[str(parts[0])] = parts[0]
            return tirx.floordiv(_expr(parts[0]), part.b) + 1
        return _distance(part, parts)

    def side_of(part: IntExpr, sign: int) -> IntExpr:
        is_above = isinstance(part, tirx.Var) and part in nonnegative
        return 0 if sign < 0 and is_above else distance(part)

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
        if (cut := _cut(part)) is not None and None not in [distance(leaf) for leaf in _terms(cut[0])]:
            kept, other = (int(_side(cut[0], sign, side_of)) for sign in (cut[1], -cut[1]))
            found.append(max(kept, other))
            return kept
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

    def side_of(part: IntExpr, sign: int) -> int:
        low, _ = box.get(part, (None, None)) if isinstance(part, tirx.Var) else (None, None)
        return 0 if sign < 0 and low is not None and low >= 0 else distance(part) or 0

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


def _cut(expr: IntExpr) -> tuple[IntExpr, int] | None:
    """A sum with a far constant that `expr` cuts at 0, and the sign of what it leaves."""
    if not isinstance(expr, (tirx.Min, tirx.Max)):
        return None
    for limit, part in ((expr.b, expr.a), (expr.a, expr.b)):
        far = isinstance(part, (tirx.Add, tirx.Sub)) and any(_is_far(term) for term in _terms(part))
        if far and isinstance(limit, tirx.IntImm) and limit.value == 0:
            return part, 1 if isinstance(expr, tirx.Max) else -1
    return None


def _is_far(term: IntExpr) -> bool:
    return isinstance(term, tirx.IntImm) and abs(term.value) >= FAR


def _terms(expr: IntExpr) -> list[IntExpr]:
    """The terms of a sum, without their signs."""
    return [t for part in (expr.a, expr.b) for t in _terms(part)] if isinstance(expr, (tirx.Add, tirx.Sub)) else [expr]


def _side(expr: IntExpr, sign: int, side_of: Callable[[IntExpr, int], IntExpr]) -> IntExpr:
    """An upper bound of `expr` times `sign`, and of all sums on the way, at least 0. `side_of` bounds a term."""
    if isinstance(expr, (tirx.Add, tirx.Sub)):
        first = _side(expr.a, sign, side_of)
        second = _side(expr.b, sign if isinstance(expr, tirx.Add) else -sign, side_of)
        return first + second
    if isinstance(expr, tirx.IntImm):
        return max(int(expr) * sign, 0)
    return side_of(expr, sign)


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

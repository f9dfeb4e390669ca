"""Between which numbers the elements of integer tensors lie, as far as operators tell: ArgMax gives positions, Clip and
Mod keep within limits, Range counts, and what only moves elements leaves them as they are.

A range is found without computing anything. It is what makes a check of indices unnecessary, so it may be too wide, but
never too narrow: where a result might not fit its dtype, nothing is known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from deploykit.compiler.operators.integers import less_equal, maximum, minimum
from deploykit.compiler.operators.value import Extremes, Value

if TYPE_CHECKING:
    from deploykit.compiler.dims.expressions import IntExpr
    from deploykit.compiler.operators.context import Context


UNKNOWN = Extremes()


LIMITS = {"int32": 1 << 31, "int64": 1 << 62}
"""What elements of a dtype must provably stay below for arithmetic on them to be exact."""


_NARROW = {"bool": (0, 1), "int8": (-128, 127), "uint8": (0, 255), "int16": (-(1 << 15), (1 << 15) - 1)} | {
    "uint16": (0, (1 << 16) - 1)
}


def range_of(value: Value | None) -> Extremes:
    """What is known of the elements of a tensor."""
    if value is None:
        return UNKNOWN
    if value.array is not None and value.array.dtype.kind in "iub" and value.array.size:
        return Extremes(int(value.array.min()), int(value.array.max()))
    if value.elements is not None and value.elements.size and value.dtype in LIMITS:
        elements = list(value.elements.reshape(-1))
        return Extremes(reduce(minimum, elements), reduce(maximum, elements))
    if value.dtype in _NARROW:
        return Extremes(*_NARROW[value.dtype])
    return value.extremes


def within(ctx: Context, value: Extremes, low: IntExpr, high: IntExpr) -> bool:
    """Whether a range provably lies within `low..high`."""
    if value.low is None or value.high is None:
        return False
    return ctx.proves(less_equal(low, value.low)) and ctx.proves(less_equal(value.high, high))


def held(ctx: Context, found: Extremes, dtype: str) -> Extremes:
    """`found`, unless an element of `dtype` might not hold it."""
    limit = LIMITS[dtype]
    low = found.low is None or ctx.proves(less_equal(-limit, found.low))
    high = found.high is None or ctx.proves(less_equal(found.high, limit - 1))
    return found if low and high else UNKNOWN


def union(*ranges: Extremes) -> Extremes:
    lows, highs = [r.low for r in ranges], [r.high for r in ranges]
    return Extremes(
        None if None in lows else reduce(minimum, [low for low in lows if low is not None]),
        None if None in highs else reduce(maximum, [high for high in highs if high is not None]),
    )


def or_of(
    bound: IntExpr,
    other: IntExpr | None,
    choose: Callable[[IntExpr, IntExpr], IntExpr],
    inputs: Sequence[Value | None],
    position: int,
) -> IntExpr | None:
    """`bound`, moved by an operand that may be absent."""
    if len(inputs) <= position or inputs[position] is None:
        return bound
    return None if other is None else choose(bound, other)


def greatest(*lows: IntExpr | None) -> IntExpr | None:
    given = [low for low in lows if low is not None]
    return reduce(maximum, given) if given else None


def least_of(*highs: IntExpr | None) -> IntExpr | None:
    given = [high for high in highs if high is not None]
    return reduce(minimum, given) if given else None


def whole(a: Extremes) -> Extremes:
    """Arithmetic on elements without a bound on one side may overflow and come out on the other."""
    return UNKNOWN if a.low is None or a.high is None else a


def plus(a: Extremes, b: Extremes) -> Extremes:
    if a.low is None or a.high is None or b.low is None or b.high is None:
        return UNKNOWN
    return Extremes(a.low + b.low, a.high + b.high)


def negative_of(a: Extremes) -> Extremes:
    return UNKNOWN if a.low is None or a.high is None else Extremes(0 - a.high, 0 - a.low)

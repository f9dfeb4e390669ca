"""The range of the elements of integer tensors, as far as it is known without computing them.

For example, ArgMax gives positions, Clip and Mod keep within limits, Range counts, and operators that only move
elements keep their range.

A range is found without computing anything. It can make a check of indices unnecessary. So it may be too wide, but is
never too narrow: if a result might not fit its dtype, nothing is known about it.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from deploykit.compiler.operators.building.integers import floor_div, is_plain, less_equal, maximum, minimum
from deploykit.compiler.operators.building.value import Extremes, Value

if TYPE_CHECKING:
    from deploykit.compiler.dims.expressions import IntExpr
    from deploykit.compiler.operators.building.context import Context


UNKNOWN = Extremes()


LIMITS = {"int32": 1 << 31, "int64": 1 << 62}
"""By dtype, the limit that elements must provably stay below so that arithmetic on them is exact."""


_NARROW = {"bool": (0, 1), "int8": (-128, 127), "uint8": (0, 255), "int16": (-(1 << 15), (1 << 15) - 1)} | {
    "uint16": (0, (1 << 16) - 1)
}


def range_of(value: Value | None) -> Extremes:
    """The known range of the elements of a tensor."""
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
    """Whether a range is provably within `low..high`."""
    if value.low is None or value.high is None:
        return False
    return ctx.proves(less_equal(low, value.low)) and ctx.proves(less_equal(value.high, high))


def held(ctx: Context, found: Extremes, dtype: str) -> Extremes:
    """`found`, or nothing known if `dtype` might not hold it."""
    limit = LIMITS[dtype]
    low = found.low is None or ctx.proves(less_equal(-limit, found.low))
    high = found.high is None or ctx.proves(less_equal(found.high, limit - 1))
    return found if low and high else UNKNOWN


def union(*ranges: Extremes) -> Extremes:
    """The range of the elements of several tensors together."""
    lows, highs = [r.low for r in ranges], [r.high for r in ranges]
    return Extremes(
        None if None in lows else reduce(minimum, [low for low in lows if low is not None]),
        None if None in highs else reduce(maximum, [high for high in highs if high is not None]),
    )


def smaller(*ranges: Extremes) -> Extremes:
    """The range of the elementwise minimum."""
    highs = [r.high for r in ranges if r.high is not None]
    return Extremes(union(*ranges).low, reduce(minimum, highs) if highs else None)


def larger(*ranges: Extremes) -> Extremes:
    """The range of the elementwise maximum."""
    lows = [r.low for r in ranges if r.low is not None]
    return Extremes(reduce(maximum, lows) if lows else None, union(*ranges).high)


def bounded(a: Extremes) -> Extremes:
    """`a` if it has both bounds, else nothing known: arithmetic on elements without a bound may overflow and wrap
    around."""
    return UNKNOWN if a.low is None or a.high is None else a


def plus(a: Extremes, b: Extremes) -> Extremes:
    if a.low is None or a.high is None or b.low is None or b.high is None:
        return UNKNOWN
    return Extremes(a.low + b.low, a.high + b.high)


def negated(a: Extremes) -> Extremes:
    return UNKNOWN if a.low is None or a.high is None else Extremes(0 - a.high, 0 - a.low)


def times(a: Extremes, b: Extremes) -> Extremes:
    """The range of the product, if one factor is a known number that is not negative."""
    x, factor = (a, b) if is_plain(b.low) else (b, a)
    if not is_plain(factor.low) or factor.low != factor.high or factor.low < 0 or x.low is None or x.high is None:
        return UNKNOWN
    return Extremes(x.low * factor.low, x.high * factor.low)


def over(x: Extremes, divisor: Extremes) -> Extremes:
    """The range of the quotient, if the dividend is not negative and the divisor is a known positive number."""
    if not is_plain(divisor.low) or divisor.low != divisor.high or divisor.low <= 0:
        return UNKNOWN
    if not is_plain(x.low) or x.low < 0 or x.high is None:
        return UNKNOWN
    return Extremes(0, floor_div(x.high, divisor.low))


def remainder(x: Extremes, divisor: Extremes, *, truncated: bool) -> Extremes:
    """The range of the remainder of a positive divisor. With `truncated`, it has the sign of the dividend."""
    if not is_plain(divisor.low) or divisor.low <= 0 or divisor.high is None:
        return UNKNOWN
    signed = truncated and not (is_plain(x.low) and x.low >= 0)
    return Extremes(1 - divisor.high if signed else 0, divisor.high - 1)


def counted(start: Extremes, limit: Extremes, step: Extremes) -> Extremes:
    """The range of the numbers from a start up, or down, to a limit that is not included."""
    if is_plain(step.low) and step.low > 0:
        return plus(Extremes(start.low, limit.high), Extremes(0, -1))
    if is_plain(step.high) and step.high < 0:
        return plus(Extremes(limit.low, start.high), Extremes(1, 0))
    return UNKNOWN

"""Between which numbers the elements of integer tensors lie, as far as operators tell: ArgMax gives positions, Clip and
Mod keep within limits, Range counts, and what only moves elements leaves them as they are.

A range is found without computing anything. It is what makes a check of indices unnecessary, so it may be too wide, but
never too narrow: where a result might not fit its dtype, nothing is known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, TypeAlias

from deploykit.compiler.operators.integers import floor_div, is_plain, less_equal, maximum, minimum
from deploykit.compiler.operators.value import AnyValue, Extremes, Value

if TYPE_CHECKING:
    from deploykit.compiler.dims.expressions import IntExpr
    from deploykit.compiler.operators.context import Context
    from deploykit.frontends.onnx.node import Node

UNKNOWN = Extremes()

_LIMITS = {"int32": 1 << 31, "int64": 1 << 62}
"""What elements of a dtype must provably stay below for arithmetic on them to be exact."""

_NARROW = {"bool": (0, 1), "int8": (-128, 127), "uint8": (0, 255), "int16": (-(1 << 15), (1 << 15) - 1)} | {
    "uint16": (0, (1 << 16) - 1)
}


def with_ranges(
    ctx: Context, node: Node, inputs: Sequence[AnyValue | None], results: tuple[AnyValue | None, ...]
) -> tuple[AnyValue | None, ...]:
    """`results` of a node with the ranges of their elements, where something is known of them."""
    rule = None if node.domain else RULES.get(node.op_type)
    if rule is None or not any(isinstance(r, Value) and r.dtype in _LIMITS for r in results):
        return results
    given = [i for i in inputs if i is None or isinstance(i, Value)]
    if len(given) < len(inputs):
        return results
    found = rule(node, given)
    first = 1 if node.op_type == "TopK" else 0
    return (
        *results[:first],
        *(
            replace(r, extremes=_held(ctx, found, r.dtype)) if isinstance(r, Value) and r.dtype in _LIMITS else r
            for r in results[first:]
        ),
    )


def range_of(value: Value | None) -> Extremes:
    """What is known of the elements of a tensor."""
    if value is None:
        return UNKNOWN
    if value.array is not None and value.array.dtype.kind in "iub" and value.array.size:
        return Extremes(int(value.array.min()), int(value.array.max()))
    if value.elements is not None and value.elements.size and value.dtype in _LIMITS:
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


def _held(ctx: Context, found: Extremes, dtype: str) -> Extremes:
    """`found`, unless an element of `dtype` might not hold it."""
    limit = _LIMITS[dtype]
    low = found.low is None or ctx.proves(less_equal(-limit, found.low))
    high = found.high is None or ctx.proves(less_equal(found.high, limit - 1))
    return found if low and high else UNKNOWN


# Rules


Rule: TypeAlias = "Callable[[Node, Sequence[Value | None]], Extremes]"


def _same(_node: Node, inputs: Sequence[Value | None]) -> Extremes:
    return range_of(inputs[0])


def _cast(_node: Node, inputs: Sequence[Value | None]) -> Extremes:
    source = inputs[0]
    return UNKNOWN if source is None or "float" in source.dtype else _whole(range_of(source))


def _position(node: Node, inputs: Sequence[Value | None]) -> Extremes:
    """ArgMax, ArgMin, TopK: positions on an axis of the data."""
    assert inputs[0] is not None
    rank = inputs[0].rank
    axis = node.int("axis", -1 if node.op_type == "TopK" else 0)
    return Extremes(0, inputs[0].shape[axis % rank] - 1) if rank else Extremes(0, 0)


def _nonzero(_node: Node, inputs: Sequence[Value | None]) -> Extremes:
    assert inputs[0] is not None
    return Extremes(0, reduce(maximum, inputs[0].shape, 1) - 1)


def _union(*ranges: Extremes) -> Extremes:
    lows, highs = [r.low for r in ranges], [r.high for r in ranges]
    return Extremes(
        None if None in lows else reduce(minimum, [low for low in lows if low is not None]),
        None if None in highs else reduce(maximum, [high for high in highs if high is not None]),
    )


def _concat(_node: Node, inputs: Sequence[Value | None]) -> Extremes:
    return _union(*(range_of(i) for i in inputs))


def _where(_node: Node, inputs: Sequence[Value | None]) -> Extremes:
    return _union(*(range_of(i) for i in inputs[1:]))


def _count(_node: Node, inputs: Sequence[Value | None]) -> Extremes:
    """Range: from the start on, not including the limit."""
    start, limit, delta = (range_of(i) for i in inputs)
    if is_plain(delta.low) and delta.low > 0:
        return _plus(Extremes(start.low, limit.high), Extremes(0, -1))
    if is_plain(delta.high) and delta.high < 0:
        return _plus(Extremes(limit.low, start.high), Extremes(1, 0))
    return UNKNOWN


def _clip(node: Node, inputs: Sequence[Value | None]) -> Extremes:
    """The maximum wins when it is below the minimum."""
    if node.has("min") or node.has("max"):
        return UNKNOWN
    x, least, most = (*(range_of(i) for i in inputs), UNKNOWN, UNKNOWN)[:3]
    raised = Extremes(
        _greatest(x.low, least.low), None if x.high is None else _or(x.high, least.high, maximum, inputs, 1)
    )
    low = None if raised.low is None else _or(raised.low, most.low, minimum, inputs, 2)
    return Extremes(low, _least(raised.high, most.high))


def _or(
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


def _greatest(*lows: IntExpr | None) -> IntExpr | None:
    given = [low for low in lows if low is not None]
    return reduce(maximum, given) if given else None


def _least(*highs: IntExpr | None) -> IntExpr | None:
    given = [high for high in highs if high is not None]
    return reduce(minimum, given) if given else None


def _smaller(_node: Node, inputs: Sequence[Value | None]) -> Extremes:
    ranges = [range_of(i) for i in inputs]
    return Extremes(_union(*ranges).low, _least(*(r.high for r in ranges)))


def _larger(_node: Node, inputs: Sequence[Value | None]) -> Extremes:
    ranges = [range_of(i) for i in inputs]
    return Extremes(_greatest(*(r.low for r in ranges)), _union(*ranges).high)


def _remainder(node: Node, inputs: Sequence[Value | None]) -> Extremes:
    """Of a divisor that is a positive number; `fmod` gives the remainder the sign of the dividend."""
    divisor = range_of(inputs[1])
    if not is_plain(divisor.low) or divisor.low <= 0 or divisor.high is None:
        return UNKNOWN
    low = range_of(inputs[0]).low
    signed = node.int("fmod", 0) != 0 and not (is_plain(low) and low >= 0)
    return Extremes(1 - divisor.high if signed else 0, divisor.high - 1)


def _sum(_node: Node, inputs: Sequence[Value | None]) -> Extremes:
    return reduce(_plus, (range_of(i) for i in inputs))


def _difference(_node: Node, inputs: Sequence[Value | None]) -> Extremes:
    return _plus(range_of(inputs[0]), _negative(range_of(inputs[1])))


def _negated(_node: Node, inputs: Sequence[Value | None]) -> Extremes:
    return _negative(range_of(inputs[0]))


def _whole(a: Extremes) -> Extremes:
    """Arithmetic on elements without a bound on one side may overflow and come out on the other."""
    return UNKNOWN if a.low is None or a.high is None else a


def _plus(a: Extremes, b: Extremes) -> Extremes:
    if a.low is None or a.high is None or b.low is None or b.high is None:
        return UNKNOWN
    return Extremes(a.low + b.low, a.high + b.high)


def _negative(a: Extremes) -> Extremes:
    return UNKNOWN if a.low is None or a.high is None else Extremes(0 - a.high, 0 - a.low)


def _product(_node: Node, inputs: Sequence[Value | None]) -> Extremes:
    """By a number that is not negative."""
    ranges = [range_of(i) for i in inputs[:2]]
    if not is_plain(ranges[1].low):
        ranges.reverse()
    x, factor = ranges
    if not is_plain(factor.low) or factor.low != factor.high or factor.low < 0 or x.low is None or x.high is None:
        return UNKNOWN
    return Extremes(x.low * factor.low, x.high * factor.low)


def _quotient(_node: Node, inputs: Sequence[Value | None]) -> Extremes:
    """Of what is not negative, by a positive number."""
    x, divisor = (range_of(i) for i in inputs[:2])
    if not is_plain(divisor.low) or divisor.low != divisor.high or divisor.low <= 0:
        return UNKNOWN
    if not is_plain(x.low) or x.low < 0 or x.high is None:
        return UNKNOWN
    return Extremes(0, floor_div(x.high, divisor.low))


RULES: Mapping[str, Rule] = {
    **dict.fromkeys(("ArgMax", "ArgMin", "TopK"), _position),
    **dict.fromkeys(("Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Transpose", "Expand", "Tile"), _same),
    **dict.fromkeys(("Slice", "Split", "Gather", "GatherElements", "GatherND", "Compress", "ReverseSequence"), _same),
    **dict.fromkeys(("Cast", "CastLike"), _cast),
    "NonZero": _nonzero,
    "Concat": _concat,
    "Where": _where,
    "Range": _count,
    "Clip": _clip,
    "Min": _smaller,
    "Max": _larger,
    "Mod": _remainder,
    "Add": _sum,
    "Sum": _sum,
    "Sub": _difference,
    "Neg": _negated,
    "Mul": _product,
    "Div": _quotient,
}
"""By operator of the standard domain: the range of its integer results, of TopK that of its second one."""

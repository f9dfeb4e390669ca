"""ONNX: see `compiler.operators.ranges`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, TypeAlias

from deploykit.compiler.operators.integers import floor_div, is_plain, maximum, minimum
from deploykit.compiler.operators.ranges import (
    LIMITS,
    UNKNOWN,
    greatest,
    held,
    least_of,
    negative_of,
    or_of,
    plus,
    range_of,
    union,
    whole,
)
from deploykit.compiler.operators.value import AnyValue, Extremes, Value

if TYPE_CHECKING:
    from deploykit.compiler.operators.context import Context
    from deploykit.frontends.onnx.node import Node


def with_ranges(
    ctx: Context, node: Node, inputs: Sequence[AnyValue | None], results: tuple[AnyValue | None, ...]
) -> tuple[AnyValue | None, ...]:
    """`results` of a node with the ranges of their elements, where something is known of them."""
    rule = None if node.domain else RULES.get(node.op_type)
    if rule is None or not any(isinstance(r, Value) and r.dtype in LIMITS for r in results):
        return results
    given = [i for i in inputs if i is None or isinstance(i, Value)]
    if len(given) < len(inputs):
        return results
    found = rule(node, given)
    first = 1 if node.op_type == "TopK" else 0
    return (
        *results[:first],
        *(
            replace(r, extremes=held(ctx, found, r.dtype)) if isinstance(r, Value) and r.dtype in LIMITS else r
            for r in results[first:]
        ),
    )


Rule: TypeAlias = "Callable[[Node, Sequence[Value | None]], Extremes]"


def _same(_node: Node, inputs: Sequence[Value | None]) -> Extremes:
    return range_of(inputs[0])


def _cast(_node: Node, inputs: Sequence[Value | None]) -> Extremes:
    source = inputs[0]
    return UNKNOWN if source is None or "float" in source.dtype else whole(range_of(source))


def _position(node: Node, inputs: Sequence[Value | None]) -> Extremes:
    """ArgMax, ArgMin, TopK: positions on an axis of the data."""
    assert inputs[0] is not None
    rank = inputs[0].rank
    axis = node.int("axis", -1 if node.op_type == "TopK" else 0)
    return Extremes(0, inputs[0].shape[axis % rank] - 1) if rank else Extremes(0, 0)


def _nonzero(_node: Node, inputs: Sequence[Value | None]) -> Extremes:
    assert inputs[0] is not None
    return Extremes(0, reduce(maximum, inputs[0].shape, 1) - 1)


def _concat(_node: Node, inputs: Sequence[Value | None]) -> Extremes:
    return union(*(range_of(i) for i in inputs))


def _where(_node: Node, inputs: Sequence[Value | None]) -> Extremes:
    return union(*(range_of(i) for i in inputs[1:]))


def _count(_node: Node, inputs: Sequence[Value | None]) -> Extremes:
    """Range: from the start on, not including the limit."""
    start, limit, delta = (range_of(i) for i in inputs)
    if is_plain(delta.low) and delta.low > 0:
        return plus(Extremes(start.low, limit.high), Extremes(0, -1))
    if is_plain(delta.high) and delta.high < 0:
        return plus(Extremes(limit.low, start.high), Extremes(1, 0))
    return UNKNOWN


def _clip(node: Node, inputs: Sequence[Value | None]) -> Extremes:
    """The maximum wins when it is below the minimum."""
    if node.has("min") or node.has("max"):
        return UNKNOWN
    x, least, most = (*(range_of(i) for i in inputs), UNKNOWN, UNKNOWN)[:3]
    raised = Extremes(
        greatest(x.low, least.low), None if x.high is None else or_of(x.high, least.high, maximum, inputs, 1)
    )
    low = None if raised.low is None else or_of(raised.low, most.low, minimum, inputs, 2)
    return Extremes(low, least_of(raised.high, most.high))


def _smaller(_node: Node, inputs: Sequence[Value | None]) -> Extremes:
    ranges = [range_of(i) for i in inputs]
    return Extremes(union(*ranges).low, least_of(*(r.high for r in ranges)))


def _larger(_node: Node, inputs: Sequence[Value | None]) -> Extremes:
    ranges = [range_of(i) for i in inputs]
    return Extremes(greatest(*(r.low for r in ranges)), union(*ranges).high)


def _remainder(node: Node, inputs: Sequence[Value | None]) -> Extremes:
    """Of a divisor that is a positive number; `fmod` gives the remainder the sign of the dividend."""
    divisor = range_of(inputs[1])
    if not is_plain(divisor.low) or divisor.low <= 0 or divisor.high is None:
        return UNKNOWN
    low = range_of(inputs[0]).low
    signed = node.int("fmod", 0) != 0 and not (is_plain(low) and low >= 0)
    return Extremes(1 - divisor.high if signed else 0, divisor.high - 1)


def _sum(_node: Node, inputs: Sequence[Value | None]) -> Extremes:
    return reduce(plus, (range_of(i) for i in inputs))


def _difference(_node: Node, inputs: Sequence[Value | None]) -> Extremes:
    return plus(range_of(inputs[0]), negative_of(range_of(inputs[1])))


def _negated(_node: Node, inputs: Sequence[Value | None]) -> Extremes:
    return negative_of(range_of(inputs[0]))


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

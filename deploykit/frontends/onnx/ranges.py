"""The bounds of the integers that ONNX operators of the standard domain return, if they are known.

The arithmetic of bounds is in `compiler.operators.building.ranges`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, TypeAlias

from deploykit.compiler.operators.building.integers import maximum
from deploykit.compiler.operators.building.ranges import (
    LIMITS,
    UNKNOWN,
    bounded,
    counted,
    held,
    larger,
    negated,
    over,
    plus,
    range_of,
    remainder,
    smaller,
    times,
    union,
)
from deploykit.compiler.operators.building.value import AnyValue, Extremes, Value

if TYPE_CHECKING:
    from deploykit.compiler.operators.building.context import Context
    from deploykit.frontends.onnx.node import Node


def with_ranges(
    ctx: Context, node: Node, inputs: Sequence[AnyValue | None], results: tuple[AnyValue | None, ...]
) -> tuple[AnyValue | None, ...]:
    """The results of a node with the ranges of their integers, if these are known."""
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


def _of_operands(rule: Callable[..., Extremes]) -> Rule:
    return lambda _node, inputs: rule(*map(range_of, inputs))


def _cast(_node: Node, inputs: Sequence[Value | None]) -> Extremes:
    source = inputs[0]
    return UNKNOWN if source is None or "float" in source.dtype else bounded(range_of(source))


def _position(node: Node, inputs: Sequence[Value | None]) -> Extremes:
    """ArgMax, ArgMin, TopK: indices into an axis of the data."""
    assert inputs[0] is not None
    rank = inputs[0].rank
    axis = node.int("axis", -1 if node.op_type == "TopK" else 0)
    return Extremes(0, inputs[0].shape[axis % rank] - 1) if rank else Extremes(0, 0)


def _nonzero(_node: Node, inputs: Sequence[Value | None]) -> Extremes:
    assert inputs[0] is not None
    return Extremes(0, reduce(maximum, inputs[0].shape, 1) - 1)


def _where(_node: Node, inputs: Sequence[Value | None]) -> Extremes:
    return union(*map(range_of, inputs[1:]))


def _clip(node: Node, inputs: Sequence[Value | None]) -> Extremes:
    """Clip: the maximum wins if it is below the minimum."""
    if node.has("min") or node.has("max"):
        return UNKNOWN
    x, least, most = [*inputs, None, None][:3]
    raised = range_of(x) if least is None else larger(range_of(x), range_of(least))
    return raised if most is None else smaller(raised, range_of(most))


def _remainder(node: Node, inputs: Sequence[Value | None]) -> Extremes:
    return remainder(*map(range_of, inputs), truncated=node.int("fmod", 0) != 0)


def _sum(_node: Node, inputs: Sequence[Value | None]) -> Extremes:
    return reduce(plus, map(range_of, inputs))


RULES: Mapping[str, Rule] = {
    **dict.fromkeys(("ArgMax", "ArgMin", "TopK"), _position),
    **dict.fromkeys(("Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Transpose", "Expand", "Tile"), _same),
    **dict.fromkeys(("Slice", "Split", "Gather", "GatherElements", "GatherND", "Compress", "ReverseSequence"), _same),
    **dict.fromkeys(("Cast", "CastLike"), _cast),
    "NonZero": _nonzero,
    "Concat": _of_operands(union),
    "Where": _where,
    "Range": _of_operands(counted),
    "Clip": _clip,
    "Min": _of_operands(smaller),
    "Max": _of_operands(larger),
    "Mod": _remainder,
    "Add": _sum,
    "Sum": _sum,
    "Sub": _of_operands(lambda a, b: plus(a, negated(b))),
    "Neg": _of_operands(negated),
    "Mul": _of_operands(times),
    "Div": _of_operands(over),
}
"""By operator of the standard domain: the range of its integer results; for TopK that of its second result."""

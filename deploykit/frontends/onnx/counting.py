"""Finds the number of iterations of a Loop whose condition compares a counter with a number.

Exporters of Keras write a recurrent layer as a Loop without a trip count. Its body has

    next = Add(i, one)      goes_on = Less(next, n)

where `i` is a state that begins with a known integer and becomes `next`, `one` is the constant 1, and `n` is known: a
state that the body passes on unchanged, or a value from outside. Once begun, such a loop runs until `next` reaches `n`,
and at least once. The operands of Less may be cast to floats; the numbers are then required to be at most `EXACT`, so
that the casts do not change them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import onnx_ir as ir

from deploykit.compiler.operators.building.integers import is_plain, less_equal, maximum
from deploykit.compiler.operators.building.value import AnyValue, Value
from deploykit.frontends.onnx.symbolic import EXACT
from deploykit.frontends.onnx.tensors import elements

if TYPE_CHECKING:
    from deploykit.compiler.dims.expressions import IntExpr
    from deploykit.compiler.operators.building.context import Context


def rounds(
    ctx: Context, body: ir.Graph, state: Sequence[AnyValue], outside: Mapping[str, AnyValue | None]
) -> IntExpr | None:
    """How often the body of a loop runs, once begun, until its own condition ends it; None if that is not known."""
    test = _uncast(body.outputs[0]).producer()
    if test is None or test.domain or test.op_type not in ("Less", "Greater"):
        return None
    compared = [v for v in test.inputs if v is not None]
    left, right = map(_uncast, compared)
    exact = [_unchanged(v) for v in compared] == [left, right]
    following, limit = (left, right) if test.op_type == "Less" else (right, left)
    step = following.producer()
    if step is None or step.domain or step.op_type != "Add":
        return None
    given = {v.name: i for i, v in enumerate(body.inputs[2:])}
    ends = [_unchanged(v).name for v in body.outputs[1 : 1 + len(state)]]
    operands = [_unchanged(v) for v in step.inputs if v is not None]
    for counter, one in (operands, reversed(operands)):
        position = given.get(counter.name)
        if position is None or ends[position] != following.name or _constant(one, outside) != 1:
            continue
        first = _integer(ctx, state[position])
        place = given.get(limit.name)
        if place is None:
            last = _integer(ctx, outside.get(limit.name or ""))
        else:
            last = _integer(ctx, state[place]) if ends[place] == limit.name else None
        if first is None or last is None or not (exact or _is_exact(ctx, first, last)):
            return None
        return ctx.simplify(maximum(last - first, 1))
    return None


def _is_exact(ctx: Context, first: IntExpr, last: IntExpr) -> bool:
    """Whether casts of the counter and its limit leave all numbers unchanged; for a symbolic limit, require it."""
    if not is_plain(first) or abs(first) > EXACT or (is_plain(last) and abs(last) > EXACT):
        return False
    ctx.require(less_equal(last, EXACT), f"it counts to {{}} in floats, which are exact only up to {EXACT}", last)
    return True


def _unchanged(value: ir.Value) -> ir.Value:
    node = value.producer()
    while node is not None and node.op_type == "Identity" and node.inputs[0] is not None:
        value = node.inputs[0]
        node = value.producer()
    return value


def _uncast(value: ir.Value) -> ir.Value:
    """The value before a chain of casts to signed numbers of at least 32 bits; `value` itself if there is none."""
    value = _unchanged(value)
    node = value.producer()
    while node is not None and node.op_type == "Cast" and node.inputs[0] is not None:
        target = node.attributes.get("to")
        if target is None or target.value not in _WIDE:
            break
        value = _unchanged(node.inputs[0])
        node = value.producer()
    return value


_WIDE = (ir.DataType.INT32, ir.DataType.INT64, ir.DataType.FLOAT, ir.DataType.DOUBLE)


def _constant(value: ir.Value, outside: Mapping[str, AnyValue | None]) -> int | None:
    tensor = ir.convenience.get_const_tensor(value)
    if tensor is not None:
        return int(elements(tensor).reshape(-1)[0]) if tensor.size == 1 else None
    known = outside.get(value.name or "")
    if isinstance(known, Value) and known.array is not None and known.array.size == 1:
        return int(known.array.reshape(-1)[0])
    return None


def _integer(ctx: Context, value: AnyValue | None) -> IntExpr | None:
    """The only element of an integer tensor, if it is known; else None."""
    if not isinstance(value, Value) or value.dtype not in ("int32", "int64") or not value.is_known:
        return None
    elements = value.known_elements()
    return ctx.ints(value)[0] if elements.size == 1 else None

"""How a Loop carries its states from one iteration to the next.

A state that keeps its shape is carried as it is. One that grows, or shrinks, lies in a buffer with room for its largest
size, beside the current sizes of its growing axes, which each iteration reads. So does a sequence that gets longer: its
items are the rows of a tensor.

The room for an axis follows from the number of iterations, if that has a bound and each one adds as many positions.
Else the user gives it, as the bound of the dim `NAME_dimAXIS`, where NAME is the state's name in the body.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from tvm import ir, te, tirx

from deploykit.compiler.dims import free_vars
from deploykit.compiler.dtypes import storage_dtype
from deploykit.compiler.operators.building.composite import leaves, with_leaves
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.expressions import compute
from deploykit.compiler.operators.building.integers import expr, less_equal, maximum
from deploykit.compiler.operators.building.value import AnyValue, SequenceValue, StackValue, Value, known
from deploykit.compiler.operators.joining import concat

if TYPE_CHECKING:
    from deploykit.compiler.dims.expressions import IntExpr
    from deploykit.compiler.operators.building.context import Context

Room: TypeAlias = "Callable[[int, IntExpr, IntExpr | None], IntExpr]"
"""The largest size of an axis, from its number, its size before the loop, and what an iteration adds, if that is
known. Raises `Unsupported` if there is none."""


@dataclass(frozen=True)
class Kept:
    """A state that keeps its shape. `inside` is the shape that the body sees, if it declares another rank."""

    value: AnyValue
    inside: tuple[IntExpr, ...] | None = None

    def tensors(self, ctx: Context) -> list[Value]:
        return leaves(ctx, self.value)

    def seen(self, ctx: Context, given: Iterator[Value]) -> AnyValue | None:
        """The state inside of the body, from the tensors that are carried."""
        value = with_leaves(self.value, given)
        return value if self.inside is None or not isinstance(value, Value) else ctx.reshape(value, self.inside)

    def stored(self, ctx: Context, result: AnyValue, _: str) -> list[Value]:
        """The tensors to carry on, from the state at the end of an iteration, which messages call by a name."""
        return leaves(ctx, result)

    def after(self, _: Context, given: Iterator[Value], trips: IntExpr | None) -> AnyValue | None:  # noqa: ARG002
        """The state after the loop, which has done `trips` iterations if that is known."""
        return with_leaves(self.value, given)

    def fitting(self, ctx: Context, _: AnyValue, result: AnyValue, inner: frozenset[tirx.Var], room: Room) -> Carried:
        """The form in which a loop can carry the state, if an iteration gives `result`. `inner` are the dims that only
        the body has."""
        value = self.value
        if isinstance(value, SequenceValue) and isinstance(result, SequenceValue | StackValue):
            if isinstance(result, SequenceValue) and len(result.items) == len(value.items):
                return self
            return _sequence(ctx, value, result, inner, room)
        if not isinstance(value, Value) or not isinstance(result, Value):
            return self
        if value.rank != result.rank or value.dtype != result.dtype:
            return self
        added = {
            axis: _difference(ctx, new, old, inner)
            for axis, (old, new) in enumerate(zip(value.shape, result.shape, strict=True))
            if not ctx.equal(old, new)
        }
        return Growing(value, added, _rooms(value, added, room)) if added else self


@dataclass(frozen=True)
class Growing:
    """A state whose size changes along some axes. `added` is how much an iteration adds to them, `None` if that is not
    known, and `rooms` is the room for them. `sequence` is set for a sequence, whose tensor the state is then."""

    value: Value
    added: dict[int, IntExpr | None]
    rooms: dict[int, IntExpr]
    sequence: StackValue | None = None

    @property
    def _room(self) -> tuple[IntExpr, ...]:
        return tuple(self.rooms.get(axis, size) for axis, size in enumerate(self.value.shape))

    def tensors(self, ctx: Context) -> list[Value]:
        return self._packed(ctx, self.value)

    def seen(self, ctx: Context, given: Iterator[Value]) -> AnyValue | None:
        return self._as_state(self._unpacked(ctx, given, {}))

    def after(self, ctx: Context, given: Iterator[Value], trips: IntExpr | None) -> AnyValue | None:
        steps = {axis: more for axis, more in self.added.items() if more is not None}
        ends = {} if trips is None else {a: ctx.simplify(self.value.shape[a] + n * trips) for a, n in steps.items()}
        return self._as_state(self._unpacked(ctx, given, ends))

    def _as_state(self, value: Value) -> AnyValue:
        return value if self.sequence is None else replace(self.sequence, stack=value)

    def stored(self, ctx: Context, result: AnyValue, name: str) -> list[Value]:
        value = result.stack if isinstance(result, StackValue) else result
        if not isinstance(value, Value) or value.rank != self.value.rank or value.dtype != self.value.dtype:
            raise Unsupported(f"a loop that changes its state '{name}' from {self.value} to {value}")
        for axis, room in self.rooms.items():
            size = value.shape[axis]
            message = f"state '{name}' of a loop has room for {{}} positions along axis {axis}, and needs {{}}"
            ctx.require(less_equal(size, room), message, room, size)
        return self._packed(ctx, value)

    def fitting(
        self, ctx: Context, before: AnyValue, result: AnyValue, inner: frozenset[tirx.Var], room: Room
    ) -> Carried:
        old, new = (v.stack if isinstance(v, StackValue) else v for v in (before, result))
        assert isinstance(old, Value)
        assert isinstance(new, Value)
        added = dict(self.added)
        for axis, (start, end) in enumerate(zip(old.shape, new.shape, strict=True)):
            if axis not in added and not ctx.equal(start, end):
                added[axis] = _difference(ctx, end, start, inner)
            known_step = added.get(axis)
            if known_step is not None and not ctx.equal(ctx.simplify(end - start), known_step):
                added[axis] = None
        if added == self.added:
            return self
        return replace(self, added=added, rooms=_rooms(self.value, added, room))

    def _packed(self, ctx: Context, value: Value) -> list[Value]:
        """The buffer with the elements of `value` at its start, and the sizes of the growing axes."""
        used = ctx.product(value.shape)
        flat = ctx.reshape(value, (used,))
        zero = tirx.const(0, storage_dtype(value.dtype))

        def build(t: te.Tensor) -> te.Tensor:
            def element(i: ir.Expr) -> ir.Expr:
                return tirx.if_then_else(i < expr(used), t(i), zero)

            return compute((ctx.product(self._room),), element, name="stored")

        sizes = known(np.array([value.shape[axis] for axis in self.added], object))
        return [ctx.kernel("stored", build, flat, dtype=value.dtype), sizes]

    def _unpacked(self, ctx: Context, given: Iterator[Value], ends: Mapping[int, IntExpr]) -> Value:
        """The state in a buffer. Its sizes along growing axes are read, unless `ends` has them all."""
        buffer, sizes = next(given), next(given)
        if len(ends) < len(self.added):
            found = ctx.ints(sizes, minimum=0, maximum=list(self.rooms.values()), hint="size")
            ends = dict(zip(self.added, found, strict=True))
        shape = tuple(ends.get(axis, size) for axis, size in enumerate(self.value.shape))
        used = ctx.product(shape)
        flat = ctx.kernel("seen", lambda t: compute((used,), t, name="seen"), buffer, dtype=self.value.dtype)
        return ctx.reshape(flat, shape)


Carried: TypeAlias = Kept | Growing


def _sequence(
    ctx: Context, before: SequenceValue, after: SequenceValue | StackValue, inner: frozenset[tirx.Var], room: Room
) -> Carried:
    """How to carry a sequence that an iteration makes longer."""
    items = after.items if isinstance(after, SequenceValue) else ()
    if len(items) <= len(before.items):
        raise Unsupported("a loop that carries a sequence, and that does more than append items to it")
    first, count = items[-1], len(before.items)
    differing = [axis for axis in range(first.rank) if _differ(ctx, items, axis, inner)]
    if any(item.dtype != first.dtype or item.rank != first.rank for item in items) or len(differing) > 1:
        raise Unsupported("a loop that appends items to a sequence that differ in more than one size")
    if differing:
        (axis,) = differing
        shape = list(first.shape)
        shape[axis] = 0
        start = concat(ctx, before.items, axis) if count else ctx.zeros("empty", shape, first.dtype)
        added: dict[int, IntExpr | None] = {axis: None}
        return Growing(start, added, _rooms(start, added, room), StackValue(start, axis))
    rows = [ctx.reshape(item, (1, *item.shape)) for item in before.items]
    start = concat(ctx, rows, 0) if count else ctx.zeros("empty", (0, *first.shape), first.dtype)
    added = {0: len(items) - count}
    return Growing(start, added, _rooms(start, added, room), StackValue(start))


def _differ(ctx: Context, items: Sequence[Value], axis: int, inner: frozenset[tirx.Var]) -> bool:
    """Whether items may differ in their size along an axis, in one iteration or in several."""
    sizes = [item.shape[axis] for item in items if axis < item.rank]
    return any(var in inner for n in sizes for var in free_vars(n)) or any(not ctx.equal(n, sizes[-1]) for n in sizes)


def _difference(ctx: Context, after: IntExpr, before: IntExpr, inner: frozenset[tirx.Var]) -> IntExpr | None:
    """How much larger a size gets; `None` if that depends on dims that only the body has."""
    found = ctx.simplify(after - before)
    return None if any(var in inner for var in free_vars(found)) else found


def _rooms(value: Value, added: dict[int, IntExpr | None], room: Room) -> dict[int, IntExpr]:
    return {axis: room(axis, value.shape[axis], more) for axis, more in added.items()}


def room_for(ctx: Context, before: IntExpr, added: IntExpr | None, trips: IntExpr | None) -> IntExpr | None:
    """The largest size of an axis during a loop of at most `trips` iterations; `None` if it is not known."""
    if added is None or trips is None or (isinstance(trips, int) and trips > MOST_TRIPS):
        return None
    return ctx.simplify(before + maximum(added, 0) * trips)


MOST_TRIPS = 1 << 31
"""Exporters write a larger number for a loop that only its condition ends."""

"""Interleaved results: neighbouring elements that come from different places, interleaved by shuffles.

The rule takes a pointwise stage whose innermost loop has a small constant extent `r`, from 2 to `MOST`. Along the loop
outside of it, all operands must be contiguous or constant. `r` vectors along that loop are computed one after the
other; then the result takes an element of each in turn. Repeating elements (nearest upsampling), depth to space, and
stacking pairs have this form. The rest of the outer loop is computed one element at a time.

It declines scalar devices, booleans, and operands under conditions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm import ir, tirx

from deploykit.compiler.decisions import Declined
from deploykit.compiler.devices.cpu import Device
from deploykit.compiler.schedules.kernel.access import Views, analyse, fuse, pinned, static_stride, values_of
from deploykit.compiler.schedules.kernel.loops import index_of, local, loop, nested, vectorized, without_units
from deploykit.compiler.schedules.kernel.stages import Axis, Stage
from deploykit.compiler.schedules.pointwise.elementwise import guarded
from deploykit.compiler.tir.rewriting import Expr, sequence, substitute
from deploykit.compiler.tir.values import as_index, bits_of, consecutive, const, dtype_of, static

MOST = 4
"""The most elements that are interleaved."""

STRIP = 64
"""The number of vectors of the outer loop in one unit of parallel work."""


def interleave(stage: Stage, views: Views, device: Device) -> list[tirx.Stmt] | Declined:
    """Statements that compute `stage`, or the reason why its result is not interleaved."""
    if stage.store is None or stage.reduce:
        return Declined("it is not elementwise")
    axes, units = without_units(stage.axes)
    store = substitute(stage.store, units)
    found = analyse([store], axes)
    # The innermost axis keeps its own loop.
    fused = fuse(axes, found, pinned([store.value], axes) | {len(axes) - 1})
    turns = fused[-1].axis.static if len(fused) > 1 else None
    if turns is None or turns > MOST:
        return Declined("its innermost loop is not of a small constant extent")
    along = fused[-2].inner
    if static_stride(found[0].strides[fused[-1].inner]) != 1 or static_stride(found[0].strides[along]) != turns:
        return Declined("its result is not contiguous along the two innermost loops")
    if guarded(store.value):
        return Declined("it reads operands under conditions")
    if not all(access.contiguous(along) for access in found[1:]):
        return Declined("its operands are read with strides")
    lanes = device.lanes(max(bits_of(dtype_of(access.buffer)) for access in found))
    count = fused[-2].axis.static
    if lanes == 1 or (count is not None and count < lanes):
        return Declined("a loop is shorter than a vector")
    if dtype_of(store.buffer) == "bool":
        return Declined("vectors of booleans cannot be shuffled")
    placed = substitute(views.store(store), values_of(fused, axes))
    outer = [one.axis for one in fused[:-2]]
    return [_Turns(placed, outer, fused[-2].axis, fused[-1].axis, turns, lanes).emit(device.parallel)]


@dataclass(frozen=True)
class _Turns:
    """`store` over the loops `outer`, `along` and `turn`; `turn` has the extent `turns`."""

    store: tirx.BufferStore
    outer: Sequence[Axis]
    along: Axis
    turn: Axis
    turns: int
    lanes: int

    def emit(self, parallel: bool) -> tirx.Stmt:
        size = STRIP * self.lanes
        extent = as_index(self.along.extent)
        strip = Axis(ir.Var("strip", "int64"), tirx.floordiv(extent + (size - 1), const(size)))
        first = strip.var * size
        length = tirx.min(const(size), extent - first)
        whole = tirx.truncdiv(length, const(self.lanes))
        steps = [loop("i", whole, lambda i: self.vectors(first + i * self.lanes))]
        if static(extent) is None or int(extent) % self.lanes:
            start = first + whole * self.lanes
            rest = tirx.truncmod(length, const(self.lanes))
            steps.append(loop("i", rest, lambda i: loop("j", self.turns, lambda j: self.at(start + i, j))))
        return nested([*self.outer, strip], sequence(steps), parallel)

    def vectors(self, start: Expr) -> tirx.Stmt:
        lanes, turns = self.lanes, self.turns
        dtype = dtype_of(self.store.buffer)
        values = local("values", turns * lanes, dtype)
        steps: list[tirx.Stmt] = [tirx.AllocBuffer(values)]
        for turn in range(turns):

            def element(lane: Expr, turn: int = turn) -> tirx.Stmt:
                return tirx.BufferStore(values, self.at(start + lane, const(turn)).value, [lane + turn * lanes])

            steps.append(vectorized(lanes, element))
        parts: list[ir.Expr] = [
            tirx.BufferLoad(values, [consecutive(const(turn * lanes), lanes)]) for turn in range(turns)
        ]
        target = self.at(start, const(0))
        for part in range(turns):
            order: list[ir.Expr] = [
                tirx.IntImm("int32", place % turns * lanes + place // turns)
                for place in range(part * lanes, (part + 1) * lanes)
            ]
            where = consecutive(target.indices[0] + part * lanes, lanes)
            steps.append(tirx.BufferStore(target.buffer, tirx.Shuffle(parts, order), [where]))
        return sequence(steps)

    def at(self, along: Expr, turn: Expr) -> tirx.BufferStore:
        values = {self.along: along, self.turn: turn}
        return substitute(self.store, {axis.var: index_of(axis, value) for axis, value in values.items()})

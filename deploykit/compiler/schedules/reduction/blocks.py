"""Long sums of floats, in blocks.

In one accumulator, the error of a sum grows with the number of additions: a million times 0.1 would give 100958 in
float32. So after about `BLOCK` additions, an accumulator is added to a total and starts anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tvm import ir, tirx

from deploykit.compiler.schedules.kernel.loops import index_of, local, nested, vectorized
from deploykit.compiler.schedules.kernel.stages import Axis, Combine
from deploykit.compiler.tir.rewriting import Buffer, Expr, sequence
from deploykit.compiler.tir.values import as_index, const, dtype_of

BLOCK = 512
"""The additions of floats after which an accumulator starts anew. It takes less than twice as many."""


@dataclass(frozen=True)
class Blocks:
    """Reduced loops: over `inner`, within each of `outer`; without those, there is one block. `places` has the indices
    of a loop that is divided among both. Blocks have up to `size` elements."""

    inner: tuple[Axis, ...]
    outer: tuple[Axis, ...] = ()
    places: Mapping[ir.Var, Expr] = field(default_factory=dict)
    size: int = 0

    def accumulate(
        self, combine: Combine, totals: Sequence[Buffer], block: Callable[..., Sequence[tirx.Stmt]]
    ) -> list[tirx.Stmt]:
        """`block(*cells)`, which accumulates into buffers like `totals`, for every block. The cells are added to the
        totals and start anew after each block, or where blocks may be short, after `size` elements or more."""

        def cleared(cells: Buffer) -> tirx.Stmt:
            return vectorized(_width(cells), lambda lane: tirx.BufferStore(cells, combine.identity, [lane]))

        def added(total: Buffer, cells: Buffer) -> tirx.Stmt:
            def add(lane: Expr) -> tirx.Stmt:
                value = combine.operator(tirx.BufferLoad(total, [lane]), tirx.BufferLoad(cells, [lane]))
                return tirx.BufferStore(total, value, [lane])

            return vectorized(_width(cells), add)

        declared = [*map(tirx.AllocBuffer, totals), *map(cleared, totals)]
        if not self.outer:
            return [*declared, *block(*totals)]
        cells = [local(f"{total.name}_block", _width(total), dtype_of(total)) for total in totals]
        start, add = [*map(cleared, cells)], [*map(added, totals, cells)]
        if len(self.outer) == 1:
            return [
                *declared,
                nested(self.outer, sequence([*map(tirx.AllocBuffer, cells), *start, *block(*cells), *add])),
            ]
        count, zero = local("count", 1, "int64"), const(0)
        taken, elements = tirx.BufferLoad(count, [zero]), const(1)
        for axis in self.inner:
            elements = elements * as_index(axis.extent)
        anew = [*start, tirx.BufferStore(count, zero, [zero])]
        counted = tirx.BufferStore(count, taken + elements, [zero])
        turn = tirx.IfThenElse(taken >= self.size, sequence([*add, *anew]), None)
        return [
            *declared,
            *map(tirx.AllocBuffer, [*cells, count]),
            *anew,
            nested(self.outer, sequence([*block(*cells), counted, turn])),
            *add,
        ]


def blocks_of(combine: Combine, dtype: str, axes: Sequence[Axis], size: int = BLOCK) -> Blocks:
    """Blocks of up to `size` elements for the reduced loops `axes`, if they add more floats than that, or maybe more;
    else one block."""
    axes = tuple(axes)
    room = size
    if combine.operator is tirx.Add and dtype.startswith("float"):
        for position, axis in reversed(list(enumerate(axes))):
            if axis.static is None or axis.static > room:
                return _divided(axes, position, room, size)
            room //= max(axis.static, 1)
    return Blocks(axes)


def _divided(axes: tuple[Axis, ...], position: int, room: int, size: int) -> Blocks:
    """Blocks of up to `room` indices of the loop at `position`."""
    outer, axis, inner = axes[:position], axes[position], axes[position + 1 :]
    if room <= 1:
        return Blocks(inner, (*outer, axis), size=size)
    extent = as_index(axis.extent)
    block = Axis(ir.Var("block", "int64"), (extent + (room - 1)) // room)
    within = Axis(ir.Var(axis.var.name, "int64"), tirx.min(extent - block.var * room, const(room)))
    places = {axis.var: index_of(axis, block.var * room + within.var)}
    return Blocks((within, *inner), (*outer, block), places, size)


def _width(cells: Buffer) -> int:
    return int(cells.shape[0])

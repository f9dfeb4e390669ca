"""Reductions over any axes (sums, products, maxima, minima), with whole vectors of accumulators.

The rule takes a stage `out = op(out, source)`, possibly with an epilogue. There are four forms, in order of preference:

* *inner*: the innermost reduced loop reads consecutive elements. `WIDE` vectors of partial results run along it and are
  combined at the end, so floating-point sums are added in another order than written.
* *outer*: the innermost spatial loop reads consecutive elements and has no conditions. A few vectors of neighbouring
  outputs are accumulated over all reduced loops. Without vectors, so are the columns of a product whose depth depends
  on the row.
* *swept*: conditions on the innermost spatial axis (the padding of a window) prevent vectors. The output itself
  accumulates: every step of the reduced loops updates all outputs that it concerns.
* *scalar*: one accumulator in a register per output element.

Neighbouring axes are fused first, as for elementwise kernels. Reduced loops skip the indices at which the source is
known to be the identity. The rule declines other stages.

Long sums of floats run in blocks (`blocks`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import tvm_ffi
from tvm import sym, tirx

from deploykit.compiler.decisions import Declined
from deploykit.compiler.devices.cpu import Device
from deploykit.compiler.operators.anchors.annotation import ANCHOR
from deploykit.compiler.schedules.kernel.access import Access, Fused, Views, analyse, fuse, pinned, values_of
from deploykit.compiler.schedules.kernel.finish import finish_of
from deploykit.compiler.schedules.kernel.guards import assume, clipped, guards_of, interval, last_axis, span, vanishes
from deploykit.compiler.schedules.kernel.loops import Code, index_of, local, loop, main_and_tail, nested, vectorized
from deploykit.compiler.schedules.kernel.stages import Axis, Combine, Stage
from deploykit.compiler.schedules.pointwise.elementwise import guarded
from deploykit.compiler.schedules.reduction.blocks import BLOCK, Blocks, blocks_of
from deploykit.compiler.tir.rewriting import Buffer, Expr, Node, sequence, substitute
from deploykit.compiler.tir.values import as_index, bits_of, const, dtype_of

WIDE = 4
"""The vectors of partial results: enough to hide the latency of an addition."""

COLUMNS = 8
"""The columns of a product that are accumulated together on a device without vectors."""


@dataclass(frozen=True)
class _Reduction:
    """A reduction over fused loops, in `blocks`. `finish(value)` is the store of the reduced value."""

    combine: Combine
    spatial: tuple[Axis, ...]
    blocks: Blocks
    finish: Callable[[Expr], tirx.BufferStore]
    dtype: str
    lanes: int
    target: str
    guard: Expr | None

    def update(self, cell: Buffer, index: Expr, source: Expr) -> tirx.Stmt:
        """Combine `source` into `cell[index]`."""
        return tirx.BufferStore(cell, self.combine.operator(tirx.BufferLoad(cell, [index]), source), [index])

    @property
    def reduced(self) -> tuple[Axis, ...]:
        """The reduced loops within a block."""
        return self.blocks.inner

    def in_blocks(self, size: int) -> _Reduction:
        """The same reduction, in blocks of up to `size` elements if it is a long sum without conditions."""
        combine = self.combine
        if guards_of(combine.source, self.reduced):
            return self
        blocks = blocks_of(combine, self.dtype, self.reduced, size)
        source = substitute(combine.source, blocks.places)
        return replace(self, blocks=blocks, combine=replace(combine, source=source))

    def guarded(self, steps: Sequence[tirx.Stmt]) -> tirx.Stmt:
        """The steps that compute one result, if there is one."""
        return sequence(steps) if self.guard is None else tirx.IfThenElse(self.guard, sequence(steps), None)

    def over_depth(self, body: Callable[[Expr], tirx.Stmt], later: Sequence[Axis] = ()) -> tirx.Stmt:
        """`body(source)` for all relevant steps of the reduced loops. `body` runs over the axes `later` itself."""
        return clipped(self.reduced, self.combine.source, self.combine.identity, body, later)


def reduction(stage: Stage, views: Views, device: Device) -> list[tirx.Stmt] | Declined:
    """Statements that compute `stage`, or the reason why it is not a reduction."""
    combine = stage.combine
    if combine is None or stage.store is None:
        return Declined("it is no reduction with a known operator")
    axes = (*stage.axes, *stage.reduce)
    finish = finish_of(stage, views)
    found = analyse([finish.plain, combine.source], axes)
    fixed = pinned([finish.plain.value, combine.source, *([] if stage.guard is None else [stage.guard])], axes)
    spatial = fuse(axes, found, fixed, range(len(stage.axes)))
    reduced = fuse(axes, found, fixed, range(len(stage.axes), len(axes)))
    values = values_of([*spatial, *reduced], axes)
    source = substitute(views.value(combine.source), values)
    widest = max(bits_of(dtype_of(access.buffer)) for access in found)
    task = _Reduction(
        Combine(combine.operator, source, combine.identity),
        tuple(loop.axis for loop in spatial),
        Blocks(tuple(loop.axis for loop in reduced)),
        lambda value: finish(value, values),
        dtype_of(stage.store.buffer),
        device.lanes(widest),
        dtype_of(finish.store.buffer),
        None if stage.guard is None else substitute(stage.guard, values),
    )
    wide = replace(task, lanes=COLUMNS) if task.lanes == 1 and stage.annotations.get(ANCHOR) == "matmul" else task
    if stage.guard is not None:
        inner = wide.lanes > 1 and _reads_along(wide, reduced, found) and not (guarded(source) or finish.scalar)
        return [(_inner if inner else _scalar)(wide, device)]
    if not finish.scalar and spatial and _outer_only(wide, spatial, found):
        return [_outer(wide, device)]
    return [_choose(task, spatial, reduced, found, guarded(combine.source) or finish.scalar)(task, device)]


def _choose(
    task: _Reduction, spatial: Sequence[Fused], reduced: Sequence[Fused], found: Sequence[Access], scalar: bool
) -> Callable[[_Reduction, Device], tirx.Stmt]:
    if scalar and task.lanes > 1 and _sweepable(task):
        return _swept
    if scalar or task.lanes == 1:
        return _scalar
    if _reads_along(task, reduced, found):
        return _inner
    if spatial and all(access.contiguous(spatial[-1].inner) for access in found) and _long(task.spatial[-1], task):
        return _outer
    return _scalar


def _reads_along(task: _Reduction, reduced: Sequence[Fused], found: Sequence[Access]) -> bool:
    """Whether the innermost reduced loop reads consecutive elements, enough for vectors."""
    return bool(reduced) and all(each.contiguous(reduced[-1].inner) for each in found) and _long(task.reduced[-1], task)


def _outer_only(task: _Reduction, spatial: Sequence[Fused], found: Sequence[Access]) -> bool:
    """Whether the source has conditions and none of them depends on the innermost spatial axis."""
    source, along = task.combine.source, task.spatial[-1]
    axes = (*task.reduced, along)
    for guard in guards_of(source, axes):
        at = last_axis(guard, axes)
        if at == len(axes) - 1 or (at >= 0 and interval(guard, axes[at]) is None):
            return False
        if not vanishes(assume(source, guard, False), task.combine.identity):
            return False
        source = assume(source, guard, True)
    together = all(access.contiguous(spatial[-1].inner) for access in found)
    return guarded(task.combine.source) and not guarded(source) and together and task.lanes > 1 and _long(along, task)


def _sweepable(task: _Reduction) -> bool:
    """Whether guards depend on the innermost spatial axis, the axis is long enough, and sums have the output's
    dtype."""
    if not task.spatial or task.dtype != task.target or not _long(task.spatial[-1], task):
        return False
    axes = (*task.reduced, task.spatial[-1])
    return any(last_axis(guard, axes) == len(task.reduced) for guard in guards_of(task.combine.source, axes))


def _long(axis: Axis, task: _Reduction) -> bool:
    return axis.static is None or axis.static >= task.lanes


def _at(node: Node, axis: Axis, index: Expr) -> Node:
    return substitute(node, {axis.var: index_of(axis, index)})


def _scalar(task: _Reduction, device: Device) -> tirx.Stmt:
    task = task.in_blocks(BLOCK)
    total = local("acc", 1, task.dtype)
    zero = const(0)

    def block(cell: Buffer) -> list[tirx.Stmt]:
        return [task.over_depth(lambda source: task.update(cell, zero, source))]

    steps = [*task.blocks.accumulate(task.combine, [total], block), task.finish(tirx.BufferLoad(total, [zero]))]
    return nested(task.spatial, task.guarded(steps), device.parallel)


def _swept(task: _Reduction, device: Device) -> tirx.Stmt:
    """All outputs along the innermost spatial loop at once, accumulated in the output itself."""
    along = task.spatial[-1]
    place = task.finish(task.combine.identity)
    value = tirx.BufferLoad(place.buffer, place.indices)

    def everywhere(store: tirx.BufferStore) -> tirx.Stmt:
        steps = main_and_tail("j", as_index(along.extent), task.lanes, lambda j: _at(store, along, j))
        return sequence(steps)

    def take(source: Expr) -> tirx.Stmt:
        first, stop, source = span([along], source, task.combine.identity)
        update = tirx.BufferStore(place.buffer, task.combine.operator(value, source), place.indices)
        code = Code()
        start = code.let("start", first)
        code.add(loop("j", tirx.max(stop - start, const(0)), lambda j: _at(update, along, start + j)))
        return code.statement()

    steps = [
        everywhere(tirx.BufferStore(place.buffer, task.combine.identity, place.indices)),
        task.over_depth(take, [along]),
    ]
    finished = task.finish(value)
    if not tvm_ffi.structural_equal(finished.value, value):
        steps.append(everywhere(finished))
    return nested(task.spatial[:-1], sequence(steps), device.parallel)


def _inner(task: _Reduction, device: Device) -> tirx.Stmt:
    """The inner form: vectors along the innermost reduced loop."""
    lanes = task.lanes
    count = task.reduced[-1].static
    wide = lanes * WIDE if count is None or count >= lanes * WIDE else lanes
    task = task.in_blocks(BLOCK * lanes)
    *outer, along = task.reduced
    extent = as_index(along.extent)
    partial = local("partial", wide, task.dtype)
    total = local("total", 1, task.dtype)

    def block(partial: Buffer, total: Buffer) -> list[tirx.Stmt]:
        def accumulate(start: Expr, width: int) -> tirx.Stmt:
            def lane(index: Expr) -> tirx.Stmt:
                return task.update(partial, index, _at(task.combine.source, along, start + index))

            return vectorized(width, lane)

        def single(index: Expr) -> tirx.Stmt:
            return task.update(total, const(0), _at(task.combine.source, along, index))

        whole, vectors = extent // wide * wide, extent // lanes * lanes
        sweep = [loop("i", extent // wide, lambda i: accumulate(i * wide, wide))]
        if wide != lanes:
            sweep.append(loop("j", (vectors - whole) // lanes, lambda j: accumulate(whole + j * lanes, lanes)))
        sweep.append(loop("k", extent - vectors, lambda k: single(vectors + k)))
        return [nested(outer, sequence(sweep))]

    steps = [
        *task.blocks.accumulate(task.combine, [partial, total], block),
        *folded(partial, total, wide, lanes, task.combine.operator),
        task.finish(tirx.BufferLoad(total, [const(0)])),
    ]
    return nested(task.spatial, task.guarded(steps), device.parallel)


def folded(
    partial: Buffer, total: Buffer, wide: int, lanes: int, operator: Callable[[Expr, Expr], Expr]
) -> list[tirx.Stmt]:
    """Combine all of `partial` into `total`: other vectors into the first one, then halves, down to one element."""

    def add(offset: int) -> Callable[[Expr], tirx.Stmt]:
        return lambda lane: tirx.BufferStore(
            partial,
            operator(tirx.BufferLoad(partial, [lane]), tirx.BufferLoad(partial, [lane + offset])),
            [lane],
        )

    steps = [vectorized(lanes, add(offset)) for offset in range(lanes, wide, lanes)]
    half = lanes // 2
    while half >= 1:
        steps.append(vectorized(half, add(half)))
        half //= 2
    first = operator(tirx.BufferLoad(total, [const(0)]), tirx.BufferLoad(partial, [const(0)]))
    return [*steps, tirx.BufferStore(total, first, [const(0)])]


def _outer(task: _Reduction, device: Device) -> tirx.Stmt:
    """The outer form: vectors along the innermost spatial loop."""
    task = task.in_blocks(BLOCK)
    along = task.spatial[-1]

    def tile(start: Expr, width: int) -> tirx.Stmt:
        totals = local("acc", width, task.dtype)

        def block(cells: Buffer) -> list[tirx.Stmt]:
            def update(source: Expr) -> tirx.Stmt:
                return vectorized(width, lambda lane: task.update(cells, lane, _at(source, along, start + lane)))

            return [task.over_depth(update, [along])]

        def finish(lane: Expr) -> tirx.Stmt:
            return _at(task.finish(tirx.BufferLoad(totals, [lane])), along, start + lane)

        return sequence([*task.blocks.accumulate(task.combine, [totals], block), vectorized(width, finish)])

    extent, lanes = as_index(along.extent), task.lanes
    wide = lanes * WIDE
    wholes, whole = extent // wide * wide, extent // lanes * lanes
    steps = [
        loop("i", extent // wide, lambda i: tile(i * wide, wide)),
        loop("j", (whole - wholes) // lanes, lambda j: tile(wholes + j * lanes, lanes)),
        loop("k", extent - whole, lambda k: tile(whole + k, 1)),
    ]
    known = sym.Analyzer()
    steps = [
        step for step in steps if not (isinstance(step, tirx.For) and known.can_prove_equal(step.extent, const(0)))
    ]
    return nested(task.spatial[:-1], sequence(steps), device.parallel)

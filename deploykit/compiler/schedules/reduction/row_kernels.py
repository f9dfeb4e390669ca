"""Row kernels: stages over the same leading axes that run row by row.

The module takes consecutive stages (softmax, normalisations: reductions and stages that use their results). It finds
the leading axes that all of them share and along which every stage reads results of earlier ones only at its own
position. Under one loop over those axes, temporaries that no other stage needs shrink to a row. A row of constant size
up to `LOCAL_BYTES` becomes a local buffer; otherwise only the loop is shared.

Before that, a temporary that the last stage reads exactly where it writes an output of the same dtype is replaced by
the output. This is done only in kernels with a reduction: other kernels may run with their result over an operand,
whose contents are then still needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import tvm_ffi
from tvm import ir, sym, tirx

from deploykit.compiler.decisions import Declined
from deploykit.compiler.operators.anchors.annotation import ANCHOR
from deploykit.compiler.schedules.kernel.stages import Axis, Nest, Opaque, Stage
from deploykit.compiler.tir.rewriting import Buffer, Expr, Node, is_zero, substitute
from deploykit.compiler.tir.values import at_place, bits_of, const, dtype_of, static

LOCAL_BYTES = 4096
"""The most bytes of a row of a temporary that becomes a local buffer."""


@dataclass(frozen=True)
class Rows:
    """Stages to run under one loop over `axes`. `locals` are allocated for each row and replace the temporaries
    `shrunk`."""

    axes: tuple[Axis, ...]
    stages: tuple[Stage, ...]
    locals: tuple[Buffer, ...]
    shrunk: tuple[Buffer, ...]


def write_through(nest: Nest) -> Nest:
    """`nest`, with temporaries replaced by the output that is computed from them, where possible."""
    if not any(isinstance(stage, Stage) and stage.reduce for stage in nest.stages):
        return nest
    for stage in nest.stages:
        if isinstance(stage, Opaque) or not stage.pointwise or stage.store is None:
            continue
        target = stage.store.buffer
        for temporary in nest.temporaries:
            if temporary.same_as(target) or not _replaceable(temporary, target, stage, nest):
                continue
            kept = tuple(buffer for buffer in nest.temporaries if not buffer.same_as(temporary))
            stages = tuple(_with_buffer(other, temporary, target) for other in nest.stages)
            return write_through(replace(nest, temporaries=kept, stages=stages))
    return nest


def _replaceable(temporary: Buffer, target: Buffer, last: Stage, nest: Nest) -> bool:
    """Whether `target`, which only `last` writes, element by element, can replace `temporary`."""
    if dtype_of(temporary) != dtype_of(target) or not _same_shape(temporary, target):
        return False
    reads = [load for load in last.loads if load.source.same_as(temporary)]
    place = [axis.var for axis in last.axes]
    if not reads or any(not at_place(load.indices, place) for load in reads):
        return False
    position = nest.stages.index(last)
    for other in nest.stages:
        if isinstance(other, Opaque):
            return False
        if other is not last and any(buffer.same_as(target) for buffer in other.touched):
            return False
    return not _used(temporary, nest.stages[position + 1 :])


def _same_shape(a: Buffer, b: Buffer) -> bool:
    known = sym.Analyzer()
    return len(a.shape) == len(b.shape) and all(
        known.can_prove_equal(x, y) for x, y in zip(a.shape, b.shape, strict=True)
    )


def _with_buffer(stage: Stage | Opaque, old: Buffer, new: Buffer) -> Stage | Opaque:
    if isinstance(stage, Opaque):
        return stage
    return replace(
        stage,
        body=_moved(stage.body, old, new, 0),
        init=None if stage.init is None else _moved(stage.init, old, new, 0),
        epilogue=None if stage.epilogue is None else _moved(stage.epilogue, old, new, 0),
    )


def _moved(node: Node, old: Buffer, new: Buffer, skipped: int) -> Node:
    """`node`, with accesses to `old` going to `new` without their first `skipped` indices."""

    def place(indices: Sequence[Expr]) -> list[Expr]:
        return list(indices[skipped:]) or [const(0)]

    def load(found: ir.TensorLoad) -> Expr:
        return tirx.BufferLoad(new, place(found.indices)) if found.source.same_as(old) else found

    def store(found: tirx.BufferStore) -> tirx.Stmt:
        return tirx.BufferStore(new, found.value, place(found.indices)) if found.buffer.same_as(old) else found

    result: Node = tvm_ffi.structural_map(node, [(ir.TensorLoad, load), (tirx.BufferStore, store)])
    return result


def rows_of(
    stages: Sequence[Stage],
    temporaries: Sequence[Buffer],
    others: Sequence[Stage | Opaque],
    longest: int | None = None,
    least: int = 1,
) -> Rows | Declined:
    """The stages under their shared leading axes, of which there must be at least `least`. `others` are all other
    stages of the kernel. Rows with more elements than `longest` do not become local buffers."""
    depth = _shared(stages)
    if depth < least:
        return Declined("its stages share no rows")
    if any(ANCHOR in stage.annotations for stage in stages):
        return Declined("a product or a convolution is among its stages")
    if any(stage.guard is not None for stage in stages):
        return Declined("one of its stages stores under a condition")
    shared = stages[0].axes[:depth]
    outer = tuple(Axis(ir.Var(axis.var.name, dtype_of(axis.var)), axis.extent) for axis in shared)
    inner = tuple(_under(stage, outer) for stage in stages)
    locals_: list[Buffer] = []
    shrunk: list[Buffer] = []
    for buffer in temporaries:
        if not any(b.same_as(buffer) for stage in stages for b in stage.outputs) or _used(buffer, others):
            continue
        size = _row_size(buffer, depth)
        if size is None or size > (longest or size) or size * bits_of(dtype_of(buffer)) // 8 > LOCAL_BYTES:
            continue
        row = _row(buffer, depth)
        locals_.append(row)
        shrunk.append(buffer)
        inner = tuple(_shrunk(stage, buffer, row, depth) for stage in inner)
    return Rows(outer, inner, tuple(locals_), tuple(shrunk))


def _shared(stages: Sequence[Stage]) -> int:
    """The number of leading axes that all stages share. A stage over all the data keeps one axis for vectors."""
    rank = max(len(stage.axes) + len(stage.reduce) for stage in stages)
    depth = min(len(stage.axes) - (len(stage.axes) == rank) for stage in stages)
    known = sym.Analyzer()
    for stage in stages[1:]:
        same = [known.can_prove_equal(a.extent, b.extent) for a, b in zip(stages[0].axes, stage.axes, strict=False)]
        depth = min(depth, next((i for i, equal in enumerate(same) if not equal), depth))
    written = [buffer for stage in stages for buffer in stage.outputs]
    for stage in stages:
        own = [load.indices for load in stage.loads if any(load.source.same_as(buffer) for buffer in written)]
        for indices in (*own, *(store.indices for store in stage.stores)):
            depth = min(depth, _leading(indices, stage))
    return depth


def _leading(indices: Sequence[Expr], stage: Stage) -> int:
    count = 0
    for index, axis in zip(indices, stage.axes, strict=False):
        if not (index.same_as(axis.var) or (is_zero(index) and axis.static == 1)):
            break
        count += 1
    return count


def _under(stage: Stage, outer: Sequence[Axis]) -> Stage:
    depth = len(outer)
    values = {axis.var: row.var for axis, row in zip(stage.axes, outer, strict=False)}
    return replace(
        stage,
        axes=stage.axes[depth:],
        body=substitute(stage.body, values),
        init=None if stage.init is None else substitute(stage.init, values),
        epilogue=None if stage.epilogue is None else substitute(stage.epilogue, values),
    )


def _shrunk(stage: Stage, buffer: Buffer, row: Buffer, depth: int) -> Stage:
    return replace(
        stage,
        body=_moved(stage.body, buffer, row, depth),
        init=None if stage.init is None else _moved(stage.init, buffer, row, depth),
        epilogue=None if stage.epilogue is None else _moved(stage.epilogue, buffer, row, depth),
    )


def _row(buffer: Buffer, depth: int) -> Buffer:
    shape = list(buffer.shape[depth:]) or [const(1)]
    return tirx.decl_buffer(shape, dtype_of(buffer), f"{buffer.name}_row")


def _row_size(buffer: Buffer, depth: int) -> int | None:
    size = 1
    for extent in buffer.shape[depth:]:
        count = static(extent)
        if count is None:
            return None
        size *= count
    return size


def _used(buffer: Buffer, stages: Sequence[Stage | Opaque]) -> bool:
    return any(other.same_as(buffer) for stage in stages for other in stage.touched)

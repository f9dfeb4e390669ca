"""The fallback rule: loops in the order of the axes, without vectors.

It takes any stage and never declines. A reduction is initialised and accumulated in the written order, in place or,
with an epilogue, in a local buffer. So this rule is also the reference for the meaning of a stage. On a GPU, reductions
are accumulated in local buffers, and long sums of floats in blocks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import tvm_ffi
from tvm import ir, tirx

from deploykit.compiler.schedules.kernel.loops import local, nested, without_units
from deploykit.compiler.schedules.kernel.stages import Axis, Combine, Stage
from deploykit.compiler.schedules.reduction.blocks import blocks_of
from deploykit.compiler.tir.rewriting import Buffer, Expr, collect, sequence, substitute
from deploykit.compiler.tir.values import const, dtype_of


def plain(stage: Stage, *, in_place: bool = True) -> list[tirx.Stmt]:
    """Statements that compute `stage`. Without `in_place`, values are accumulated in local buffers: no tensor is read
    that was written before."""
    if stage.guard is not None:
        alone = replace(stage, axes=(), guard=None)
        body = sequence(plain(alone, in_place=in_place))
        return [nested(stage.axes, tirx.IfThenElse(stage.guard, body, None))]
    outer, units = without_units(stage.axes)
    inner, reduced_units = without_units(stage.reduce)
    values = units | reduced_units
    if stage.combine is not None and not in_place:
        return [nested(outer, sequence(_accumulated(stage, stage.combine, inner, values)))]
    update = nested(inner, substitute(stage.body, values))
    if stage.init is None:
        return [nested(outer, update)]
    steps = [substitute(stage.init, values), update]
    if stage.epilogue is not None:
        steps.append(substitute(stage.epilogue, values))
    stores = collect(stage.init, tirx.BufferStore) if stage.epilogue is not None or not in_place else []
    for store in stores:
        cell = local("acc", 1, dtype_of(store.buffer))
        steps = [tirx.AllocBuffer(cell), *(_moved(step, store.buffer, cell) for step in steps)]
        if stage.epilogue is None:
            place = [substitute(index, values) for index in store.indices]
            steps.append(tirx.BufferStore(store.buffer, tirx.BufferLoad(cell, [const(0)]), place))
    return [nested(outer, sequence(steps))]


def _accumulated(
    stage: Stage, combine: Combine, axes: Sequence[Axis], values: Mapping[ir.Var, Expr]
) -> list[tirx.Stmt]:
    """A reduction over `axes` of one element, for the `values` of other axes."""
    store = stage.store
    assert store is not None
    cell = local("acc", 1, dtype_of(store.buffer))
    blocks = blocks_of(combine, dtype_of(store.buffer), axes)
    update = nested(blocks.inner, substitute(stage.body, {**values, **blocks.places}))
    steps = blocks.accumulate(combine, [cell], lambda own: [_moved(update, store.buffer, own)])
    if stage.epilogue is not None:
        return [*steps, _moved(substitute(stage.epilogue, values), store.buffer, cell)]
    place = [substitute(index, values) for index in store.indices]
    return [*steps, tirx.BufferStore(store.buffer, tirx.BufferLoad(cell, [const(0)]), place)]


def _moved(statement: tirx.Stmt, source: Buffer, target: Buffer) -> tirx.Stmt:
    """`statement`, with every access to `source` replaced by one to the only element of `target`."""

    def load(node: ir.TensorLoad) -> Expr:
        return tirx.BufferLoad(target, [const(0)]) if node.source.same_as(source) else node

    def store(node: tirx.BufferStore) -> tirx.Stmt:
        return tirx.BufferStore(target, node.value, [const(0)]) if node.buffer.same_as(source) else node

    result: tirx.Stmt = tvm_ffi.structural_map(statement, [(ir.TensorLoad, load), (tirx.BufferStore, store)])
    return result

"""The fallback rule: loops in the order of the axes, without vectors.

It takes any stage and never declines. A reduction is initialised and accumulated in the written order, in place or, on
a GPU and with an epilogue, in a local buffer. So this rule is also the reference for the meaning of a stage.
"""

from __future__ import annotations

from dataclasses import replace

import tvm_ffi
from tvm import ir, tirx

from deploykit.compiler.schedules.kernel.loops import local, nested, without_units
from deploykit.compiler.schedules.kernel.stages import Stage
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


def _moved(statement: tirx.Stmt, source: Buffer, target: Buffer) -> tirx.Stmt:
    """`statement`, with every access to `source` replaced by one to the only element of `target`."""

    def load(node: ir.TensorLoad) -> Expr:
        return tirx.BufferLoad(target, [const(0)]) if node.source.same_as(source) else node

    def store(node: tirx.BufferStore) -> tirx.Stmt:
        return tirx.BufferStore(target, node.value, [const(0)]) if node.buffer.same_as(source) else node

    result: tirx.Stmt = tvm_ffi.structural_map(statement, [(ir.TensorLoad, load), (tirx.BufferStore, store)])
    return result

"""The fallback rule: loops in the order of the axes, without vectors.

It takes any stage and never declines. A reduction is initialised and accumulated in the written order, in place or,
with an epilogue, in a local buffer. So this rule is also the reference for the meaning of a stage.
"""

from __future__ import annotations

from dataclasses import replace

import tvm_ffi
from tvm import ir, tirx

from deploykit.compiler.schedules.kernel.loops import local, nested, without_units
from deploykit.compiler.schedules.kernel.stages import Stage
from deploykit.compiler.tir.rewriting import Buffer, Expr, sequence, substitute
from deploykit.compiler.tir.values import const, dtype_of


def plain(stage: Stage) -> list[tirx.Stmt]:
    """Statements that compute `stage`."""
    if stage.guard is not None:
        alone = replace(stage, axes=(), guard=None)
        return [nested(stage.axes, tirx.IfThenElse(stage.guard, sequence(plain(alone)), None))]
    outer, units = without_units(stage.axes)
    inner, reduced_units = without_units(stage.reduce)
    values = units | reduced_units
    update = nested(inner, substitute(stage.body, values))
    if stage.init is None:
        return [nested(outer, update)]
    steps = [substitute(stage.init, values), update]
    if stage.epilogue is not None:
        assert stage.store is not None
        cell = local("acc", 1, dtype_of(stage.store.buffer))
        steps.append(substitute(stage.epilogue, values))
        steps = [tirx.AllocBuffer(cell), *(_moved(step, stage.store.buffer, cell) for step in steps)]
    return [nested(outer, sequence(steps))]


def _moved(statement: tirx.Stmt, source: Buffer, target: Buffer) -> tirx.Stmt:
    """`statement`, with every access to `source` replaced by one to the only element of `target`."""

    def load(node: ir.TensorLoad) -> Expr:
        return tirx.BufferLoad(target, [const(0)]) if node.source.same_as(source) else node

    def store(node: tirx.BufferStore) -> tirx.Stmt:
        return tirx.BufferStore(target, node.value, [const(0)]) if node.buffer.same_as(source) else node

    result: tirx.Stmt = tvm_ffi.structural_map(statement, [(ir.TensorLoad, load), (tirx.BufferStore, store)])
    return result

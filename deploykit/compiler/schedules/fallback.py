"""The fallback rule: loops in the order of the axes, without vectors.

It takes any stage and never declines. A reduction is initialised and accumulated in the written order, in place or,
on a GPU and with an epilogue, in a local buffer, where long sums of floats run in blocks. So this rule is also the
reference for the meaning of a stage.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import tvm_ffi
from tvm import ir, tirx

from deploykit.compiler.schedules.kernel.loops import local, nested, without_units
from deploykit.compiler.schedules.kernel.stages import Stage
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
    update = nested(inner, substitute(stage.body, values))
    if stage.init is None:
        return [nested(outer, update)]
    init = substitute(stage.init, values)
    if in_place and stage.epilogue is None:
        return [nested(outer, sequence([init, update]))]
    stores = collect(init, tirx.BufferStore)
    cells = {store.buffer: local("acc", 1, dtype_of(store.buffer)) for store in stores}
    if stage.combine is None:
        steps = [*map(tirx.AllocBuffer, cells.values()), _moved(init, cells), _moved(update, cells)]
    else:
        ((place, cell),) = cells.items()
        blocks = blocks_of(stage.combine, dtype_of(place), inner)
        within = nested(blocks.inner, substitute(stage.body, {**values, **blocks.places}))
        steps = blocks.accumulate(stage.combine, [cell], lambda own: [_moved(within, {place: own})])
    if stage.epilogue is not None:
        steps.append(_moved(substitute(stage.epilogue, values), cells))
    else:
        steps += [
            tirx.BufferStore(store.buffer, tirx.BufferLoad(cells[store.buffer], [const(0)]), store.indices)
            for store in stores
        ]
    return [nested(outer, sequence(steps))]


def _moved(statement: tirx.Stmt, cells: Mapping[Buffer, Buffer]) -> tirx.Stmt:
    """`statement`, with every access to a buffer in `cells` replaced by one to the only element of its cell."""

    def load(node: ir.TensorLoad) -> Expr:
        cell = cells.get(node.source)
        return node if cell is None else tirx.BufferLoad(cell, [const(0)])

    def store(node: tirx.BufferStore) -> tirx.Stmt:
        cell = cells.get(node.buffer)
        return node if cell is None else tirx.BufferStore(cell, node.value, [const(0)])

    result: tirx.Stmt = tvm_ffi.structural_map(statement, [(ir.TensorLoad, load), (tirx.BufferStore, store)])
    return result

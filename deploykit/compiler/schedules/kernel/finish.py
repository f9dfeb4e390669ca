"""The end of a reduction: storing a complete value, with the epilogue applied if there is one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tvm import ir, tirx

from deploykit.compiler.schedules.kernel.access import Views
from deploykit.compiler.schedules.kernel.stages import Stage
from deploykit.compiler.schedules.pointwise.elementwise import guarded
from deploykit.compiler.tir.rewriting import Buffer, Expr, replace_loads, substitute
from deploykit.compiler.tir.values import dtype_of


@dataclass(frozen=True)
class Finish:
    """Stores the finished value of a stage. `store` uses flat views, over the stage's axes; its loads of `own` stand
    for the value. `plain` is the same store with zeros for the value, used to analyse its other accesses. `scalar`: it
    has no vector form."""

    store: tirx.BufferStore
    own: Buffer
    plain: tirx.BufferStore
    scalar: bool

    def __call__(self, value: Expr, axes: Mapping[ir.Var, Expr]) -> tirx.BufferStore:
        """The store of `value` at the given values of the axes."""
        at = substitute(self.store, axes)
        return tirx.BufferStore(at.buffer, self._replaced(at.value, value), at.indices)

    def _replaced(self, node: Expr, value: Expr) -> Expr:
        return replace_loads(node, lambda load: value if load.source.same_as(self.own) else load)


def finish_of(stage: Stage, views: Views) -> Finish:
    """How the reduced values of `stage` are stored."""
    assert stage.store is not None
    own = stage.store.buffer
    if stage.epilogue is None:
        at = stage.store.indices
        final = tirx.BufferStore(own, tirx.BufferLoad(own, at), at)
    else:
        final = stage.epilogue

    def erased(load: ir.TensorLoad) -> Expr:
        return tirx.const(0, dtype_of(load)) if load.source.same_as(own) else load

    plain = tirx.BufferStore(final.buffer, replace_loads(final.value, erased), final.indices)
    return Finish(views.store(final), views.flat(own), plain, guarded(final.value))

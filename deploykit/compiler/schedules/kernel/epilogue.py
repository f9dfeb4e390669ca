"""Epilogues: a pointwise stage that only post-processes a reduction is computed as part of the reduction.

The pass takes any nest. The stage `E` becomes the epilogue of the reduction `R` if `R` writes a temporary that only `E`
reads, always at one index that is a permutation of `E`'s axes (axes of extent 1 may be missing). Bias, activation and
residual of a matmul or convolution, and the division of a mean, have this form. `E` may store under a condition, at any
place. The merged stage takes the position of
`E`, so that everything that `E` reads has been computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tvm import ir, sym, tirx

from deploykit.compiler.schedules.kernel.stages import Nest, Opaque, Stage
from deploykit.compiler.tir.rewriting import Buffer, Expr, is_zero, substitute
from deploykit.compiler.tir.values import dtype_of


def merge_epilogues(nest: Nest) -> Nest:
    """`nest`, with pointwise stages moved into the reductions that they post-process."""
    stages = list(nest.stages)
    temporaries = list(nest.temporaries)
    for stage in nest.stages:
        if isinstance(stage, Opaque) or stage.combine is None:
            continue
        target = stage.outputs[0]
        if not any(target.same_as(buffer) for buffer in temporaries):
            continue
        reader = _only_reader(target, stage, stages)
        merged = None if reader is None else _merge(stage, reader, target)
        if reader is None or merged is None:
            continue
        stages[stages.index(reader)] = merged
        stages.remove(stage)
        temporaries.remove(target)
    return replace(nest, stages=tuple(stages), temporaries=tuple(temporaries))


def _only_reader(target: Buffer, writer: Stage, stages: Sequence[Stage | Opaque]) -> Stage | None:
    readers: list[Stage] = []
    for other in stages:
        if other is writer:
            continue
        if any(buffer.same_as(target) for buffer in other.touched):
            if isinstance(other, Opaque):
                return None
            readers.append(other)
    if len(readers) != 1:
        return None
    return readers[0] if readers[0].pointwise or readers[0].guard is not None else None


def _merge(stage: Stage, reader: Stage, target: Buffer) -> Stage | None:
    values: dict[ir.Var, Expr] | None = None
    for load in reader.loads:
        if not load.source.same_as(target):
            continue
        bound = _axes_at(load, stage, reader)
        if bound is None or (values is not None and bound != values):
            return None
        values = bound
    if values is None:
        return None
    guard = None if reader.guard is None else substitute(reader.guard, values)
    return replace(stage, name=reader.name, epilogue=substitute(reader.store, values), guard=guard)


def _axes_at(load: ir.TensorLoad, stage: Stage, reader: Stage) -> dict[ir.Var, Expr] | None:
    """The values of the reader's axes in terms of the stage's, if `load` reads exactly what `stage` stores; else
    None."""
    assert stage.store is not None
    known = sym.Analyzer()
    sizes: dict[Expr, Expr] = {axis.var: axis.extent for axis in (*stage.axes, *reader.axes)}
    bound: dict[ir.Var, Expr] = {}
    for own, index in zip(stage.store.indices, load.indices, strict=True):
        if is_zero(own) and is_zero(index):
            continue
        size = sizes.get(own, own + 1)
        if is_zero(index) and known.can_prove_equal(size, tirx.IntImm(dtype_of(size), 1)):
            continue
        if index not in sizes or own not in sizes or not isinstance(index, ir.Var) or index in bound:
            return None
        if not known.can_prove_equal(sizes[index], sizes[own]):
            return None
        bound[index] = own if dtype_of(own) == dtype_of(index) else own.astype(dtype_of(index))
    for axis in reader.axes:
        if axis.var not in bound:
            if axis.static != 1:
                return None
            bound[axis.var] = tirx.IntImm(dtype_of(axis.var), 0)
    return bound

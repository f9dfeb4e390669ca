"""Inlining: pointwise stages are merged into the stages that read them.

The pass takes any nest. A pointwise stage that writes a temporary is substituted into its readers, unless

* an opaque statement or an anchor (a stage with a `deploykit.anchor` annotation) reads the temporary, unless the anchor
  is a product and the stage gathers matrices;
* it calls a transcendental function and would be evaluated more than once per element;
* the readers would grow beyond `MAX_NODES` expression nodes.

Temporaries that are no longer read are removed together with their stages. Indices that result from the substitution
are simplified under the ranges of the reader's axes, so that a reshape between two shapes becomes a plain index again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tvm import ir, sym, tirx

from deploykit.compiler.operators.anchors.annotation import ANCHOR
from deploykit.compiler.schedules.kernel.stages import Axis, Nest, Opaque, Stage, analyzer
from deploykit.compiler.tir.heavy import is_heavy
from deploykit.compiler.tir.rewriting import Buffer, Expr, collect, replace_loads, substitute
from deploykit.compiler.tir.values import dtype_of

MAX_NODES = 400


def inline(nest: Nest) -> Nest:
    """`nest`, without the pointwise stages that can be inlined into their readers."""
    stages = list(nest.stages)
    temporaries = list(nest.temporaries)
    position = 0
    while position < len(stages):
        stage = stages[position]
        target = _temporary(stage, temporaries)
        if target is None or isinstance(stage, Opaque) or not _inlinable(stage, target, stages):
            position += 1
            continue
        readers = [other for other in stages if other is not stage]
        stages = [other if isinstance(other, Opaque) else _absorb(other, stage, target) for other in readers]
        temporaries.remove(target)
    return replace(nest, stages=tuple(stages), temporaries=tuple(temporaries))


def _temporary(stage: Stage | Opaque, temporaries: Sequence[Buffer]) -> Buffer | None:
    if isinstance(stage, Opaque) or not stage.pointwise:
        return None
    target = stage.outputs[0]
    return target if any(target.same_as(buffer) for buffer in temporaries) else None


def _inlinable(stage: Stage, target: Buffer, stages: Sequence[Stage | Opaque]) -> bool:
    assert stage.store is not None
    if any(load.source.same_as(target) for load in stage.loads) or ANCHOR in stage.annotations:
        return False
    size = len(collect(stage.store.value, ir.Expr))
    heavy = is_heavy(stage.store.value)
    evaluations = 0
    for other in stages:
        if other is stage:
            continue
        if isinstance(other, Opaque):
            if any(buffer.same_as(target) for buffer in other.touched):
                return False
            continue
        reads = [load for load in other.loads if load.source.same_as(target)]
        if reads and not (ANCHOR not in other.annotations or _reads_in_place(other, stage)):
            return False
        if any(buffer.same_as(target) for buffer in other.outputs):
            return False
        evaluations += sum(2 if _rereads(other, load) else 1 for load in reads)
        if len(reads) > 1 and len(collect(other.body, ir.Expr)) + size * len(reads) > MAX_NODES:
            return False
    return evaluations <= 1 or not heavy


def gathers_matrices(stage: Stage) -> bool:
    """Whether a stage copies elements from places that it looks up, one for each matrix of its last two axes."""
    if not stage.pointwise or stage.store is None or not isinstance(stage.store.value, ir.TensorLoad):
        return False
    looked_up = [load for index in stage.store.value.indices for load in collect(index, ir.TensorLoad)]
    used = {var for load in looked_up for var in collect(load, ir.Var)}
    return bool(looked_up) and len(stage.axes) > 2 and not used & {axis.var for axis in stage.axes[-2:]}


def _reads_in_place(reader: Stage, stage: Stage) -> bool:
    return reader.annotations[ANCHOR] == "matmul" and gathers_matrices(stage)


def _rereads(stage: Stage, load: ir.TensorLoad) -> bool:
    """Whether `stage` may read an element of the loaded buffer in several iterations."""
    if any(collect(index, ir.TensorLoad) for index in load.indices):
        return True
    used = {var for index in load.indices for var in collect(index, ir.Var)}
    return any(axis.var not in used and axis.static != 1 for axis in (*stage.axes, *stage.reduce))


def _absorb(reader: Stage, producer: Stage, target: Buffer) -> Stage:
    if not any(load.source.same_as(target) for load in reader.loads):
        return reader
    assert producer.store is not None
    value = producer.store.value
    known = analyzer((*reader.axes, *reader.reduce))

    def rewrite(load: ir.TensorLoad) -> Expr:
        if not load.source.same_as(target):
            return load
        replaced = substitute(value, _bindings(producer.axes, load.indices))
        return replace_loads(replaced, lambda inner: _simplified(inner, known))

    return Stage(
        reader.name,
        reader.axes,
        reader.reduce,
        replace_loads(reader.body, rewrite),
        reader.init,
        reader.annotations,
        guard=reader.guard,
    )


def _bindings(axes: Sequence[Axis], indices: Sequence[Expr]) -> dict[ir.Var, Expr]:
    return {
        axis.var: index if dtype_of(index) == dtype_of(axis.var) else index.astype(dtype_of(axis.var))
        for axis, index in zip(axes, indices, strict=True)
    }


def _simplified(load: ir.TensorLoad, known: sym.Analyzer) -> Expr:
    if all(isinstance(index, ir.Var | tirx.IntImm) for index in load.indices):
        return load
    source: Buffer = load.source
    return tirx.BufferLoad(source, [known.simplify(index) for index in load.indices])

"""Builders of kernels from stages."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import ir, s_tir, tirx

from deploykit.compiler.schedules.kernel.stages import Axis, Stage
from deploykit.compiler.tir.rewriting import Buffer, Expr, collect, sequence, substitute
from deploykit.compiler.tir.values import dtype_of


def new_kernel(
    inputs: Sequence[Buffer], outputs: Sequence[Buffer], body: tirx.Stmt, pattern: int | None = None
) -> tuple[tirx.PrimFunc, list[ir.Var]]:
    """A kernel, and the dims that are its parameters between inputs and outputs: those that are no extent of a tensor.
    `pattern` is TVM's pattern of the kernel, if fusion is not to find it out."""
    scalars = _scalars(body, [*inputs, *outputs])
    attrs = {"s_tir": True, "tirx.noalias": True} | ({} if pattern is None else {"op_pattern": pattern})
    kernel = tirx.PrimFunc([*inputs, *scalars, *outputs], body, None, ir.make_node("ir.DictAttrs", **attrs))
    return s_tir.renew_defs(kernel), scalars


def _scalars(body: tirx.Stmt, buffers: Sequence[Buffer]) -> list[ir.Var]:
    """The dims that a kernel needs but that are no extent of its tensors, nor where one of them begins in memory."""
    given = {n for buffer in buffers for n in (*buffer.shape, buffer.elem_offset) if isinstance(n, ir.Var)}
    loose = [*collect(body, ir.Var), *(v for buffer in buffers for n in buffer.shape for v in collect(n, ir.Var))]
    inside = {iter_var.var for block in collect(body, s_tir.SBlock) for iter_var in block.iter_vars}
    inside |= {loop.loop_var for loop in collect(body, tirx.For)} | {bind.var for bind in collect(body, tirx.Bind)}
    return [v for v in dict.fromkeys(loose) if v not in given | inside and not tirx.is_buffer_var(v)]


def block(
    stage: Stage, axes: Sequence[Axis], reduce: Sequence[Axis], body: tirx.Stmt, init: tirx.Stmt | None
) -> tirx.Stmt:
    """A TE block over fresh loops, with the name and the annotations of `stage`."""
    kinds = [*((axis, tirx.IterVar.DataPar) for axis in axes), *((axis, tirx.IterVar.CommReduce) for axis in reduce)]
    loops = [ir.Var(axis.var.name.removeprefix("v_"), dtype_of(axis.var)) for axis, _ in kinds]
    own = {axis.var: ir.Var(f"v_{axis.var.name.removeprefix('v_')}", dtype_of(axis.var)) for axis, _ in kinds}
    body = substitute(body, own)
    init = None if init is None else substitute(init, own)
    variables = [
        tirx.IterVar(ir.Range(tirx.IntImm(dtype_of(axis.var), 0), axis.extent), own[axis.var], kind)
        for axis, kind in kinds
    ]
    loads = dict.fromkeys(load.source for load in collect(body, ir.TensorLoad))
    stores = dict.fromkeys(store.buffer for store in collect(body, tirx.BufferStore))
    reads = [_whole(buffer) for buffer in loads if buffer not in stores]
    made = s_tir.SBlock(
        variables, reads, [_whole(buffer) for buffer in stores], stage.name, body, init, annotations=stage.annotations
    )
    result: tirx.Stmt = s_tir.SBlockRealize(list(loops), True, made)
    for (axis, _), var in reversed(list(zip(kinds, loops, strict=True))):
        result = tirx.For(var, tirx.IntImm(dtype_of(var), 0), axis.extent, tirx.ForKind.SERIAL, result)
    return result


def root(stages: Sequence[tirx.Stmt], temporaries: Sequence[Buffer]) -> tirx.Stmt:
    made = s_tir.SBlock([], [], [], "root", sequence(stages), alloc_buffers=list(temporaries))
    return s_tir.SBlockRealize([], True, made)


def reshaped(like: Buffer, shape: Sequence[Expr]) -> Buffer:
    """A buffer with the name and the dtype of `like`, but another shape."""
    return tirx.decl_buffer(list(shape), dtype_of(like), like.name, layout=None)


def _whole(buffer: Buffer) -> tirx.BufferRegion:
    return tirx.BufferRegion(buffer, [ir.Range(0, extent) for extent in buffer.shape])

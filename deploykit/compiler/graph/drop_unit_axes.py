"""Lets operands that are not broadcast along an axis of extent 1 be read at the result's own index.

Operators that broadcast read an operand of extent 1 along an axis at the constant 0, even if the result's extent along
that axis is 1, too. The analysis that decides which kernels fuse takes such a read for a broadcast. This pass makes it
a read at the axis itself:

    y[i, j] = x[0, j] + b[j]    ->    y[i, j] = x[i, j] + b[j]        where x and y have the shape (1, n)

Only blocks that store at the index of their axes are changed, and only loads with as many dims as the store.
"""

from __future__ import annotations

import tvm_ffi
from tvm import ir, s_tir, tirx

from deploykit.compiler.tir.rewriting import Expr, collect, is_zero


def name_unit_axes(mod: ir.IRModule) -> ir.IRModule:
    """`mod`, with these reads in all its kernels."""
    rewritten = {
        name: func.with_body(_named(func.body)) if isinstance(func, tirx.PrimFunc) else func
        for name, func in mod.functions.items()
    }
    return ir.IRModule(rewritten, attrs=mod.attrs, global_infos=mod.global_infos)


def _named(body: tirx.Stmt) -> tirx.Stmt:
    if not any(_unit_zeros(load) for load in collect(body, ir.TensorLoad)):
        return body
    result: tirx.Stmt = tvm_ffi.structural_map(body, (s_tir.SBlock, _block))
    return result


def _unit_zeros(load: ir.TensorLoad) -> list[int]:
    pairs = enumerate(zip(load.indices, load.source.shape, strict=True))
    return [dim for dim, (index, extent) in pairs if is_zero(index) and _is_one(extent)]


def _block(block: s_tir.SBlock) -> s_tir.SBlock:
    store = block.body
    axes = {iter_var.var: iter_var.dom.extent for iter_var in block.iter_vars}
    if not isinstance(store, tirx.BufferStore) or not all(index in axes for index in store.indices):
        return block
    place = list(store.indices)

    def read(load: ir.TensorLoad) -> Expr:
        if len(load.indices) != len(place) or load.source.same_as(store.buffer):
            return load
        units = [dim for dim in _unit_zeros(load) if _is_one(axes[place[dim]])]
        if not units:
            return load
        return tirx.BufferLoad(
            load.source, [place[dim] if dim in units else index for dim, index in enumerate(load.indices)]
        )

    value = tvm_ffi.structural_map(store.value, (ir.TensorLoad, read))
    return s_tir.SBlock(
        block.iter_vars,
        block.reads,
        block.writes,
        block.name_hint,
        tirx.BufferStore(store.buffer, value, store.indices),
        block.init,
        block.alloc_buffers,
        block.match_buffers,
        block.annotations,
    )


def _is_one(extent: Expr) -> bool:
    return isinstance(extent, tirx.IntImm) and int(extent) == 1

"""Moves tensors and kernels to the channels-last layout.

Convolutions take and give `[N, *spatial, C]`. Where the model has channels first, `to_last` and `to_first` convert. A
conversion to channels first and back cancels, and kernels in between are moved to channels last:

    conv(to_last(relu(to_first(y))))    ->    conv(relu'(y))

where `relu'` is `relu` with the dims of its operands and result, and its loops, in the other order (`moved`). Other
operands of the kernel are converted, constants at build time. A kernel stays, and its operands are converted, if it is
imperative, has several results, or exchanges channels and spatial dims. Reshapes that leave the spatial dims alone are
moved, too. A conversion of a tensor with one element along all spatial dims, or along all channel dims, is a reshape.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import tvm_ffi
from tvm import ir, relax, s_tir, sym, tirx

from deploykit.compiler.constants import constant, read
from deploykit.compiler.decisions import Declined
from deploykit.compiler.operators.anchors.channels_last import (
    channels_first,
    channels_last,
    first_order,
    last_order,
)
from deploykit.compiler.operators.building.kernel_calls import call_te
from deploykit.compiler.tir.rewriting import Buffer, Expr, Node, collect, sequence
from deploykit.compiler.tir.values import at_place

FIRST = "deploykit.channels_first"
"""Attribute of a kernel that only converts to channels first; its value is the number of spatial dims."""


def to_last(builder: relax.BlockBuilder, value: relax.Expr, spatial: int) -> relax.Expr:
    """`value`, of shape `[N, *channels, *spatial]`, with the channels last."""
    known = _known_last(builder, value)
    if known is not None and known[1] == spatial:
        return known[0]
    dims = list(value.ty.shape.values)
    if isinstance(value, ir.GenericConst):
        order = last_order(range(len(dims)), spatial)
        with read(value) as array:
            return constant(np.ascontiguousarray(array.transpose(order)))
    if _is_view(dims, spatial):
        return builder.emit(relax.op.reshape(value, last_order(dims, spatial)))
    build = partial(channels_last, spatial=spatial)
    return builder.emit(call_te(builder, build, value, name="channels_last"))


def to_first(builder: relax.BlockBuilder, value: relax.Expr, spatial: int) -> relax.Expr:
    """`value`, of shape `[N, *spatial, *channels]`, with the channels first."""
    dims = first_order(list(value.ty.shape.values), spatial)
    if _is_view(dims, spatial):
        return relax.op.reshape(value, dims)
    build = partial(channels_first, spatial=spatial)
    return call_te(builder, build, value, name="channels_first", attributes={FIRST: spatial})


def follow(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr | Declined | None:
    """Move a kernel or reshape to channels last if an operand was converted from there. Returns the new expression, or
    the reason why the kernel stays, or `None` if no operand was converted."""
    name = getattr(call.op, "name", "")
    if name == "relax.reshape":
        return _follow_reshape(builder, call)
    if name != "relax.call_tir":
        return None
    fields = list(call.args[1].fields)
    known = [found for found in (_known_last(builder, field) for field in fields) if found is not None]
    if not known:
        return None
    if not isinstance(call.ty_args[0], relax.TensorType):
        return Declined("it has several results")
    spatial = known[0][1]
    func = moved(builder.get()[call.args[0]], spatial)
    if isinstance(func, Declined):
        return func
    fields = [to_last(builder, field, spatial) if _has_both(field, spatial) else field for field in fields]
    result = call.ty_args[0]
    shape = last_order(list(result.shape.values), spatial)
    gvar = builder.add_func(func, call.args[0].name_hint)
    last = relax.call_tir(gvar, relax.Tuple(fields), relax.TensorType(shape, result.dtype))
    return to_first(builder, builder.emit(last), spatial)


def _follow_reshape(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr | Declined | None:
    known = _known_last(builder, call.args[0])
    if known is None:
        return None
    value, spatial = known
    before, after = list(call.args[0].ty.shape.values), list(call.args[1].values)
    if len(after) < spatial + 2:
        return Declined("it reshapes to fewer dims")
    same = sym.Analyzer().can_prove_equal
    kept = [(before[0], after[0]), *zip(before[-spatial:], after[-spatial:], strict=True)]
    if not all(same(a, b) for a, b in kept):
        return Declined("it reshapes other dims than the channels")
    return to_first(builder, builder.emit(relax.op.reshape(value, last_order(after, spatial))), spatial)


def _known_last(builder: relax.BlockBuilder, value: relax.Expr) -> tuple[relax.Expr, int] | None:
    """The tensor with channels last that `value` was converted from, and its number of spatial dims."""
    if not isinstance(value, ir.Var) or not isinstance(value.ty, relax.TensorType):
        return None
    bound = builder.lookup_binding(value)
    if not isinstance(bound, relax.Call) or getattr(bound.op, "name", "") != "relax.call_tir":
        return None
    attrs = builder.get()[bound.args[0]].attrs
    if attrs is None or FIRST not in attrs:
        return None
    return bound.args[1].fields[0], int(attrs[FIRST])


def _is_view(dims: Sequence[Expr], spatial: int) -> bool:
    """Whether `[N, *channels, *spatial]` has its elements in the same order with the channels last."""
    channels, rest = dims[1 : len(dims) - spatial], dims[len(dims) - spatial :]
    return any(all(isinstance(n, tirx.IntImm) and int(n) == 1 for n in part) for part in (channels, rest))


def _has_both(value: relax.Expr, spatial: int) -> bool:
    """Whether a tensor has a batch, channels and spatial dims."""
    return isinstance(getattr(value, "ty", None), relax.TensorType) and len(value.ty.shape.values) >= spatial + 2


def moved(func: tirx.PrimFunc, spatial: int) -> tirx.PrimFunc | Declined:
    """`func`, with channels last in every buffer that has channels and spatial dims, and in the loops that fill it."""
    root = func.body
    if not isinstance(root, s_tir.SBlockRealize) or len(root.block.iter_vars):
        return Declined("it is not made of blocks")
    params = [param for param in func.params if tirx.is_buffer_var(param)]
    buffers = [buffer for buffer in (*params, *root.block.alloc_buffers) if len(buffer.shape) >= spatial + 2]
    result = params[-1]
    blocks = [block for block in collect(root, s_tir.SBlock) if not block.same_as(root.block)]
    if not any(result.same_as(buffer) for buffer in buffers):
        return Declined("its result has no channels")
    if not blocks:
        return Declined("it is one imperative block")
    if not all(_movable(block, buffers, spatial) for block in blocks):
        return Declined("it exchanges channels with other dims, or stores more than one element at a time")
    new = {buffer: _last_buffer(buffer, spatial) for buffer in buffers}
    mover = _Mover(new, spatial)
    body = root.block.body
    statements = list(body.seq) if isinstance(body, tirx.SeqStmt) else [body]
    block = s_tir.SBlock(
        [],
        [],
        [],
        root.block.name_hint,
        sequence([mover.nest(statement) for statement in statements]),
        None,
        [new.get(buffer, buffer) for buffer in root.block.alloc_buffers],
    )
    return tirx.PrimFunc(
        [new.get(param, param) for param in func.params],
        s_tir.SBlockRealize([], True, block),
        func.ret_type,
        func.attrs,
    )


def _last_buffer(buffer: Buffer, spatial: int) -> Buffer:
    """A buffer like `buffer`, with the channels last. It has no layout attribute, like buffers of tensor
    expressions."""
    return tirx.decl_buffer(last_order(list(buffer.shape), spatial), buffer.dtype, buffer.name, layout=None)


def _movable(block: s_tir.SBlock, buffers: Sequence[Buffer], spatial: int) -> bool:
    """Whether a block stores one element at its axes, and reads channels only at the axes of channels."""
    store = block.body
    if not isinstance(store, tirx.BufferStore) or len(block.alloc_buffers) or len(block.match_buffers):
        return False
    axes = [iter_var.var for iter_var in block.iter_vars if iter_var.iter_type == tirx.IterVar.DataPar]
    if not any(store.buffer.same_as(buffer) for buffer in buffers):
        return True
    at = [index for index in store.indices if not isinstance(index, tirx.IntImm)]
    if not at_place(at, axes):
        return False
    channels, rest = _parts(store.indices, spatial)
    for load in collect(store.value, ir.TensorLoad):
        if any(load.source.same_as(buffer) for buffer in buffers):
            own, other = _parts(load.indices, spatial)
            if own & rest or other & channels:
                return False
    return True


def _parts(indices: Sequence[Expr], spatial: int) -> tuple[set[ir.Var], set[ir.Var]]:
    """The variables in the indices of channel dims, and those in the indices of other dims."""
    rank = len(indices)
    variables = [set(collect(index, ir.Var)) for index in indices]
    channels = set().union(*variables[1 : rank - spatial])
    return channels, set().union(variables[0], *variables[rank - spatial :])


class _Mover:
    """Rewrites the loop nests of a kernel for the buffers in `new`."""

    def __init__(self, new: dict[Buffer, Buffer], spatial: int) -> None:
        self.new = new
        self.spatial = spatial

    def nest(self, statement: tirx.Stmt) -> tirx.Stmt:
        """Rewrite one nest of loops around a block."""
        loops: list[tirx.For] = []
        while isinstance(statement, tirx.For):
            loops.append(statement)
            statement = statement.body
        block = statement.block
        store = block.body
        order = list(range(len(block.iter_vars)))
        if store.buffer in self.new:
            places = {index: place for place, index in enumerate(store.indices) if isinstance(index, ir.Var)}
            ranks = {dim: rank for rank, dim in enumerate(last_order(range(len(store.indices)), self.spatial))}
            own = {
                position: ranks[places[iter_var.var]]
                for position, iter_var in enumerate(block.iter_vars)
                if iter_var.var in places
            }
            order.sort(key=lambda position: (position not in own, own.get(position, position)))
        values = [statement.iter_values[position] for position in order]
        bound = {value: rank for rank, value in enumerate(values) if isinstance(value, ir.Var)}
        loops.sort(key=lambda loop: bound.get(loop.loop_var, -1))
        inner = s_tir.SBlockRealize(values, statement.predicate, self.block(block, order))
        for loop in reversed(loops):
            inner = tirx.For(loop.loop_var, loop.min, loop.extent, loop.kind, inner, None, loop.annotations)
        return inner

    def block(self, block: s_tir.SBlock, order: Sequence[int]) -> s_tir.SBlock:
        return s_tir.SBlock(
            [block.iter_vars[position] for position in order],
            [self.region(region) for region in block.reads],
            [self.region(region) for region in block.writes],
            block.name_hint,
            self.accesses(block.body),
            None if block.init is None else self.accesses(block.init),
            [],
            [],
            block.annotations,
        )

    def region(self, region: tirx.BufferRegion) -> tirx.BufferRegion:
        if region.source not in self.new:
            return region
        return tirx.BufferRegion(self.new[region.source], last_order(list(region.region), self.spatial))

    def accesses(self, node: Node) -> Node:
        def load(found: ir.TensorLoad) -> Expr:
            if found.source not in self.new:
                return found
            return tirx.BufferLoad(self.new[found.source], last_order(list(found.indices), self.spatial))

        def store(found: tirx.BufferStore) -> tirx.Stmt:
            if found.buffer not in self.new:
                return found
            indices = last_order(list(found.indices), self.spatial)
            return tirx.BufferStore(self.new[found.buffer], found.value, indices)

        result: Node = tvm_ffi.structural_map(node, [(ir.TensorLoad, load), (tirx.BufferStore, store)])
        return result

"""Rewrites kernels of padded tensors for packed ones.

A ragged tensor `[batch, seq, rest...]` is packed: `[tokens, rest...]`, with the tokens of an instance after those of
the one before. The axis of the tokens is where the batch was. A tensor with the ragged dim twice, such as the scores of
attention `[batch, heads, seq, seq]`, is flat: the elements of an instance, `[heads, length, length]`, come after those
of the one before. Instance b begins at heads * squares[b]: the sum of the squared lengths before it.

A kernel becomes one of two kinds:

    flat       If nothing is reduced along the ragged dim, and no tensor has it twice, the loops over batch and
               position become one over tokens (vloop fusion). At token t, the instance is rows[t] and the position
               positions[t]; an element of a packed tensor at the same instance and position is at t, without either
               array.
    instance   Otherwise the kernel computes one instance, and a vloop runs it for each. Loops along the ragged dim end
               at the length of the instance, and its position p is token start + p.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import tvm_ffi
from tvm import ir, s_tir, tirx

from deploykit.compiler.decisions import Declined
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.ragged.conversion.blocks import block, reshaped, root
from deploykit.compiler.ragged.conversion.contents import RaggedDim, axes_of
from deploykit.compiler.ragged.conversion.evaluation import is_moved, stage_axes
from deploykit.compiler.ragged.conversion.kernel_call import KernelCall
from deploykit.compiler.ragged.conversion.places import product
from deploykit.compiler.ragged.conversion.prelude import RaggedBatch
from deploykit.compiler.schedules.kernel.stages import Axis, Stage
from deploykit.compiler.schedules.vloop import Instance, View
from deploykit.compiler.tir.rewriting import Buffer, Expr, collect, substitute
from deploykit.compiler.tir.values import const, dtype_of

Indices = list[Expr]


def packed_shape(shape: Sequence[Expr], dim: RaggedDim, ragged: RaggedBatch) -> list[Expr]:
    """The shape of a packed tensor; that of a tensor that is not ragged stays."""
    batch, axes = axes_of(shape, dim)
    if batch is None:
        return list(shape)
    if len(axes) > 2:
        raise Unsupported(f"a tensor with '{dim.extent.name}' {len(axes)} times is kept in memory")
    kept = [axis for axis in range(len(shape)) if axis not in axes]
    if len(axes) == 2:
        return [product([*(shape[axis] for axis in kept if axis != batch), ragged.squares])]
    return [ragged.tokens if axis == batch else shape[axis] for axis in kept]


def is_flat(call: KernelCall, dim: RaggedDim) -> bool:
    """Whether a kernel reduces nothing along the ragged dim and has at most one ragged axis in each stage and each
    tensor."""
    if any(len(axes_of(list(buffer.shape), dim)[1]) > 1 for buffer in (*call.operands, *call.results)):
        return False
    axes = [stage_axes(stage, dim) for stage in call.stages if isinstance(stage, Stage)]
    return all(not each.reduced and len(each.ragged) <= 1 for each in axes)


def is_chosen(index: Expr) -> bool:
    """Whether an index along a ragged axis is a number, comes from a tensor, or is a position and a number, so that the
    place may not exist."""
    return isinstance(index, tirx.IntImm) or is_moved(index) or bool(collect(index, ir.TensorLoad))


@dataclass(frozen=True)
class Maps:
    """The index arrays that a flat kernel may read."""

    offsets: Buffer
    rows: Buffer
    positions: Buffer


class Flat:
    """Rewrites a flat kernel."""

    def __init__(self, call: KernelCall, dim: RaggedDim, ragged: RaggedBatch, maps: Maps) -> None:
        self.call, self.dim, self.tokens, self.maps = call, dim, ragged.tokens, maps
        buffers = [*call.operands, *call.results, *call.temporaries]
        self.buffers = {buffer: reshaped(buffer, packed_shape(list(buffer.shape), dim, ragged)) for buffer in buffers}
        self.ragged = {buffer: axes_of(list(buffer.shape), dim) for buffer in buffers}

    def root(self) -> tirx.Stmt:
        stages = [self.stage(stage) for stage in self.call.stages if isinstance(stage, Stage)]
        return root(stages, [self.buffers[buffer] for buffer in self.call.temporaries])

    def stage(self, stage: Stage) -> tirx.Stmt:
        found = stage_axes(stage, self.dim)
        if found.batch is None or not found.ragged:
            return self.block(stage, list(stage.axes), {}, None)
        token = Axis(ir.Var("t", "int64"), self.tokens)
        position = found.ragged[0]
        place = {
            found.batch.var: tirx.BufferLoad(self.maps.rows, [token.var]),
            position.var: tirx.BufferLoad(self.maps.positions, [token.var]),
        }
        axes = [token if axis is found.batch else axis for axis in stage.axes if axis is not position]
        return self.block(stage, axes, place, (found.batch.var, position.var, token.var))

    def block(
        self,
        stage: Stage,
        axes: list[Axis],
        place: Mapping[ir.Var, Expr],
        token: tuple[ir.Var, ir.Var, ir.Var] | None,
    ) -> tirx.Stmt:
        """The block of a stage over `axes`. `place` gives the instance and the position of a token; `token` are the
        variables of the instance and of the position in the stage, and that of the token."""

        def indices(buffer: Buffer, given: Sequence[Expr]) -> Indices:
            batch, ragged = self.ragged[buffer]
            if batch is None:
                return [substitute(index, place) for index in given]
            own = given[batch], given[ragged[0]]
            if token is not None and own[0].same_as(token[0]) and own[1].same_as(token[1]):
                at: Expr = token[2]
            else:
                first = tirx.BufferLoad(self.maps.offsets, [substitute(own[0], place)])
                at = first + substitute(own[1], place)
            return [
                at if axis == batch else substitute(index, place)
                for axis, index in enumerate(given)
                if axis not in ragged
            ]

        rewritten = Accesses(self.buffers, indices, self.guard(place))
        body = substitute(rewritten.statement(stage.body), place)
        init = None if stage.init is None else substitute(rewritten.statement(stage.init), place)
        return block(stage, axes, list(stage.reduce), body, init)

    def guard(self, place: Mapping[ir.Var, Expr]) -> Callable[[Buffer, Sequence[Expr]], Expr | None]:
        """A condition under which a place of a ragged buffer exists: an instance of length 0 has neither a first nor a
        last position."""

        def exists(buffer: Buffer, given: Sequence[Expr]) -> Expr | None:
            batch, ragged = self.ragged[buffer]
            if batch is None or not is_chosen(given[ragged[0]]):
                return None
            row, position = substitute(given[batch], place), substitute(given[ragged[0]], place)
            offsets = self.maps.offsets
            first, after = tirx.BufferLoad(offsets, [row]), tirx.BufferLoad(offsets, [row + 1])
            return tirx.all(position >= 0, first + position < after)

        return exists


class PerInstance:
    """Rewrites a kernel for one instance. Where the tokens are the first axis of a packed tensor, the kernel has a view
    of the instance, `[length, rest...]`; elsewhere it adds `start` to its indices. It has views of flat tensors, too,
    which have the ragged dim twice. `views` are these views, by the packed tensors."""

    def __init__(self, call: KernelCall, dim: RaggedDim, ragged: RaggedBatch, instance: Instance) -> None:
        self.call, self.dim, self.instance = call, dim, instance
        shared = [*call.operands, *call.results]
        self.ragged = {buffer: axes_of(list(buffer.shape), dim) for buffer in shared}
        self.packed = {buffer: reshaped(buffer, packed_shape(list(buffer.shape), dim, ragged)) for buffer in shared}
        own = {buffer: reshaped(buffer, self.one(list(buffer.shape))) for buffer in call.temporaries}
        self.buffers = self.packed | own
        self.own = set(own)
        self.views: dict[Buffer, View] = {}
        for buffer in shared:
            batch, axes = self.ragged[buffer]
            rest = [extent for axis, extent in enumerate(buffer.shape) if axis not in (batch, *axes)]
            if len(axes) > 1:
                self.buffers[buffer] = reshaped(buffer, self.one(list(buffer.shape)))
                first = [product([*rest, instance.square])]
            elif batch == 0:
                self.buffers[buffer] = reshaped(buffer, [instance.length, *rest])
                first = [instance.start, *(const(0) for _ in rest)]
            else:
                continue
            self.views[self.packed[buffer]] = View(self.buffers[buffer], first)

    def one(self, shape: Sequence[Expr]) -> list[Expr]:
        """The shape of a tensor for one instance."""
        if not any(extent.same_as(self.dim.batch) for extent in shape):
            return list(shape)
        length = self.instance.length
        short = [length if extent.same_as(self.dim.extent) else extent for extent in shape]
        return [extent for extent in short if not extent.same_as(self.dim.batch)]

    def root(self) -> tirx.Stmt:
        if isinstance(self.call.nest, Declined):
            return self.loops()
        stages = [self.stage(stage) for stage in self.call.stages if isinstance(stage, Stage)]
        return root(stages, [self.buffers[buffer] for buffer in self.call.temporaries])

    def loops(self) -> tirx.Stmt:
        """The loops of a scan, without the one over the batch, and with those along the ragged dim up to the length."""
        assert isinstance(self.call.body, s_tir.SBlockRealize)

        def loop(node: tirx.For) -> tirx.Stmt:
            if node.extent.same_as(self.dim.batch):
                return substitute(node.body, {node.loop_var: const(0)})
            if not node.extent.same_as(self.dim.extent):
                return node
            return tirx.For(node.loop_var, node.min, self.instance.length, node.kind, node.body)

        def indices(_: Buffer, given: Sequence[Expr]) -> Indices:
            return list(given[1:])

        length = {self.dim.extent: self.instance.length}
        rewritten = Accesses(self.buffers, indices, lambda _, __: None)
        body = tvm_ffi.structural_map(rewritten.statement(self.call.body.block.body), (tirx.For, loop))
        result: tirx.Stmt = substitute(body, length)
        return result

    def stage(self, stage: Stage) -> tirx.Stmt:
        found = stage_axes(stage, self.dim)
        place = {} if found.batch is None else {found.batch.var: self.instance.number}
        inside = {axis.var for axis in (*found.ragged, *found.reduced)}

        def short(axis: Axis) -> Axis:
            return Axis(axis.var, self.instance.length) if axis.var in inside else axis

        def indices(buffer: Buffer, given: Sequence[Expr]) -> Indices:
            own = [substitute(index, place) for index in given]
            if buffer in self.own:
                batch = next((a for a, n in enumerate(buffer.shape) if n.same_as(self.dim.batch)), None)
                return [index for axis, index in enumerate(own) if axis != batch]
            batch, ragged = self.ragged[buffer]
            if batch is None:
                return own
            if len(ragged) > 1:
                return [index for axis, index in enumerate(own) if axis != batch]
            viewed = self.packed[buffer] in self.views
            own[batch] = own[ragged[0]] if viewed else self.instance.start + own[ragged[0]]
            return [index for axis, index in enumerate(own) if axis not in ragged]

        rewritten = Accesses(self.buffers, indices, self.guard)
        body = substitute(rewritten.statement(stage.body), place)
        init = None if stage.init is None else substitute(rewritten.statement(stage.init), place)
        axes = [short(axis) for axis in stage.axes if axis is not found.batch]
        return block(stage, axes, [short(axis) for axis in stage.reduce], body, init)

    def guard(self, buffer: Buffer, given: Sequence[Expr]) -> Expr | None:
        batch, ragged = self.ragged.get(buffer, (None, ()))
        chosen = [given[axis] for axis in ragged if is_chosen(given[axis])] if batch is not None else []
        inside = [tirx.all(index >= 0, index < self.instance.length) for index in chosen]
        return tirx.all(*inside) if inside else None


class Accesses:
    """Replaces the buffers of loads and stores, and their indices."""

    def __init__(
        self,
        buffers: Mapping[Buffer, Buffer],
        indices: Callable[[Buffer, Sequence[Expr]], Indices],
        guard: Callable[[Buffer, Sequence[Expr]], Expr | None],
    ) -> None:
        self.buffers, self.indices, self.guard = buffers, indices, guard

    def statement(self, node: tirx.Stmt) -> tirx.Stmt:
        def load(found: ir.TensorLoad) -> Expr:
            if found.source not in self.buffers:
                return found
            given = list(found.indices)
            element = tirx.BufferLoad(self.buffers[found.source], self.indices(found.source, given))
            exists = self.guard(found.source, given)
            return element if exists is None else tirx.if_then_else(exists, element, tirx.const(0, dtype_of(found)))

        def store(found: tirx.BufferStore) -> tirx.Stmt:
            if found.buffer not in self.buffers:
                return found
            return tirx.BufferStore(
                self.buffers[found.buffer], found.value, self.indices(found.buffer, list(found.indices))
            )

        return tvm_ffi.structural_map(node, [(ir.TensorLoad, load), (tirx.BufferStore, store)])

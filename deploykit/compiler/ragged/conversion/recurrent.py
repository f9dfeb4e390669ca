"""Recurrent layers (LSTM, GRU, RNN) over ragged sequences.

The proof: a layer that is given the lengths of the instances ends with each of them. Its states are those of the
instance alone, zeros in the padding, and its last states are valid. A layer without lengths runs through the padding:
from the start, the states at valid positions are those of the instance, but not the last states; from the end, none.

The packed kernel still runs blocks of sequences in step. Step s of instance b is token `offsets[b] + s`. Sequences are
taken in the order of their lengths, so that those of a block are about as long; the first state of a sequence and its
results are at the instance's own place. A block runs as many steps as its longest sequence has. What it reads for the
others after their ends has no effect, and is read at any token that exists.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import tvm_ffi
from tvm import ir, s_tir, tirx

from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.recurrent.roles import Roles
from deploykit.compiler.ragged.conversion.blocks import reshaped
from deploykit.compiler.ragged.conversion.contents import Content, RaggedDim, uniform
from deploykit.compiler.ragged.conversion.kernel_call import KernelCall
from deploykit.compiler.ragged.conversion.kernels import Accesses, packed_shape
from deploykit.compiler.ragged.conversion.prelude import RaggedBatch
from deploykit.compiler.ragged.conversion.states import LENGTH, VALID, State, constant, garbage
from deploykit.compiler.tir.rewriting import Buffer, Expr, collect, sequence
from deploykit.compiler.tir.values import const

BATCH_AXIS = {"projected": 1, "y": 2, "lengths": 0, "h": 1, "c": 1, "last_h": 1, "last_c": 1}
"""Where the batch is in operands and results of a layer. In the two with steps, these are the first axis."""


def layer_contents(call: KernelCall, layer: Roles, operands: Sequence[Content], dim: RaggedDim) -> list[Content]:
    """The contents of the results of a layer."""
    given = dict(zip(layer.operands, operands, strict=True))
    projected, lengths = given["projected"], given.get("lengths")
    if any(content.is_ragged for name, content in given.items() if name != "projected"):
        raise Unsupported(f"its weights or its first states depend on '{dim.extent.name}'")
    if projected.batch != 1 or projected.ragged != (0,):
        raise Unsupported(f"its steps are not along '{dim.extent.name}'")
    if lengths is not None and lengths.valid != LENGTH:
        raise Unsupported("it is not known that its lengths of sequences are those of the mask")
    if lengths is not None:
        valid, padding, last = VALID, constant(0), VALID
    else:
        valid, padding = VALID, garbage("states after the end of a sequence")
        last = garbage("its last state comes after the padding, as the layer is not given the lengths of sequences")
        if any(layer.backwards):
            valid = garbage("it begins in the padding, as the layer is not given the lengths of sequences")
    states: dict[str, tuple[State, State]] = {"y": (valid, padding), "last_h": (last, last), "last_c": (last, last)}
    scratch = garbage("memory of the layer")
    return [
        uniform(list(buffer.shape), dim, *states.get(name, (scratch, scratch)))
        for name, buffer in zip(layer.results, call.results, strict=True)
    ]


@dataclass(frozen=True)
class PackedLayer:
    """A packed kernel, and the index arrays that it reads."""

    inputs: list[Buffer]
    outputs: list[Buffer]
    body: tirx.Stmt
    offsets: Buffer
    order: Buffer


def packed_layer(call: KernelCall, layer: Roles, dim: RaggedDim, ragged: RaggedBatch) -> PackedLayer:
    """The packed form of the kernel of a layer."""
    work = _Layer(call, layer, dim, ragged)
    inputs, outputs = ([work.buffers.get(b, b) for b in buffers] for buffers in (call.operands, call.results))
    return PackedLayer(inputs, outputs, work.root(), work.offsets, work.order)


class _Layer:
    def __init__(self, call: KernelCall, layer: Roles, dim: RaggedDim, ragged: RaggedBatch) -> None:
        self.call, self.layer, self.dim, self.tokens = call, layer, dim, ragged.tokens
        buffers = zip((*layer.operands, *layer.results), (*call.operands, *call.results), strict=True)
        self.names = {buffer: name for name, buffer in buffers if name in BATCH_AXIS}
        self.buffers = {
            buffer: reshaped(buffer, packed_shape(list(buffer.shape), dim, ragged)) for buffer in self.names
        }
        self.offsets = tirx.decl_buffer([dim.batch + 1], "int64", "offsets", layout=None)
        self.order = tirx.decl_buffer([dim.batch], "int64", "order", layout=None)

    def root(self) -> tirx.Stmt:
        assert isinstance(self.call.body, s_tir.SBlockRealize)
        old = self.call.body.block
        body = tvm_ffi.structural_map(old.body, (tirx.For, self.loop))
        body = Accesses(self.buffers, self.indices, lambda _, __: None).statement(body)
        return s_tir.SBlockRealize([], True, s_tir.SBlock([], [], [], old.name_hint, body, annotations=old.annotations))

    def indices(self, buffer: Buffer, given: Sequence[Expr]) -> list[Expr]:
        name = self.names[buffer]
        instance = self.order[given[BATCH_AXIS[name]]]
        if name == "projected":
            token = self.offsets[instance] + given[0]
            return [tirx.min(token, self.tokens - 1), given[2]]
        if name == "y":
            return [given[1], self.offsets[instance] + given[0], given[3]]
        return [instance if axis == BATCH_AXIS[name] else index for axis, index in enumerate(given)]

    def loop(self, node: tirx.For) -> tirx.Stmt:
        """A loop of the kernel. There is no padding to fill. A layer without lengths gets conditions: it stores what
        is part of a sequence."""
        steps = node.extent.same_as(self.dim.extent)
        if not steps and self.dim.extent in collect(node.extent, ir.Var):
            return tirx.Evaluate(const(0))
        if "lengths" in self.layer.operands:
            return node
        store = node.body
        if isinstance(store, tirx.BufferStore) and self.names.get(store.buffer) == "y":
            step, _, place, _ = store.indices
            return tirx.IfThenElse(step < self.length(place), node, None)
        return self.steps(node) if steps else node

    def steps(self, node: tirx.For) -> tirx.Stmt:
        """The loop over steps, which ends with the longest sequence of the block."""
        loads = [load for load in collect(node, ir.TensorLoad) if self.names.get(load.source) == "projected"]
        lengths: list[Expr] = []
        for load in loads:
            length = self.length(load.indices[1])
            if not any(tvm_ffi.structural_equal(length, other) for other in lengths):
                lengths.append(length)
        longest = ir.Var("longest", "int64")
        body = tirx.IfThenElse(node.loop_var < longest, node.body, None)
        return sequence(
            [
                tirx.Bind(longest, reduce(tirx.max, lengths)),
                tirx.For(node.loop_var, node.min, node.extent, node.kind, body),
            ]
        )

    def length(self, place: Expr) -> Expr:
        instance = self.order[place]
        return self.offsets[instance + 1] - self.offsets[instance]

"""Kernels of tensors of a ragged operator, in the loops of their schedules.

A kernel computes one tensor, or several that do not depend on each other (*horizontal fusion*): their parallel loops
become one, whose iterations are first those of the first tensor, then those of the next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import ir, tirx

from deploykit.compiler.dims.conversion import as_expr
from deploykit.compiler.ragged.expressions import Elements, over
from deploykit.compiler.ragged.loops import hoisted
from deploykit.compiler.ragged.nests import Nest
from deploykit.compiler.ragged.prelude import operands_of
from deploykit.compiler.ragged.storage import Storage
from deploykit.compiler.ragged.totals import Totals
from deploykit.compiler.tir.rewriting import Buffer, Expr, substitute
from deploykit.compiler.tir.values import const
from deploykit.ragged.schedules import Schedule
from deploykit.ragged.values import Load, Tensor, walk


@dataclass(frozen=True)
class RaggedKernel:
    """The kernel of some tensors: a statement over the buffers that stand for its `operands`, for index `arrays`, and
    for its results."""

    tensors: tuple[Tensor, ...]
    operands: tuple[Tensor, ...]
    buffers: Mapping[Tensor, Buffer]
    arrays: tuple[Buffer, ...]
    body: tirx.Stmt

    def statement(self, totals: Totals) -> tirx.Stmt:
        """The statement, with sums of lengths that are dims as dims, and with loads outside of loops."""
        return hoisted(with_totals(self.body, totals), set(self.arrays))


def kernel_of(storage: Storage, schedule: Schedule) -> RaggedKernel:
    """The kernel that computes a tensor."""
    tensor = schedule.tensor
    value = tensor.value
    assert value is not None
    operands = tuple(dict.fromkeys(part.tensor for part in walk(value) if isinstance(part, Load)))
    buffers = {each: flat_buffer(each) for each in (*operands, tensor)}
    elements = Elements(storage, buffers)
    place = elements.place(tensor, tuple(dim.index for dim in tensor.dims))

    reduction = tensor.reduction

    def store(result: Expr) -> tirx.Stmt:
        finished = result if reduction is None else elements.expr(value, {reduction: result})
        return tirx.BufferStore(buffers[tensor], finished, [place])

    element = elements.expr(value if reduction is None else reduction.value)
    body = Nest(storage, schedule, element, store).statement()
    return RaggedKernel((tensor,), operands, buffers, tuple(operands_of(storage, body)), body)


def together(storage: Storage, kernels: Sequence[RaggedKernel]) -> RaggedKernel:
    """One kernel for several, each of which is a parallel loop."""
    index = tirx.Var("task", "int64")
    buffers: dict[Tensor, Buffer] = {}
    starts: list[Expr] = []
    bodies: list[tirx.Stmt] = []
    begin: Expr = const(0)
    for kernel in kernels:
        renamed = {buffer: buffers[each] for each, buffer in kernel.buffers.items() if each in buffers}
        buffers = {**kernel.buffers, **buffers}
        loop = over(kernel.body, renamed)
        assert isinstance(loop, tirx.For)
        bodies.append(substitute(loop.body, {loop.loop_var: index - begin}))
        starts.append(begin)
        begin = begin + loop.extent
    body = bodies[-1]
    for start, own in zip(reversed(starts[1:]), reversed(bodies[:-1]), strict=True):
        body = tirx.IfThenElse(index < start, own, body)
    whole = tirx.For(index, const(0), begin, tirx.ForKind.PARALLEL, body)
    operands = tuple(dict.fromkeys(operand for kernel in kernels for operand in kernel.operands))
    tensors = tuple(tensor for kernel in kernels for tensor in kernel.tensors)
    return RaggedKernel(tensors, operands, buffers, tuple(operands_of(storage, whole)), whole)


def with_totals(body: tirx.Stmt, totals: Totals) -> tirx.Stmt:
    """`body` with the last entries of arrays of sums as dims, as far as they are known."""

    def replaced(node: Any, load: Expr, value: Expr) -> Any:
        def one(found: ir.TensorLoad) -> Expr:
            return value if tvm_ffi.structural_equal(found, load, map_free_vars=False) else found

        return tvm_ffi.structural_map(node, (ir.TensorLoad, one), order="post")

    lasts = {array: array.last for array in totals.storage.arrays if array in totals.known}
    for array in list(lasts):
        last, value = lasts.pop(array), as_expr(totals.known[array])
        body = replaced(body, last, value)
        lasts = {other: replaced(expr, last, value) for other, expr in lasts.items()}
    return body


def flat_buffer(tensor: Tensor) -> Buffer:
    """A buffer for the elements of a tensor, one after the other."""
    return tirx.decl_buffer((tirx.Var(f"{tensor.name}_size", "int64"),), tensor.dtype, tensor.name, layout=None)

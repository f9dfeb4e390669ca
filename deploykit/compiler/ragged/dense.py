"""Dense kernels that compute ragged tensors, so that all rules for kernels apply to them (see `views`).

A flat kernel is an ordinary one, over tokens, or over the dims of a product that has no instances. A kernel for an
instance is one over the tensors of one instance, with its extents as variables; a vloop runs it for each instance
(`schedules.vloop`), the largest first.

Other tensors are computed in loops over single elements (`nests`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tvm import ir, te, tirx

from deploykit.compiler.decisions import Declined
from deploykit.compiler.dims import simplify
from deploykit.compiler.dims.conversion import as_expr
from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.ragged.kernels import flat_buffer
from deploykit.compiler.ragged.stages import Stages
from deploykit.compiler.ragged.storage import Storage
from deploykit.compiler.ragged.totals import Totals
from deploykit.compiler.ragged.views import View, depends_on, flat_views, product_views
from deploykit.compiler.schedules.vloop import VLOOP
from deploykit.compiler.tir.rewriting import Buffer, Expr, collect, substitute
from deploykit.compiler.tir.values import const
from deploykit.ragged.indices import Index, Length, Lengths
from deploykit.ragged.values import Tensor

if TYPE_CHECKING:
    from deploykit.compiler.operators.building.context import Build


@dataclass(frozen=True)
class FlatKernel:
    """A dense kernel: over the rows of all instances if `by_tokens`, else over the dims of the tensor."""

    storage: Storage
    tensor: Tensor
    views: Mapping[Tensor, View]
    by_tokens: bool

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return (self.tensor,)

    @property
    def operands(self) -> tuple[Tensor, ...]:
        return tuple(each for each in self.views if each is not self.tensor)

    def shape(self, operand: Tensor, totals: Totals) -> list[IntExpr]:
        """The shape in which the kernel sees an operand."""
        return [simplify(n) for n in self._stages(totals).shape(self.views[operand])]

    def build(self, totals: Totals) -> Build:
        """A function from the views of the operands to the result."""
        stages = self._stages(totals)
        return lambda *inputs: stages.results(dict(zip(self.operands, inputs, strict=True)))

    def _stages(self, totals: Totals) -> Stages:
        rows = totals.elements(self.storage.layout(self.tensor.dims[:2])) if self.by_tokens else None
        return Stages(self.storage, self.tensor, self.views, rows)


def flat_kernel(storage: Storage, tensor: Tensor) -> FlatKernel | Declined:
    """The kernel that computes a tensor over the rows of all instances, or why there is none."""
    views = flat_views(tensor)
    return views if isinstance(views, Declined) else FlatKernel(storage, tensor, views, by_tokens=True)


def product_kernel(storage: Storage, tensor: Tensor) -> FlatKernel | Declined:
    """The kernel that computes a product that has no instances, or why there is none."""
    views = product_views(tensor, 0)
    return views if isinstance(views, Declined) else FlatKernel(storage, tensor, views, by_tokens=False)


@dataclass(frozen=True)
class InstanceKernel:
    """A kernel for each instance: a statement over the buffers that stand for `operands`, for index `arrays` and for
    the result. `longest` are the variables that hold the most that an extent of an instance is, by the extent."""

    tensor: Tensor
    operands: tuple[Tensor, ...]
    buffers: Mapping[Tensor, Buffer]
    arrays: tuple[Buffer, ...]
    body: tirx.Stmt
    longest: Mapping[Index, tirx.Var]

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return (self.tensor,)

    def statement(self, most: Mapping[Lengths, IntExpr]) -> tirx.Stmt:
        """The statement, for the greatest lengths."""
        values: dict[ir.Var, Expr] = {}
        for extent, var in self.longest.items():
            total: Expr = const(extent.constant)
            for atom, factor in extent.terms:
                assert isinstance(atom, Length)
                total = total + as_expr(most[atom.lengths]) * factor
            values[var] = total
        return substitute(self.body, values)


def instance_kernel(storage: Storage, tensor: Tensor) -> InstanceKernel | Declined:
    """The kernel that computes a product instance by instance, or why there is none."""
    views = product_views(tensor, 1)
    if isinstance(views, Declined):
        return views
    stages = Stages(storage, tensor, views, None)
    operands = tuple(each for each in views if each is not tensor)
    inputs = {each: te.placeholder(stages.shape(views[each]), each.dtype, name=each.name) for each in operands}
    inner = te.create_prim_func([*inputs.values(), stages.results(inputs)], index_dtype_override="int64")
    if views[tensor].flat:
        inner = stages.stored(inner)
    if any(not _is_bounded(extent) for extent in stages.extents):
        return Declined("the extent of an instance is no length")
    place, number = tirx.Var("place", "int64"), tirx.Var("instance", "int64")
    flat = {each: flat_buffer(each) for each in (*operands, tensor)}
    own: list[tirx.Stmt] = [tirx.Bind(number, _first(storage, tensor, place))]
    declared: list[tirx.Stmt] = []
    for each, param in zip((*operands, tensor), inner.params, strict=True):
        start: Expr = const(0)
        if views[each].dropped:
            start = tirx.Var("start", "int64")
            first = storage.layout(each.dims).offset([number, *(const(0) for _ in each.dims[1:])])
            own.append(tirx.Bind(start, first))
        declared.append(tirx.DeclBuffer(param, data=tirx.address_of(tirx.BufferLoad(flat[each], [start]))))
        if each in stages.sizes:
            after = storage.layout(each.dims).offset([number + 1, *(const(0) for _ in each.dims[1:])])
            own.append(tirx.Bind(stages.sizes[each], after - start))
    longest = {extent: tirx.Var("longest", "int64") for extent in stages.extents}
    at = {storage.variable(tensor.dims[0]): number}
    own += [tirx.Bind(var, substitute(load, at)) for var, load in stages.loaded.items()]
    own += [tirx.Bind(var, substitute(storage.expr(extent), at)) for extent, var in stages.extents.items()]
    bounds = [tirx.Bind(tirx.Var("longest", "int64"), var) for var in longest.values()]
    body = tirx.SeqStmt([*own, *bounds, *declared, inner.body])
    count, serial = storage.expr(tensor.dims[0].extent), tirx.ForKind.SERIAL
    loop = tirx.For(place, const(0), count, serial, body, annotations={VLOOP: len(bounds)})
    used = {load.source for bind in own for load in collect(bind, ir.TensorLoad)}
    arrays = tuple(buffer for buffer in storage.buffers() if buffer in used)
    return InstanceKernel(tensor, operands, flat, arrays, loop, longest)


def _first(storage: Storage, tensor: Tensor, place: Expr) -> Expr:
    """The instance at a place in the order of the vloop: those with the most rows first."""
    batch = tensor.dims[0]
    reduced = tensor.reduction.dims if tensor.reduction is not None else ()
    weight = next((dim for dim in (*tensor.dims, *reduced) if depends_on(dim, {batch})), None)
    return place if weight is None else tirx.BufferLoad(storage.order(batch, weight).buffer, [place])


def _is_bounded(extent: Index) -> bool:
    """Whether an extent is a constant plus positive multiples of lengths."""
    return all(isinstance(atom, Length) and factor > 0 for atom, factor in extent.terms)

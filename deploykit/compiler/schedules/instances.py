"""Sums over the instances of a ragged batch, as formulas.

    sum over instances of a + b*length + c*length*length   =   a*batch + b*tokens + c*squares

This holds for vloops with one extent that depends on the instance, the difference of two neighbours in an array of
offsets. `tokens` is the first extent of a packed tensor, and `squares` the variable `SQUARES`, because few kernels have
a tensor of that size.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tvm import ir, tirx

from deploykit.compiler.dims.conversion import expression, polynomial
from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.dims.polynomial import ZERO, Polynomial
from deploykit.compiler.schedules.vloop import vloop_of
from deploykit.compiler.tir.rewriting import Buffer, collect

SQUARES = tirx.Var("squares", "int64")
"""The sum of the squared lengths of all instances."""


@dataclass(frozen=True)
class Instances:
    """The instances of a vloop around `body`. `sums` are those of the powers 0, 1 and 2 of their lengths. `packed` are
    the tensors that views are parts of. `arrays` are those of which an element is read for each instance, as often as
    that happens."""

    body: tirx.Stmt
    length: ir.Var
    sums: tuple[IntExpr, IntExpr, IntExpr]
    packed: Mapping[Buffer, Buffer]
    arrays: tuple[Buffer, ...]

    def total(self, each: IntExpr) -> IntExpr:
        """The sum over all instances of an expression over the length. It contains the length if there is no formula
        for it."""
        total = ZERO
        for monomial, coefficient in polynomial(each).terms.items():
            rest = tuple(atom for atom in monomial if atom.var is None or not atom.var.same_as(self.length))
            power = len(monomial) - len(rest)
            if power >= len(self.sums):
                return each
            total += polynomial(self.sums[power]) * Polynomial({rest: coefficient})
        return expression(total)


def instances_of(func: tirx.PrimFunc) -> Instances | None:
    """The instances of a kernel that is a vloop; None if their lengths are not differences of offsets."""
    found = vloop_of(func)
    last = found.own[-1]
    if len(found.longest) != 1 or not isinstance(last.value, tirx.Sub):
        return None
    after, first = last.value.a, last.value.b
    if not isinstance(after, ir.TensorLoad) or not isinstance(first, ir.TensorLoad):
        return None
    offsets = first.source
    if not offsets.same_as(after.source):
        return None
    loaded = [(bind.var, load.source) for bind in found.own for load in collect(bind.value, ir.TensorLoad)]
    starts = [var for var, array in loaded if array.same_as(offsets) and not var.same_as(last.var)]
    packed, tokens = {}, last.var
    for view in found.views:
        (begin,) = collect(view.data, ir.TensorLoad)
        packed[view.buffer] = begin.source
        if begin.indices[0] in starts:
            tokens = begin.source.ty.shape[0]
    arrays = tuple(array for _, array in loaded)
    return Instances(found.alone.body, last.var, (found.loop.extent, tokens, SQUARES), packed, arrays)

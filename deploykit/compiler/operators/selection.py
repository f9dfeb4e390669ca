"""Operators that keep what a mask marks: NonZero, Compress.

One kernel counts, the count is read as a data dim, another kernel writes that many elements.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import ir, te, tirx

from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.operators.broadcast import load
from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.expressions import compute, reduce_axis
from deploykit.compiler.operators.imperative import Array
from deploykit.compiler.operators.value import Value


def count_nonzero(ctx: Context, x: Value, shape: Sequence[IntExpr]) -> IntExpr:
    """How many elements of the leading part `shape` of `x` are not zero, as a data dim."""

    def build(t: te.Tensor) -> te.Tensor:
        axes = [reduce_axis(size, name=f"r{i}") for i, size in enumerate(shape)]
        marked = tirx.Cast("int64", is_nonzero(t, x, [a.var for a in axes]))
        return compute((1,), lambda _: te.sum(marked, axis=axes) if axes else marked, name="count")

    count = ctx.kernel("count_nonzero", build, x, dtype="int64")
    return ctx.ints(count, minimum=0, maximum=ctx.product(shape), hint="count")[0]


def is_nonzero(tensor: te.Tensor | Array, x: Value, index: Sequence[IntExpr]) -> ir.Expr:
    element = load(tensor, x.dtype, index)
    return element if str(element.ty.dtype) == "bool" else element != tirx.const(0, str(element.ty.dtype))

"""Operators that keep the elements that a mask marks: `nonzero`, `compress`.

One kernel counts the elements, the count is read as a data dim, and another kernel writes that many elements.
(Source: ONNX operators NonZero, Compress.)
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import ir, te, tirx

from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.conversion import load
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.expressions import compute, reduce_axis
from deploykit.compiler.operators.building.imperative import Array, Code, imperative, loops
from deploykit.compiler.operators.building.integers import expr, minimum
from deploykit.compiler.operators.building.sizes import only_integer
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.indexing import pick


def nonzero(ctx: Context, x: Value) -> Value:
    """numpy.nonzero: the positions of the elements that are not zero, as int64 (rank of `x`, number of elements)."""
    count = _count_nonzero(ctx, x, x.shape)

    def write(code: Code, data: Array, places: Array) -> None:
        found = code.cell("found", 0)
        with loops(code, x.shape) as index, code.when(_is_nonzero(data, x, index)):
            for axis, i in enumerate(index):
                places[axis, found.value] = i
            found.value += 1

    def build(t: te.Tensor) -> list[te.Tensor]:
        return imperative("nonzero", [t], [((x.rank, count), "int64")], write)

    return ctx.kernel("nonzero", build, x, dtype="int64")


def compress(ctx: Context, x: Value, condition: Value, axis: int | None) -> Value:
    """numpy.compress: the elements along `axis`, or of the flattened `x`, that the vector `condition` marks. The vector
    may be shorter or longer than the axis."""
    if condition.rank != 1:
        raise Unsupported(f"a condition of rank {condition.rank}")
    if axis is None:
        x, axis = ctx.reshape(x, (ctx.product(x.shape),)), 0
    considered = ctx.simplify(minimum(condition.shape[0], x.shape[axis]))
    count = _count_nonzero(ctx, condition, (considered,))

    def write(code: Code, mask: Array, places: Array) -> None:
        found = code.cell("found", 0)
        with code.loop("i", considered) as i, code.when(mask[i]):
            places[found.value] = expr(i)
            found.value += 1

    def build(t: te.Tensor) -> list[te.Tensor]:
        return imperative("marked", [t], [((count,), "int64")], write)

    return pick(ctx, x, ctx.kernel("marked", build, condition, dtype="int64"), axis)


def _count_nonzero(ctx: Context, x: Value, shape: Sequence[IntExpr]) -> IntExpr:
    """The number of nonzero elements in the leading part of `x` with this `shape`, as a data dim."""

    def build(t: te.Tensor) -> te.Tensor:
        axes = [reduce_axis(size, name=f"r{i}") for i, size in enumerate(shape)]
        marked = tirx.Cast("int64", _is_nonzero(t, x, [a.var for a in axes]))
        return compute((1,), lambda _: te.sum(marked, axis=axes) if axes else marked, name="count")

    count = ctx.kernel("count_nonzero", build, x, dtype="int64")
    return only_integer(ctx, count, minimum=0, maximum=ctx.product(shape), hint="count")


def _is_nonzero(tensor: te.Tensor | Array, x: Value, index: Sequence[IntExpr]) -> ir.Expr:
    element = load(tensor, x.dtype, index)
    return element if str(element.ty.dtype) == "bool" else element != tirx.const(0, str(element.ty.dtype))

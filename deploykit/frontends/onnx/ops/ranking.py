"""ONNX: TopK, Unique (`compiler.operators.ranking`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvm import ir, tirx

from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.dtypes import storage_dtype
from deploykit.compiler.operators.broadcast import load
from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.errors import Unsupported
from deploykit.compiler.operators.imperative import Array, Code, imperative, loops
from deploykit.compiler.operators.indexing import gather
from deploykit.compiler.operators.integers import expr, is_plain, less_equal
from deploykit.compiler.operators.layout import transpose
from deploykit.compiler.operators.ranking import groups_of, join
from deploykit.compiler.operators.slicing import Piece, take
from deploykit.compiler.operators.sorting import ascending, descending, merge_sort
from deploykit.compiler.operators.value import Value
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator

LARGEST_INSERTION = 32
"""A TopK with a greater k sorts whole rows."""


@operator("TopK")
def top_k_attribute(ctx: Context, node: Node, x: Value) -> tuple[Value, ...]:
    if node.int("k") < 0:
        raise Unsupported(f"k is {node.int('k')}; the least is 0")
    return _top_k(ctx, node, x, node.int("k"))


@operator("TopK", since=10)
def top_k_operand(ctx: Context, node: Node, x: Value, k: Value) -> tuple[Value, ...]:
    (count,) = ctx.ints(k, minimum=0, maximum=x.shape[node.axis(x.rank, -1)], hint="k")
    return _top_k(ctx, node, x, count)


def _top_k(ctx: Context, node: Node, x: Value, k: IntExpr) -> tuple[Value, ...]:
    axis, better = node.axis(x.rank, -1), descending if node.int("largest", 1) else ascending
    size = x.shape[axis]
    ctx.require(less_equal(k, size), "the best {} of {} elements", k, size)
    shape = [k if i == axis else n for i, n in enumerate(x.shape)]
    outer = [n for i, n in enumerate(x.shape) if i != axis]
    outputs = [(shape, storage_dtype(x.dtype)), (shape, "int64")]
    inserting = is_plain(k) and k <= LARGEST_INSERTION

    def row(data: Array, rest: Sequence[ir.Expr]) -> Callable[[IntExpr], ir.Expr]:
        return lambda i: load(data, x.dtype, [*rest[:axis], expr(i), *rest[axis:]])

    def insert(code: Code, data: Array, values: Array, indices: Array) -> None:
        with loops(code, outer) as rest:
            at, kept = row(data, rest), row(values, rest)
            with code.loop("i", size) as i:
                place = code.cell("place", tirx.min(i, expr(k)))
                before = tirx.max(place.value - 1, 0)
                with code.repeat(tirx.all(place.value > 0, better(at(i), kept(before)))):
                    with code.when(place.value < k):
                        for array in (values, indices):
                            array[join(rest, axis, place.value)] = array[join(rest, axis, place.value - 1)]
                    place.value -= 1
                with code.when(place.value < k):
                    values[join(rest, axis, place.value)] = data[join(rest, axis, i)]
                    indices[join(rest, axis, place.value)] = i

    def sort(code: Code, data: Array, values: Array, indices: Array, order: Array, scratch: Array) -> None:
        with loops(code, outer) as rest:
            at = row(data, rest)
            merge_sort(code, order, scratch, size, lambda _, a, b: better(at(a), at(b)))
            with code.loop("i", k) as i:
                values[join(rest, axis, i)] = data[join(rest, axis, order[i])]
                indices[join(rest, axis, i)] = order[i]

    if inserting and k == 0:
        return tuple(ctx.zeros("empty", shape, dtype) for dtype in (x.dtype, "int64"))
    if inserting:
        return ctx.kernel("top_k", lambda t: imperative("top_k", [t], outputs, insert), x, dtype=(x.dtype, "int64"))
    scratch = [((size,), "int64")] * 2
    return ctx.kernel(
        "top_k", lambda t: imperative("top_k", [t], [*outputs, *scratch], sort), x, dtype=(x.dtype, *("int64",) * 3)
    )[:2]


@operator("Unique")
def unique(ctx: Context, node: Node, x: Value) -> tuple[Value, ...]:
    axis = node.axis(x.rank, 0) if node.has("axis") else None
    order = [] if axis is None else [axis, *(i for i in range(x.rank) if i != axis)]
    moved = ctx.reshape(x, (ctx.product(x.shape),)) if axis is None else transpose(ctx, x, order)
    rows = ctx.reshape(moved, (moved.shape[0], ctx.product(moved.shape[1:])))
    first, inverse, counts, count = groups_of(ctx, rows, in_order=bool(node.int("sorted", 1)))
    (found,) = ctx.ints(count, minimum=0, maximum=rows.shape[0], hint="unique")
    first, counts = (take(ctx, v, [Piece(0, found)]) for v in (first, counts))
    picked = gather(ctx, moved, first, 0)
    if axis is not None:
        picked = transpose(ctx, picked, [order.index(i) for i in range(x.rank)])
    return picked, first, inverse, counts

"""Operators that sort: `top_k`, `unique`.

For a small k, `top_k` keeps its k best elements in order while it reads a row; for a larger k it sorts the row. Of
equal elements, the first comes first. `unique` sorts the positions of its rows (of its elements, without an axis),
walks the sorted order to find the groups of equal rows, and reads the number of groups as a data dim.
(Source: ONNX operators TopK, Unique.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvm import ir, te, tirx

from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.dtypes import storage_dtype
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.conversion import load
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.imperative import Array, Code, imperative, loops
from deploykit.compiler.operators.building.integers import equal, expr, is_plain, less_equal
from deploykit.compiler.operators.building.sorting import ascending, descending, merge_sort
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.indexing import pick
from deploykit.compiler.operators.layout import transpose
from deploykit.compiler.operators.slicing import Piece, take

TOP = "deploykit.top"
"""Annotation of a kernel whose first result has elements of its operand, and whose second has their places along one
axis, all different."""

LARGEST_INSERTION = 32
"""A `top_k` with a greater k sorts whole rows."""


def top_k(ctx: Context, x: Value, k: IntExpr, axis: int, *, largest: bool = True) -> tuple[Value, ...]:
    """The `k` greatest (or least) elements along `axis`, the best first, and their int64 positions."""
    if is_plain(k) and k < 0:
        raise Unsupported(f"k is {k}; the least is 0")
    better = descending if largest else ascending
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
                            array[_at(rest, axis, place.value)] = array[_at(rest, axis, place.value - 1)]
                    place.value -= 1
                with code.when(place.value < k):
                    values[_at(rest, axis, place.value)] = data[_at(rest, axis, i)]
                    indices[_at(rest, axis, place.value)] = i

    def sort(code: Code, data: Array, values: Array, indices: Array, order: Array, scratch: Array) -> None:
        with loops(code, outer) as rest:
            at = row(data, rest)
            merge_sort(code, order, scratch, size, lambda _, a, b: better(at(a), at(b)))
            with code.loop("i", k) as i:
                values[_at(rest, axis, i)] = data[_at(rest, axis, order[i])]
                indices[_at(rest, axis, i)] = order[i]

    if inserting and k == 0:
        return tuple(ctx.zeros("empty", shape, dtype) for dtype in (x.dtype, "int64"))
    scratch = [] if inserting else [((size,), "int64")] * 2

    def build(t: te.Tensor) -> list[te.Tensor]:
        return imperative("top_k", [t], [*outputs, *scratch], insert if inserting else sort, {TOP: "1"})

    return ctx.kernel("top_k", build, x, dtype=(x.dtype, "int64", *("int64" for _ in scratch)))[:2]


def _at(rest: Sequence[ir.Expr], axis: int, position: IntExpr) -> tuple[IntExpr, ...]:
    """The index of the element at `position` along `axis` and at `rest` along the other axes."""
    return (*rest[:axis], position, *rest[axis:])


def unique(
    ctx: Context, x: Value, axis: int | None, *, in_order: bool = True, keys: Value | None = None
) -> tuple[Value, ...]:
    """numpy.unique of the slices along `axis`, or of all elements. Returns the distinct slices, the first position of
    each, the index among them of each slice of `x`, and how often each occurs. With `in_order` they are in ascending
    order, else in the order of their first positions. If the numbers of `x` stand for something else, `keys` are
    numbers that compare like it."""
    order = [] if axis is None else [axis, *(i for i in range(x.rank) if i != axis)]

    def turned(v: Value) -> Value:
        return ctx.reshape(v, (ctx.product(v.shape),)) if axis is None else transpose(ctx, v, order)

    moved, compared = turned(x), turned(x if keys is None else keys)
    rows = ctx.reshape(compared, (compared.shape[0], ctx.product(compared.shape[1:])))
    first, inverse, counts, count = _groups(ctx, rows, in_order=in_order)
    (found,) = ctx.ints(count, minimum=0, maximum=rows.shape[0], hint="unique")
    first, counts = (take(ctx, v, [Piece(0, found)]) for v in (first, counts))
    picked = pick(ctx, moved, first, 0)
    if axis is not None:
        picked = transpose(ctx, picked, [order.index(i) for i in range(x.rank)])
    return picked, first, inverse, counts


def _ordered(element: ir.Expr) -> ir.Expr:
    """An element as a number, because kernels do not compare booleans by size."""
    return tirx.Cast("int32", element) if str(element.ty.dtype) == "bool" else element


def _groups(ctx: Context, rows: Value, *, in_order: bool) -> tuple[Value, ...]:
    """The groups of equal rows: the first row and the size of each group, the group of each row, and the number of
    groups. Groups are ordered by value, or else by their first row. Arrays over groups are as long as there are
    rows."""
    length, width = rows.shape

    def compare(code: Code, data: Array, a: ir.Expr, b: ir.Expr) -> ir.Expr:
        """The sign of the comparison of row `a` with row `b`: -1, 0 or 1."""
        sign = code.cell("sign", 0)
        with code.loop("j", width) as j, code.when(sign.value == 0):
            left, right = (_ordered(load(data, rows.dtype, [row, j])) for row in (a, b))
            greater = tirx.Select(ascending(right, left), expr(1), expr(0))
            sign.value = tirx.Select(ascending(left, right), expr(-1), greater)
        return sign.value

    def by_value(
        code: Code, data: Array, first: Array, inverse: Array, counts: Array, count: Array, *work: Array
    ) -> None:
        order, scratch = work[:2]
        merge_sort(code, order, scratch, length, lambda code, a, b: compare(code, data, a, b) < 0)
        count[0] = 0
        with code.loop("i", length) as i:
            same = code.cell("same", equal(compare(code, data, order[tirx.max(i - 1, 0)], order[i]), 0))
            with code.when(tirx.any(i == 0, tirx.Not(same.value))):
                first[count[0]] = order[i]
                counts[count[0]] = 0
                count[0] += 1
            counts[count[0] - 1] += 1
            inverse[order[i]] = count[0] - 1

    def by_position(
        code: Code, data: Array, first: Array, inverse: Array, counts: Array, count: Array, *work: Array
    ) -> None:
        """Renumber the groups of `by_value` in the order of their first rows."""
        names, firsts, sizes = work[1:]
        by_value(code, data, firsts, inverse, sizes, count, *work[:2])
        new = code.cell("new", 0)
        with code.loop("i", length) as i:
            group = code.cell("group", inverse[i])
            with code.when(firsts[group.value] == i):
                names[group.value] = new.value
                first[new.value] = i
                counts[new.value] = sizes[group.value]
                new.value += 1
            inverse[i] = names[group.value]

    each, one = ((length,), "int64"), ((1,), "int64")
    outputs = [each, each, each, one, each, each, *([] if in_order else [each, each])]
    return ctx.kernel(
        "unique",
        lambda t: imperative("unique", [t], outputs, by_value if in_order else by_position),
        rows,
        dtype=("int64",) * len(outputs),
    )[:4]

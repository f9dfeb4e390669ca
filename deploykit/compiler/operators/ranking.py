"""Operators that sort: TopK, Unique.

TopK keeps its k best elements in order while it reads a row when k is small, and sorts the row otherwise; of equal
elements the first comes first. Unique sorts the positions of its rows (of its elements, without an axis), walks the
sorted order to find the groups of equal ones, and reads their number as a data dim.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import ir, tirx

from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.operators.broadcast import load
from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.imperative import Array, Code, imperative
from deploykit.compiler.operators.integers import equal, expr
from deploykit.compiler.operators.sorting import ascending, merge_sort
from deploykit.compiler.operators.value import Value


def join(rest: Sequence[ir.Expr], axis: int, position: IntExpr) -> tuple[IntExpr, ...]:
    return (*rest[:axis], position, *rest[axis:])


def _ordered(element: ir.Expr) -> ir.Expr:
    """An element as a number: kernels do not compare booleans by size."""
    return tirx.Cast("int32", element) if str(element.ty.dtype) == "bool" else element


def groups_of(ctx: Context, rows: Value, *, in_order: bool) -> tuple[Value, ...]:
    """Of the groups of equal rows: first row and size of each, the group of each row, and how many there are. Groups
    are ordered by value, or else by their first row. Arrays over groups are as long as there are rows."""
    length, width = rows.shape

    def compare(code: Code, data: Array, a: ir.Expr, b: ir.Expr) -> ir.Expr:
        """The sign of row `a` less row `b`."""
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
        """Renumbers the groups of `by_value` in the order of their first rows."""
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

"""Sorting in imperative kernels: a stable bottom-up merge sort of positions.

It takes time O(n log n) and two arrays of n positions, without recursion; n may be symbolic.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from tvm import ir, tirx

from deploykit.compiler.operators.building.imperative import Array, Code
from deploykit.compiler.operators.building.integers import expr

if TYPE_CHECKING:
    from deploykit.compiler.dims.expressions import IntExpr

Precedes: TypeAlias = Callable[[Code, ir.Expr, ir.Expr], ir.Expr]
"""Whether position `a` sorts strictly before `b`. It may write statements that determine this."""


def merge_sort(code: Code, order: Array, scratch: Array, count: IntExpr, precedes: Precedes) -> None:
    """Write the positions `0..count-1` into `order`, sorted. Equal ones keep their order."""
    size = expr(count)
    with code.loop("i", size) as i:
        order[i] = i
    width = code.cell("width", 1)
    with code.repeat(width.value < size):
        with code.loop("block", tirx.floordiv(size + 2 * width.value - 1, 2 * width.value)) as block:
            start = code.cell("start", block * 2 * width.value)
            middle = code.cell("middle", tirx.min(start.value + width.value, size))
            end = code.cell("end", tirx.min(middle.value + width.value, size))
            left, right = code.cell("left", start.value), code.cell("right", middle.value)
            with code.loop("k", end.value - start.value, start.value) as k:
                a = code.cell("a", order[tirx.min(left.value, size - 1)])
                b = code.cell("b", order[tirx.min(right.value, size - 1)])
                swap = code.cell("swap", precedes(code, b.value, a.value))
                swap.value = tirx.all(right.value < end.value, tirx.any(left.value >= middle.value, swap.value))
                scratch[k] = tirx.Select(swap.value, b.value, a.value)
                left.value += tirx.Select(swap.value, expr(0), expr(1))
                right.value += tirx.Select(swap.value, expr(1), expr(0))
        with code.loop("i", size) as i:
            order[i] = scratch[i]
        width.value *= 2


def ascending(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """Whether `a < b`, with NaN above all numbers."""
    if not str(a.ty.dtype).startswith("float"):
        return a < b
    return tirx.any(a < b, tirx.all(tirx.isnan(b), tirx.Not(tirx.isnan(a))))


def descending(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """Whether `a > b`, with NaN above all numbers."""
    return ascending(b, a)

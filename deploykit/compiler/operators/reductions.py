"""Reductions: ReduceSum, ReduceMean, ReduceMax, ReduceMin, ReduceProd, ReduceL1, ReduceL2, ReduceLogSum,
ReduceLogSumExp, ReduceSumSquare; ArgMax, ArgMin.

Axes come as an attribute or as an operand (opset 18; ReduceSum 13), which may be computed at run time. Without axes
all are reduced, or none with `noop_with_empty_axes`. Means of integers truncate; roots and logarithms of integers are
computed in double precision. Of equal extremes ArgMax and ArgMin give the first position, or the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from tvm import ir, te, tirx

from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.operators.broadcast import compute_dtype, load
from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.elementwise import is_float, like
from deploykit.compiler.operators.expressions import compute, reduce_axis
from deploykit.compiler.operators.imperative import Array, Code, imperative
from deploykit.compiler.operators.integers import expr
from deploykit.compiler.operators.reduce_axes import (
    MAXIMUM,
    MINIMUM,
    Reducer,
    reduce_axes,
)
from deploykit.compiler.operators.value import Value


@dataclass(frozen=True)
class Reduction:
    """`finish(total, count)`: `count` elements were reduced to `total`."""

    reducer: Reducer
    prepare: Callable[[ir.Expr], ir.Expr] = lambda v: v
    finish: Callable[[ir.Expr, IntExpr], ir.Expr] = lambda total, _: total


def real(v: ir.Expr) -> ir.Expr:
    return v if is_float(v) else tirx.Cast("float64", v)


def mean(total: ir.Expr, count: IntExpr) -> ir.Expr:
    divisor = tirx.Cast(total.ty.dtype, expr(count))
    return total / divisor if is_float(total) else tirx.truncdiv(total, divisor)


def number(v: ir.Expr) -> ir.Expr:
    return tirx.Cast("uint8", v) if str(v.ty.dtype) == "bool" else v


def finished(reduction: Reduction, count: IntExpr, total: ir.Expr) -> ir.Expr:
    return reduction.finish(total, count)


def finite(v: ir.Expr) -> ir.Expr:
    """0 in the place of an infinity, from which nothing can be subtracted."""
    infinite = tirx.any(tirx.EQ(v, like(v, float("inf"))), tirx.EQ(v, like(v, float("-inf"))))
    return tirx.Select(infinite, like(v, 0), v)


@dataclass(frozen=True)
class Operand:
    """What to reduce: `axes` of `x` into `shape`, up to sizes of 1."""

    x: Value
    axes: Collection[int]
    shape: list[IntExpr]


def sizes_of(ctx: Context, x: Value, axes: Value, rank: int) -> Value:
    """For each axis of `x` its size in the result and its size in the reduction, then the sizes of the `rank` axes that
    are not reduced: int64, read at run time."""

    def write(code: Code, given: Array, sizes: Array) -> None:
        position = code.cell("position", 0)
        for i, size in enumerate(x.shape):
            found = code.cell("found", tirx.const(value=False, dtype="bool"))
            with code.loop("k", axes.shape[0]) as k, code.when(tirx.any(given[k] == i, given[k] == i - x.rank)):
                found.value = True
            sizes[2 * i] = tirx.Select(found.value, expr(1), expr(size))
            sizes[2 * i + 1] = tirx.Select(found.value, expr(size), expr(1))
            with code.when(tirx.all(tirx.Not(found.value), position.value < rank)):
                sizes[2 * x.rank + position.value] = expr(size)
                position.value += 1

    shape = (2 * x.rank + rank,)
    return ctx.kernel("axes", lambda t: imperative("sizes", [t], [(shape, "int64")], write), axes, dtype="int64")


def extreme_positions(ctx: Context, x: Value, axis: int, *, largest: bool, last: bool = False) -> Value:
    """int64 positions of the extremes along `axis`, which has size 1 in the result.

    Two plain reductions, the extreme and then the first (last) position where it occurs, run faster than one that
    carries pairs. A NaN counts as an extreme."""
    dtype = compute_dtype(x.dtype)
    extreme = reduce_axes(ctx, "extreme", [x], [axis], MAXIMUM if largest else MINIMUM, dtype=dtype)
    size = expr(x.shape[axis])
    nowhere = expr(-1) if last else size
    out = [1 if i == axis else n for i, n in enumerate(x.shape)]

    def build(values: te.Tensor, extremes: te.Tensor) -> te.Tensor:
        k = reduce_axis(size, name="k")

        def element(*index: ir.Expr) -> ir.Expr:
            here = [k.var if i == axis else v for i, v in enumerate(index)]
            there = [expr(0) if i == axis else v for i, v in enumerate(index)]
            value = load(values, x.dtype, here)
            found = tirx.EQ(value, extremes(*there))
            if is_float(value):
                found = tirx.any(found, tirx.isnan(value))
            position = tirx.Select(found, k.var, nowhere)
            return te.max(position, axis=k) if last else te.min(position, axis=k)

        found = compute(out, element, name="position")
        return compute(out, lambda *i: tirx.max(tirx.min(found(*i), size - 1), expr(0)), name="position_inside")

    return ctx.kernel("position", build, x, extreme, dtype="int64")

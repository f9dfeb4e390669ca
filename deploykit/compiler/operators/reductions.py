"""Reductions: `reduce` by a `Reduction`, `reduce_log_sum_exp`, and the positions of extremes.

Axes are integers, or a vector that may be computed at run time. Means of integers truncate; roots and logarithms of
integers are computed in double precision. (Source: the ONNX Reduce operators, ArgMax, ArgMin.)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import reduce as fold

from tvm import ir, te, tirx

from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.operators.building.axes import all_from_front
from deploykit.compiler.operators.building.broadcast import elementwise
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.conversion import compute_dtype, load
from deploykit.compiler.operators.building.expressions import compute, reduce_axis
from deploykit.compiler.operators.building.imperative import Array, Code, imperative
from deploykit.compiler.operators.building.integers import expr, is_plain, maximum
from deploykit.compiler.operators.building.reduce_axes import (
    MAXIMUM,
    MINIMUM,
    PRODUCT,
    SUM,
    Reducer,
    count_of,
    reduce_axes,
)
from deploykit.compiler.operators.building.sizes import require_rank
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.elementwise import absolute, is_float, like


@dataclass(frozen=True)
class Reduction:
    """A reduction to `finish(reducer(prepare(element) ...), count)` over `count` elements. `name` is that of its
    kernels."""

    name: str
    reducer: Reducer
    prepare: Callable[[ir.Expr], ir.Expr] = lambda v: v
    finish: Callable[[ir.Expr, IntExpr], ir.Expr] = lambda total, _: total


def _real(v: ir.Expr) -> ir.Expr:
    return v if is_float(v) else tirx.Cast("float64", v)


def _mean(total: ir.Expr, count: IntExpr) -> ir.Expr:
    divisor = tirx.Cast(total.ty.dtype, expr(count))
    return total / divisor if is_float(total) else tirx.truncdiv(total, divisor)


def _number(v: ir.Expr) -> ir.Expr:
    """A value as a number, because kernels do not compare booleans by size."""
    return tirx.Cast("uint8", v) if str(v.ty.dtype) == "bool" else v


REDUCE_SUM = Reduction("reducesum", SUM)
REDUCE_MEAN = Reduction("reducemean", SUM, finish=_mean)
REDUCE_MAX = Reduction("reducemax", MAXIMUM, _number)
REDUCE_MIN = Reduction("reducemin", MINIMUM, _number)
REDUCE_PROD = Reduction("reduceprod", PRODUCT)
REDUCE_L1 = Reduction("reducel1", SUM, absolute)
REDUCE_L2 = Reduction("reducel2", SUM, lambda v: _real(v) * _real(v), lambda total, _: tirx.sqrt(total))
REDUCE_LOG_SUM = Reduction("reducelogsum", SUM, _real, lambda total, _: tirx.log(total))
REDUCE_SUM_SQUARE = Reduction("reducesumsquare", SUM, lambda v: v * v)


def reduce(
    ctx: Context, x: Value, reduction: Reduction, axes: Value | Sequence[int] | None, *, keepdims: bool = True
) -> Value:
    """The reduction of `x` over `axes`, by default over all. With `keepdims`, the axes stay with size 1."""
    operand = _operand(ctx, x, axes, keepdims=keepdims)
    count = count_of(ctx, operand.x.shape, operand.axes)
    value = reduce_axes(
        ctx,
        reduction.name,
        [operand.x],
        operand.axes,
        reduction.reducer,
        prepare=reduction.prepare,
        finish=lambda total: reduction.finish(total, count),
        keepdims=len(operand.shape) == operand.x.rank,
    )
    return ctx.reshape(value, operand.shape)


def reduce_log_sum_exp(ctx: Context, x: Value, axes: Value | Sequence[int] | None, *, keepdims: bool = True) -> Value:
    """`log(sum(exp(x)))` over `axes`, with the parameters of `reduce`. The greatest element is subtracted first, so
    that no exponential overflows."""
    operand = _operand(ctx, x, axes, keepdims=keepdims)
    x, where = operand.x, operand.axes
    wide = compute_dtype(x.dtype) if x.dtype.startswith(("float", "bfloat")) else "float64"
    greatest = reduce_axes(ctx, "greatest", [x], where, MAXIMUM, prepare=_real, finish=_finite, dtype=wide)
    total = reduce_axes(
        ctx, "sumexp", [x, greatest], where, SUM, prepare=lambda v, m: tirx.exp(_real(v) - m), dtype=wide
    )
    value = elementwise(ctx, "logsumexp", lambda s, m: tirx.log(s) + m, total, greatest, dtype=x.dtype)
    return ctx.reshape(value, operand.shape)


def _finite(v: ir.Expr) -> ir.Expr:
    """`v`, or 0 for an infinity, which cannot be subtracted."""
    infinite = tirx.any(tirx.EQ(v, like(v, float("inf"))), tirx.EQ(v, like(v, float("-inf"))))
    return tirx.Select(infinite, like(v, 0), v)


@dataclass(frozen=True)
class _Operand:
    """What to reduce: `axes` of `x`. `shape` is the shape of the result, up to axes of size 1."""

    x: Value
    axes: Collection[int]
    shape: list[IntExpr]


def _operand(ctx: Context, x: Value, axes: Value | Sequence[int] | None, *, keepdims: bool) -> _Operand:
    """The operand of a reduction. If the axes are only known at run time, every axis of `x` is viewed as two, of which
    the second is reduced. One of the two has size 1."""
    if isinstance(axes, Value) and not axes.is_known:
        require_rank(ctx, axes, 1)
        rank = 0 if keepdims else x.rank - ctx.length(axes)
        most = fold(maximum, x.shape, 1)
        sizes = ctx.ints(_sizes(ctx, x, axes, rank), minimum=0, maximum=most, hint="size")
        pairs = ctx.reshape(x, sizes[: 2 * x.rank])
        return _Operand(pairs, range(1, 2 * x.rank, 2), sizes[0 : 2 * x.rank : 2] if keepdims else sizes[2 * x.rank :])
    given = range(x.rank) if axes is None else all_from_front(ctx, axes, x.rank)
    where = [int(axis) for axis in given if is_plain(axis)]
    return _Operand(x, where, [1 if i in where else n for i, n in enumerate(x.shape) if keepdims or i not in where])


def _sizes(ctx: Context, x: Value, axes: Value, rank: int) -> Value:
    """The sizes for axes that are only known at run time, as int64: for each axis of `x`, its size in the result and
    its size in the reduction; then the sizes of the `rank` axes that are not reduced."""

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


def extreme_positions(
    ctx: Context, x: Value, axis: int, *, largest: bool, last: bool = False, keepdims: bool = True
) -> Value:
    """The int64 positions of the greatest or least elements along `axis`: of equal elements the first, or the `last`.
    With `keepdims`, the axis stays with size 1.

    Two plain reductions, for the extreme and then for the first (last) position where it occurs, run faster than one
    that carries pairs. A NaN counts as an extreme."""
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

    positions = ctx.kernel("position", build, x, extreme, dtype="int64")
    return positions if keepdims else ctx.reshape(positions, [n for i, n in enumerate(x.shape) if i != axis])

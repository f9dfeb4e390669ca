"""Reductions: ReduceSum, ReduceMean, ReduceMax, ReduceMin, ReduceProd, ReduceL1, ReduceL2, ReduceLogSum,
ReduceLogSumExp, ReduceSumSquare; ArgMax, ArgMin.

Axes come as an attribute or as an operand (opset 18; ReduceSum 13), which may be computed at run time. Without axes
all are reduced, or none with `noop_with_empty_axes`. Means of integers truncate; roots and logarithms of integers are
computed in double precision. Of equal extremes ArgMax and ArgMin give the first position, or the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from functools import reduce as fold

from tvm import ir, te, tirx

from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.operators.broadcast import compute_dtype, elementwise, load
from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.expressions import compute, reduce_axis
from deploykit.compiler.operators.imperative import Array, Code, imperative
from deploykit.compiler.operators.integers import expr, is_plain, maximum
from deploykit.compiler.operators.reduction import (
    MAXIMUM,
    MINIMUM,
    PRODUCT,
    SUM,
    Reducer,
    count_of,
    reduce_axes,
)
from deploykit.compiler.operators.value import Value
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.ops.elementwise import UNARY, is_float, like
from deploykit.frontends.onnx.ops.layout import axes_operand
from deploykit.frontends.onnx.registry import operator


@dataclass(frozen=True)
class _Reduction:
    """`finish(total, count)`: `count` elements were reduced to `total`."""

    reducer: Reducer
    prepare: Callable[[ir.Expr], ir.Expr] = lambda v: v
    finish: Callable[[ir.Expr, IntExpr], ir.Expr] = lambda total, _: total


def _real(v: ir.Expr) -> ir.Expr:
    return v if is_float(v) else tirx.Cast("float64", v)


def _mean(total: ir.Expr, count: IntExpr) -> ir.Expr:
    divisor = tirx.Cast(total.ty.dtype, expr(count))
    return total / divisor if is_float(total) else tirx.truncdiv(total, divisor)


def _number(v: ir.Expr) -> ir.Expr:
    return tirx.Cast("uint8", v) if str(v.ty.dtype) == "bool" else v


_REDUCTIONS: Mapping[str, _Reduction] = {
    "ReduceSum": _Reduction(SUM),
    "ReduceMean": _Reduction(SUM, finish=_mean),
    "ReduceMax": _Reduction(MAXIMUM, _number),
    "ReduceMin": _Reduction(MINIMUM, _number),
    "ReduceProd": _Reduction(PRODUCT),
    "ReduceL1": _Reduction(SUM, UNARY["Abs"]),
    "ReduceL2": _Reduction(SUM, lambda v: _real(v) * _real(v), lambda total, _: tirx.sqrt(total)),
    "ReduceLogSum": _Reduction(SUM, _real, lambda total, _: tirx.log(total)),
    "ReduceSumSquare": _Reduction(SUM, lambda v: v * v),
}


@operator(*_REDUCTIONS)
def reduce(ctx: Context, node: Node, x: Value, axes: Value | None = None) -> Value:
    reduction = _REDUCTIONS[node.op_type]
    operand = _operand(ctx, node, x, axes)
    count = count_of(ctx, operand.x.shape, operand.axes)
    value = reduce_axes(
        ctx,
        node.op_type.lower(),
        [operand.x],
        operand.axes,
        reduction.reducer,
        prepare=reduction.prepare,
        finish=partial(_finished, reduction, count),
        keepdims=len(operand.shape) == operand.x.rank,
    )
    return ctx.reshape(value, operand.shape)


def _finished(reduction: _Reduction, count: IntExpr, total: ir.Expr) -> ir.Expr:
    return reduction.finish(total, count)


@operator("ReduceLogSumExp")
def reduce_log_sum_exp(ctx: Context, node: Node, x: Value, axes: Value | None = None) -> Value:
    """The greatest element is taken out of the sum, so that no exponential overflows."""
    operand = _operand(ctx, node, x, axes)
    x, where = operand.x, operand.axes
    wide = compute_dtype(x.dtype) if x.dtype.startswith(("float", "bfloat")) else "float64"
    greatest = reduce_axes(ctx, "greatest", [x], where, MAXIMUM, prepare=_real, finish=_finite, dtype=wide)
    total = reduce_axes(
        ctx, "sumexp", [x, greatest], where, SUM, prepare=lambda v, m: tirx.exp(_real(v) - m), dtype=wide
    )
    value = elementwise(ctx, "logsumexp", lambda s, m: tirx.log(s) + m, total, greatest, dtype=x.dtype)
    return ctx.reshape(value, operand.shape)


def _finite(v: ir.Expr) -> ir.Expr:
    """0 in the place of an infinity, from which nothing can be subtracted."""
    infinite = tirx.any(tirx.EQ(v, like(v, float("inf"))), tirx.EQ(v, like(v, float("-inf"))))
    return tirx.Select(infinite, like(v, 0), v)


@dataclass(frozen=True)
class _Operand:
    """What to reduce: `axes` of `x` into `shape`, up to sizes of 1."""

    x: Value
    axes: Collection[int]
    shape: list[IntExpr]


def _operand(ctx: Context, node: Node, x: Value, operand: Value | None) -> _Operand:
    """The axes of a reduction. For axes that only a run knows, every axis of `x` is seen as two, one of which is
    reduced: the other one or this has size 1."""
    keepdims = node.int("keepdims", 1)
    count = ctx.length(operand) if operand is not None else len(node.ints("axes", []))
    if count > 0 and operand is not None and not operand.is_known:
        rank = 0 if keepdims else x.rank - count
        most = fold(maximum, x.shape, 1)
        sizes = ctx.ints(_sizes(ctx, x, operand, rank), minimum=0, maximum=most, hint="size")
        pairs = ctx.reshape(x, sizes[: 2 * x.rank])
        return _Operand(pairs, range(1, 2 * x.rank, 2), sizes[0 : 2 * x.rank : 2] if keepdims else sizes[2 * x.rank :])
    everything = range(0 if node.int("noop_with_empty_axes", 0) else x.rank)
    given = axes_operand(ctx, node, operand, x.rank) if count > 0 else None
    axes = everything if given is None else [int(axis) for axis in given if is_plain(axis)]
    return _Operand(x, axes, [1 if i in axes else n for i, n in enumerate(x.shape) if keepdims or i not in axes])


def _sizes(ctx: Context, x: Value, axes: Value, rank: int) -> Value:
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


@operator("ArgMax", "ArgMin")
def arg_extreme(ctx: Context, node: Node, x: Value) -> Value:
    axis = node.axis(x.rank, 0)
    positions = extreme_positions(
        ctx, x, axis, largest=node.op_type == "ArgMax", last=node.int("select_last_index", 0) == 1
    )
    if node.int("keepdims", 1):
        return positions
    return ctx.reshape(positions, [n for i, n in enumerate(positions.shape) if i != axis])


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

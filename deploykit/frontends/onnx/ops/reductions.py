"""Reductions: ReduceSum, ReduceMean, ReduceMax, ReduceMin, ReduceProd, ReduceL1, ReduceL2, ReduceLogSum,
ReduceLogSumExp, ReduceSumSquare; ArgMax, ArgMin.

Axes come as an attribute or as an operand (opset 18; ReduceSum 13), which may be computed at run time. Without axes
all are reduced, or none with `noop_with_empty_axes`. Means of integers truncate; roots and logarithms of integers are
computed in double precision. Of equal extremes ArgMax and ArgMin give the first position, or the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from functools import reduce as fold

from tvm import ir, te, tirx

from deploykit.compiler.program.ir import IntExpr
from deploykit.frontends.onnx.broadcast import compute_dtype, elementwise, load
from deploykit.frontends.onnx.context import Context
from deploykit.frontends.onnx.imperative import Array, Code, imperative
from deploykit.frontends.onnx.integers import expr, is_plain, maximum
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.ops.elementwise import UNARY, is_float, like
from deploykit.frontends.onnx.ops.layout import axes_operand
from deploykit.frontends.onnx.reduction import (
    MAXIMUM,
    MINIMUM,
    PRODUCT,
    SUM,
    Axis,
    Reducer,
    axes_of,
    count_of,
    reduce_axes,
)
from deploykit.frontends.onnx.registry import Unsupported, operator
from deploykit.frontends.onnx.value import Value


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
    where, shape = _reduced(ctx, node, x, axes)
    value = reduce_axes(
        ctx,
        node.op_type.lower(),
        [x],
        where,
        reduction.reducer,
        prepare=reduction.prepare,
        finish=partial(_finished, reduction, count_of(ctx, where)),
        keepdims=node.int("keepdims", 1) == 1,
    )
    return value if shape is None else ctx.reshape(value, shape)


def _finished(reduction: _Reduction, count: IntExpr, total: ir.Expr) -> ir.Expr:
    return reduction.finish(total, count)


@operator("ReduceLogSumExp")
def reduce_log_sum_exp(ctx: Context, node: Node, x: Value, axes: Value | None = None) -> Value:
    """The greatest element is taken out of the sum, so that no exponential overflows."""
    where, shape = _reduced(ctx, node, x, axes)
    wide = compute_dtype(x.dtype) if x.dtype.startswith(("float", "bfloat")) else "float64"
    greatest = reduce_axes(ctx, "greatest", [x], where, MAXIMUM, prepare=_real, finish=_finite, dtype=wide)
    total = reduce_axes(
        ctx, "sumexp", [x, greatest], where, SUM, prepare=lambda v, m: tirx.exp(_real(v) - m), dtype=wide
    )
    value = elementwise(ctx, "logsumexp", lambda s, m: tirx.log(s) + m, total, greatest, dtype=x.dtype)
    if shape is None and not node.int("keepdims", 1):
        shape = [axis.kept for axis in where if axis.kept is not None]
    return value if shape is None else ctx.reshape(value, shape)


def _finite(v: ir.Expr) -> ir.Expr:
    """0 in the place of an infinity, from which nothing can be subtracted."""
    infinite = tirx.any(tirx.EQ(v, like(v, float("inf"))), tirx.EQ(v, like(v, float("-inf"))))
    return tirx.Select(infinite, like(v, 0), v)


def _reduced(
    ctx: Context, node: Node, x: Value, operand: Value | None
) -> tuple[tuple[Axis, ...], list[IntExpr] | None]:
    """The axes of a reduction, and the shape of the result where axes that only a run knows are to be dropped."""
    count = ctx.product(operand.shape) if operand is not None else len(node.ints("axes", []))
    if not isinstance(count, int):
        raise Unsupported(f"the number of axes, {count}, is not known")
    if count == 0:
        nothing = node.int("noop_with_empty_axes", 0) == 1
        return axes_of(x.shape, () if nothing else range(x.rank)), None
    if operand is None or operand.is_known:
        where = axes_operand(ctx, node, operand, x.rank)
        return axes_of(x.shape, [int(axis) for axis in where or () if is_plain(axis)]), None
    rank = 0 if node.int("keepdims", 1) else x.rank - count
    sizes = ctx.ints(_sizes(ctx, x, operand, rank), minimum=0, maximum=fold(maximum, x.shape, 1), hint="size")
    axes = tuple(Axis(kept, loop) for kept, loop in zip(sizes[: x.rank], sizes[x.rank : 2 * x.rank], strict=True))
    return axes, None if node.int("keepdims", 1) else sizes[2 * x.rank :]


def _sizes(ctx: Context, x: Value, axes: Value, rank: int) -> Value:
    """For each axis of `x` its size in the result and in the reduction, then the sizes of the `rank` axes that are not
    reduced: int64, read at run time."""

    def write(code: Code, given: Array, sizes: Array) -> None:
        position = code.cell("position", 0)
        for i, size in enumerate(x.shape):
            found = code.cell("found", tirx.const(value=False, dtype="bool"))
            with code.loop("k", axes.shape[0]) as k, code.when(tirx.any(given[k] == i, given[k] == i - x.rank)):
                found.value = True
            sizes[i] = tirx.Select(found.value, expr(1), expr(size))
            sizes[x.rank + i] = tirx.Select(found.value, expr(size), expr(1))
            with code.when(tirx.all(tirx.Not(found.value), position.value < rank)):
                sizes[2 * x.rank + position.value] = expr(size)
                position.value += 1

    shape = (2 * x.rank + rank,)
    return ctx.kernel("axes", lambda t: imperative("sizes", [t], [(shape, "int64")], write), axes, dtype="int64")


@operator("ArgMax", "ArgMin")
def arg_extreme(ctx: Context, node: Node, x: Value) -> Value:
    axis = node.int("axis", 0)
    if not -x.rank <= axis < x.rank:
        raise Unsupported(f"axis {axis} is outside of a tensor of rank {x.rank}")
    positions = extreme_positions(
        ctx, x, axis % x.rank, largest=node.op_type == "ArgMax", last=node.int("select_last_index", 0) == 1
    )
    if node.int("keepdims", 1):
        return positions
    return ctx.reshape(positions, [n for i, n in enumerate(positions.shape) if i != axis % x.rank])


def extreme_positions(ctx: Context, x: Value, axis: int, *, largest: bool, last: bool = False) -> Value:
    """int64 positions of the extremes along `axis`, which has size 1 in the result.

    Two plain reductions, the extreme and then the first (last) position where it occurs, run faster than one that
    carries pairs. Where nothing equals the extreme (NaN) the position is that of an end."""
    reduced = axes_of(x.shape, [axis])
    dtype = compute_dtype(x.dtype)
    extreme = reduce_axes(ctx, "extreme", [x], reduced, MAXIMUM if largest else MINIMUM, dtype=dtype)
    size = expr(x.shape[axis])
    nowhere = expr(-1) if last else size
    out = [1 if i == axis else n for i, n in enumerate(x.shape)]

    def build(values: te.Tensor, extremes: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, size), name="k")

        def element(*index: ir.Expr) -> ir.Expr:
            here = [k.var if i == axis else v for i, v in enumerate(index)]
            there = [expr(0) if i == axis else v for i, v in enumerate(index)]
            found = tirx.EQ(load(values, x.dtype, here), extremes(*there))
            position = tirx.Select(found, k.var, nowhere)
            return te.max(position, axis=k) if last else te.min(position, axis=k)

        found = te.compute(out, element, name="position")
        return te.compute(out, lambda *i: tirx.max(tirx.min(found(*i), size - 1), expr(0)), name="position_inside")

    return ctx.kernel("position", build, x, extreme, dtype="int64")

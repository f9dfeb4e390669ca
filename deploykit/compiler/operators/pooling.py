"""Pooling: MaxPool, AveragePool, LpPool and their global forms, over any number of spatial axes.

Each is a reduction over the window's taps and, where needed, an elementwise finish in the same kernel. Taps outside of
the data do not count; AveragePool counts those within the padding when `count_include_pad` is set, never those that a
rounded-up last window has beyond it. A global form has one window, as large as the data. Sums of float16 are kept in
float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING

from tvm import ir, te, tirx

from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.operators.broadcast import compute_dtype, load, store
from deploykit.compiler.operators.channels import first_of
from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.errors import Unsupported
from deploykit.compiler.operators.expressions import compute, reduce_axis
from deploykit.compiler.operators.integers import (
    all_of,
    both,
    ceil_div,
    expr,
    exprs,
    floor_div,
    floor_mod,
    less,
    less_equal,
    maximum,
    minimum,
    truth,
)
from deploykit.compiler.operators.reduce_axes import MAXIMUM, lowest
from deploykit.compiler.operators.value import Value
from deploykit.compiler.operators.windows import Windows

if TYPE_CHECKING:
    from deploykit.compiler.operators.integers import Condition


Index = Sequence[ir.Expr]


LARGEST_PRODUCT = 8
"""A greater power of an element is computed by logarithms instead of multiplications."""


@dataclass(frozen=True)
class Pool:
    """What a pooling makes of a window: `finish(combine(prepare(element) ...), position)`; `nothing` is combined in
    the place of a tap outside of the data."""

    name: str
    combine: Callable[..., ir.Expr]
    nothing: ir.Expr
    prepare: Callable[[ir.Expr], ir.Expr] = lambda element: element
    finish: Callable[[ir.Expr, Index], ir.Expr] = lambda total, _: total


def max_pool(ctx: Context, x: Value, shape: Windows) -> Value:
    """The maxima; of dequantised data, those of what it comes from, as scales are positive."""
    y = pool(ctx, x, shape, highest(x.dtype))
    return y if x.quantized is None else replace(y, quantized=x.quantized.moved(lambda v: max_pool(ctx, v, shape)))


def one_window(x: Value) -> Windows:
    sizes = tuple(x.shape[2:])
    ones, zeros = (1,) * len(sizes), (0,) * len(sizes)
    return Windows(sizes, sizes, strides=ones, dilations=ones, before=zeros, after=zeros, counts=ones)


def highest(dtype: str) -> Pool:
    """The maximum; of no elements it is minus infinity, or the least integer."""
    wide = compute_dtype(dtype)
    return Pool("max_pool", te.comm_reducer(MAXIMUM.combine, MAXIMUM.identity, name="highest"), lowest(wide))


def average(ctx: Context, dtype: str, shape: Windows, *, include_padding: bool) -> Pool:
    wide = compute_dtype(dtype)

    def finish(total: ir.Expr, at: Index) -> ir.Expr:
        counts = [_taps_counted(ctx, shape, axis, i, include_padding) for axis, i in enumerate(at)]
        return total / tirx.Cast(wide, expr(ctx.product(counts)))

    return Pool("average_pool", te.sum, tirx.const(0, wide), finish=finish)


def norm(dtype: str, order: int) -> Pool:
    """The norm of order `order` of the elements."""
    wide = compute_dtype(dtype)
    zero = tirx.const(0, wide)
    if order == 1:
        return Pool("lp_pool", te.sum, zero, tirx.abs)
    if order == 2:
        return Pool("lp_pool", te.sum, zero, lambda v: v * v, lambda total, _: tirx.sqrt(total))

    if order < 1:
        raise Unsupported(f"p is {order}; it must be at least 1")

    def power(v: ir.Expr) -> ir.Expr:
        if order > LARGEST_PRODUCT:
            return tirx.exp(tirx.log(tirx.abs(v)) * tirx.const(float(order), wide))
        return reduce(lambda a, b: a * b, [tirx.abs(v)] * order)

    return Pool("lp_pool", te.sum, zero, power, lambda total, _: tirx.power(total, tirx.const(1.0 / order, wide)))


def pool(ctx: Context, x: Value, shape: Windows, rule: Pool) -> Value:
    moved = x if x.last is None else x.last
    y = _pooled(ctx, moved, shape, rule, channel=1 if x.last is None else x.rank - 1)
    return replace(y if x.last is None else first_of(y), inexact=x.inexact)


def _pooled(ctx: Context, x: Value, shape: Windows, pool: Pool, channel: int) -> Value:
    """The pooled `x`, whose axis `channel` and first axis are not spatial."""

    def spatial(index: Index) -> Index:
        return [i for axis, i in enumerate(index) if axis not in (0, channel)]

    def around(index: Index, where: Sequence[IntExpr]) -> list[IntExpr]:
        return [index[0], *where[: channel - 1], index[channel], *where[channel - 1 :]]

    def build(t: te.Tensor) -> te.Tensor:
        taps = [reduce_axis(k, name=f"k{i}") for i, k in enumerate(shape.kernel)]

        def window(*index: ir.Expr) -> ir.Expr:
            where = _places(shape, spatial(index), taps)
            value = pool.prepare(load(t, x.dtype, exprs(around(index, where))))
            inside = _inside(ctx, shape, where)
            return pool.combine(value if inside is True else tirx.if_then_else(inside, value, pool.nothing), axis=taps)

        out = around(x.shape, shape.counts)
        total = compute(out, window, name=pool.name)
        return compute(out, lambda *i: store(pool.finish(total(*i), spatial(i)), x.dtype), name=f"{pool.name}_finish")

    return ctx.kernel(pool.name, build, x, dtype=x.dtype)


def positions(ctx: Context, x: Value, y: Value, shape: Windows, *, column_major: bool) -> Value:
    """Where each maximum `y` of `x` was found first: its position in the flattened `x`, whose spatial axes count in
    reverse order for `column_major`."""
    plane = ctx.product(shape.sizes)

    def build(data: te.Tensor, found: te.Tensor) -> te.Tensor:
        taps = [reduce_axis(k, name=f"k{i}") for i, k in enumerate(shape.kernel)]

        def window(*index: ir.Expr) -> ir.Expr:
            where = _places(shape, index[2:], taps)
            same = data(*index[:2], *where) == found(*index)
            inside = truth(_inside(ctx, shape, where))
            is_maximum = tirx.if_then_else(inside, same, tirx.const(False, "bool"))
            return te.min(tirx.if_then_else(is_maximum, _flat(where, shape.sizes), expr(plane) - 1), axis=taps)

        def finish(*index: ir.Expr) -> ir.Expr:
            n, c = index[:2]
            flat = first(*index)
            if column_major:
                flat = _flat(_unflat(flat, shape.sizes)[::-1], shape.sizes[::-1])
            return (n * x.shape[1] + c) * plane + flat

        out = y.shape
        first = compute(out, window, name="first_maximum")
        return compute(out, finish, name="position")

    return ctx.kernel("max_pool_position", build, x, y, dtype="int64")


def _flat(where: Index, sizes: Sequence[IntExpr]) -> ir.Expr:
    """Row-major position."""
    flat = tirx.const(0, "int64")
    for i, n in zip(where, sizes, strict=True):
        flat = flat * n + i
    return flat


def _unflat(flat: ir.Expr, sizes: Sequence[IntExpr]) -> list[ir.Expr]:
    """Inverse of `_flat`."""
    where: list[ir.Expr] = []
    for n in reversed(sizes):
        where.append(expr(floor_mod(flat, n)))
        flat = expr(floor_div(flat, n))
    return where[::-1]


def _places(shape: Windows, at: Index, taps: Index) -> list[ir.Expr]:
    """Where in the data a tap of the window at `at` is, per spatial axis."""
    axes = zip(at, taps, shape.strides, shape.dilations, shape.before, strict=True)
    return [i * stride + tap * dilation - before for i, tap, stride, dilation, before in axes]


def _inside(ctx: Context, shape: Windows, where: Index) -> Condition:
    """Whether a place is in the data; what always holds is left out."""
    conditions: list[Condition] = []
    for axis, place in enumerate(where):
        starts_inside, ends_inside = _reach(ctx, shape, axis)
        low = starts_inside or less_equal(0, place)
        high = ends_inside or less(place, shape.sizes[axis])
        conditions.append(both(low, high))
    return all_of(conditions)


def _reach(ctx: Context, shape: Windows, axis: int) -> tuple[bool, bool]:
    """Whether all windows provably start, and end, within the data of a spatial axis."""
    before = shape.before[axis]
    last = (shape.counts[axis] - 1) * shape.strides[axis] + (shape.kernel[axis] - 1) * shape.dilations[axis] - before
    return ctx.proves(less_equal(before, 0)), ctx.proves(less(last, shape.sizes[axis]))


def _taps_counted(ctx: Context, shape: Windows, axis: int, at: ir.Expr, include_padding: bool) -> IntExpr:
    """How many taps of the window at `at` lie in the data, or in the data and its padding, along one axis."""
    kernel, dilation = shape.kernel[axis], shape.dilations[axis]
    start = at * shape.strides[axis] - shape.before[axis]
    if all(_reach(ctx, shape, axis)):
        return kernel
    if include_padding:
        return minimum(ceil_div(shape.sizes[axis] + shape.after[axis] - start, dilation), kernel)
    first = maximum(ceil_div(0 - start, dilation), 0)
    return minimum(ceil_div(shape.sizes[axis] - start, dilation), kernel) - first

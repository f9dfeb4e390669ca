"""Pooling: MaxPool, AveragePool, LpPool and their global forms, over any number of spatial axes.

Each is a reduction over the taps of a window and, where needed, an elementwise finish in the same kernel. Taps outside
of the data do not count. With `include_padding`, `average_pool` counts the taps in the padding, but never those that a
rounded-up last window has beyond it. A global form has one window, as large as the data (`one_window`). Sums of float16
are kept in float32. Data is (N, C, ...), and the result has the same axes.

(Source: ONNX operators MaxPool, AveragePool, LpPool and their global forms.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, TypeAlias

from tvm import ir, te, tirx

from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.conversion import compute_dtype, load, store
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.expressions import compute, reduce_axis
from deploykit.compiler.operators.building.integers import (
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
from deploykit.compiler.operators.building.moved import first_of
from deploykit.compiler.operators.building.reduce_axes import MAXIMUM, lowest
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.building.windows import Windows
from deploykit.compiler.operators.elementwise import is_float

if TYPE_CHECKING:
    from deploykit.compiler.operators.building.integers import Condition

Index: TypeAlias = Sequence[ir.Expr]

_LARGEST_PRODUCT = 8
"""A greater power of an element is computed by logarithms instead of multiplications."""


def max_pool(
    ctx: Context, x: Value, windows: Windows, *, indices: bool = False, column_major: bool = False
) -> tuple[Value, Value | None]:
    """The maxima, and with `indices` the position where each was found first. A position is an index into the flattened
    `x`; with `column_major`, its spatial axes are flattened in reverse order. The maximum of no elements is minus
    infinity, or the least integer; of elements of which one is NaN it is NaN."""
    if not indices:
        return _maxima(ctx, x, windows), None
    y = _pool(ctx, x, windows, _highest(x.dtype))
    return y, _positions(ctx, x, y, windows, column_major=column_major)


def average_pool(ctx: Context, x: Value, windows: Windows, *, include_padding: bool = False) -> Value:
    """The means of the taps in the data, or with `include_padding` in the data and its padding."""
    return _pool(ctx, x, windows, _average(ctx, x.dtype, windows, include_padding=include_padding))


def lp_pool(ctx: Context, x: Value, windows: Windows, order: int) -> Value:
    """The norms of order `order`. Raises `Unsupported` for an order below 1."""
    return _pool(ctx, x, windows, _norm(x.dtype, order))


def one_window(x: Value) -> Windows:
    """The single window of a global form."""
    sizes = tuple(x.shape[2:])
    ones, zeros = (1,) * len(sizes), (0,) * len(sizes)
    return Windows(sizes, sizes, strides=ones, dilations=ones, before=zeros, after=zeros, counts=ones)


@dataclass(frozen=True)
class _Pool:
    """How a pooling reduces a window: `finish(combine(prepare(element) ...), position)`. `nothing` takes the place of a
    tap outside of the data."""

    name: str
    combine: Callable[..., ir.Expr]
    nothing: ir.Expr
    prepare: Callable[[ir.Expr], ir.Expr] = lambda element: element
    finish: Callable[[ir.Expr, Index], ir.Expr] = lambda total, _: total


def _maxima(ctx: Context, x: Value, windows: Windows) -> Value:
    """The maxima. For dequantised data, also those of the integers that it comes from, because scales are positive."""
    y = _pool(ctx, x, windows, _highest(x.dtype))
    return y if x.quantized is None else replace(y, quantized=x.quantized.moved(lambda v: _maxima(ctx, v, windows)))


def _highest(dtype: str) -> _Pool:
    wide = compute_dtype(dtype)
    return _Pool("max_pool", te.comm_reducer(MAXIMUM.combine, MAXIMUM.identity, name="highest"), lowest(wide))


def _average(ctx: Context, dtype: str, shape: Windows, *, include_padding: bool) -> _Pool:
    wide = compute_dtype(dtype)

    def finish(total: ir.Expr, at: Index) -> ir.Expr:
        counts = [_taps_counted(ctx, shape, axis, i, include_padding) for axis, i in enumerate(at)]
        return total / tirx.Cast(wide, expr(ctx.product(counts)))

    return _Pool("average_pool", te.sum, tirx.const(0, wide), finish=finish)


def _norm(dtype: str, order: int) -> _Pool:
    """The norm of order `order`."""
    wide = compute_dtype(dtype)
    zero = tirx.const(0, wide)
    if order == 1:
        return _Pool("lp_pool", te.sum, zero, tirx.abs)
    if order == 2:
        return _Pool("lp_pool", te.sum, zero, lambda v: v * v, lambda total, _: tirx.sqrt(total))

    if order < 1:
        raise Unsupported(f"p is {order}; it must be at least 1")

    def power(v: ir.Expr) -> ir.Expr:
        if order > _LARGEST_PRODUCT:
            return tirx.exp(tirx.log(tirx.abs(v)) * tirx.const(float(order), wide))
        return reduce(lambda a, b: a * b, [tirx.abs(v)] * order)

    return _Pool("lp_pool", te.sum, zero, power, lambda total, _: tirx.power(total, tirx.const(1.0 / order, wide)))


def _pool(ctx: Context, x: Value, shape: Windows, rule: _Pool) -> Value:
    moved = x if x.last is None else x.last
    y = _pooled(ctx, moved, shape, rule, channel=1 if x.last is None else x.rank - 1)
    return replace(y if x.last is None else first_of(y), inexact=x.inexact)


def _pooled(ctx: Context, x: Value, shape: Windows, rule: _Pool, channel: int) -> Value:
    """The pooled `x`. Axis 0 and axis `channel` are not spatial."""

    def spatial(index: Index) -> Index:
        return [i for axis, i in enumerate(index) if axis not in (0, channel)]

    def around(index: Index, where: Sequence[IntExpr]) -> list[IntExpr]:
        return [index[0], *where[: channel - 1], index[channel], *where[channel - 1 :]]

    def build(t: te.Tensor) -> te.Tensor:
        taps = [reduce_axis(k, name=f"k{i}") for i, k in enumerate(shape.kernel)]

        def window(*index: ir.Expr) -> ir.Expr:
            where = _places(shape, spatial(index), taps)
            value = rule.prepare(load(t, x.dtype, exprs(around(index, where))))
            inside = _inside(ctx, shape, where)
            return rule.combine(value if inside is True else tirx.if_then_else(inside, value, rule.nothing), axis=taps)

        out = around(x.shape, shape.counts)
        total = compute(out, window, name=rule.name)
        return compute(out, lambda *i: store(rule.finish(total(*i), spatial(i)), x.dtype), name=f"{rule.name}_finish")

    return ctx.kernel(rule.name, build, x, dtype=x.dtype)


def _positions(ctx: Context, x: Value, y: Value, shape: Windows, *, column_major: bool) -> Value:
    """The position where each maximum `y` of `x` was found first, as an index into the flattened `x`. With
    `column_major`, its spatial axes are flattened in reverse order."""
    plane = ctx.product(shape.sizes)

    def build(data: te.Tensor, found: te.Tensor) -> te.Tensor:
        taps = [reduce_axis(k, name=f"k{i}") for i, k in enumerate(shape.kernel)]

        def window(*index: ir.Expr) -> ir.Expr:
            where = _places(shape, index[2:], taps)
            value = load(data, x.dtype, [*index[:2], *where])
            same = tirx.EQ(value, load(found, y.dtype, index))
            if is_float(value):
                same = tirx.any(same, tirx.isnan(value))
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
    """The row-major position of an index."""
    flat = tirx.const(0, "int64")
    for i, n in zip(where, sizes, strict=True):
        flat = flat * n + i
    return flat


def _unflat(flat: ir.Expr, sizes: Sequence[IntExpr]) -> list[ir.Expr]:
    """The index at a row-major position: the inverse of `_flat`."""
    where: list[ir.Expr] = []
    for n in reversed(sizes):
        where.append(expr(floor_mod(flat, n)))
        flat = expr(floor_div(flat, n))
    return where[::-1]


def _places(shape: Windows, at: Index, taps: Index) -> list[ir.Expr]:
    """The index in the data of a tap of the window at `at`, per spatial axis."""
    axes = zip(at, taps, shape.strides, shape.dilations, shape.before, strict=True)
    return [i * stride + tap * dilation - before for i, tap, stride, dilation, before in axes]


def _inside(ctx: Context, shape: Windows, where: Index) -> Condition:
    """Whether an index is in the data. Conditions that always hold are left out."""
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
    """The number of taps of the window at `at` that lie in the data, or in the data and its padding, along one axis."""
    kernel, dilation = shape.kernel[axis], shape.dilations[axis]
    start = at * shape.strides[axis] - shape.before[axis]
    if all(_reach(ctx, shape, axis)):
        return kernel
    if include_padding:
        return minimum(ceil_div(shape.sizes[axis] + shape.after[axis] - start, dilation), kernel)
    first = maximum(ceil_div(0 - start, dilation), 0)
    return minimum(ceil_div(shape.sizes[axis] - start, dilation), kernel) - first

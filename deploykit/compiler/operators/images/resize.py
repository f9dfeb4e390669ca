"""Resizing images: `resize_by` scales, `resize_to` sizes.

Each axis that changes has a table and a pass of its own; nearest takes one pass for all axes.

With scales, the sizes are `floor(size * scale)`. With sizes, they are as given, or follow from one scale for all axes
that keeps the aspect ratio. Scales and sizes may be computed at run time; the sizes of the result are then data dims.
A nearest upsampling by a whole factor that only repeats elements needs no tables. (Source: ONNX operators Resize,
Upsample.)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Literal

import numpy as np
from tvm import ir, te, tirx

from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.dims.formulas import to_text
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.conversion import load, store
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.expressions import compute, reduce_axis
from deploykit.compiler.operators.building.imperative import Array, Code, imperative
from deploykit.compiler.operators.building.integers import all_plain, expr, floor_div, is_plain
from deploykit.compiler.operators.building.rational import ratio_of, simplest_fraction
from deploykit.compiler.operators.building.sizes import quotient_of_products, require_equal, require_source
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.images.resampling import (
    Axis,
    Method,
    Table,
    table,
    taps_of,
)
from deploykit.compiler.operators.slicing import Piece, take

UNROLLED_TAPS = 4
"""A pass over more taps than this is a reduction; with fewer, the sum is unrolled."""


Policy = Literal["stretch", "not_larger", "not_smaller"]
"""`stretch`: every axis gets its size. Otherwise all axes get one scale, the least (`not_larger`) or the greatest
(`not_smaller`) of those that the sizes ask for."""


def resize_by(
    ctx: Context, x: Value, axes: Sequence[int], scales: Value, method: Method, roi: Value | None = None
) -> Value:
    """`x` with `axes` resized by `scales`, a vector with one number per axis. For `roi`, see `resize_to`.

    Raises `Unsupported` for constant scales that are not positive."""
    if ctx.product(scales.shape) != len(axes):
        raise Unsupported(f"{to_text(ctx.product(scales.shape))} scales for {len(axes)} axes")
    if scales.array is None:
        changes = _at_run_time(ctx, x, axes, scales)
    else:
        factors = [float(s) for s in scales.array.astype(np.float32).reshape(-1)]
        if min(factors, default=1.0) <= 0:
            raise Unsupported(f"the scales {factors}")
        changes = [
            Axis(axis, x.shape[axis], _scaled(ctx, x.shape[axis], factor), factor)
            for axis, factor in zip(axes, factors, strict=True)
        ]
    return _resample(ctx, x, _with_roi(ctx, changes, roi), method)


def resize_to(
    ctx: Context,
    x: Value,
    axes: Sequence[int],
    sizes: Value,
    method: Method,
    roi: Value | None = None,
    policy: Policy = "stretch",
) -> Value:
    """`x` with `axes` resized to `sizes`, a vector with one integer per axis. `roi` are the parts of the axes, from 0
    to 1, that `tf_crop_and_resize` takes: the starts of all axes, then the ends."""
    wanted = ctx.ints(sizes, minimum=0, hint="size")
    if len(wanted) != len(axes):
        raise Unsupported(f"{len(wanted)} sizes for {len(axes)} axes")
    if policy == "stretch":
        changes = [Axis(axis, x.shape[axis], size, None) for axis, size in zip(axes, wanted, strict=True)]
    else:
        changes = _keep_aspect_ratio(ctx, x, axes, wanted, policy)
    return _resample(ctx, x, _with_roi(ctx, changes, roi), method)


def _scaled(ctx: Context, size: IntExpr, factor: float) -> IntExpr:
    """`floor(size * factor)` in float32. For a symbolic size, the factor is replaced by the simplest fraction that
    rounds to it."""
    if is_plain(size):
        return int(np.floor(np.float32(size) * np.float32(factor)))
    exact = simplest_fraction(factor)
    return ctx.simplify(floor_div(size * exact.numerator, exact.denominator))


def _at_run_time(ctx: Context, x: Value, axes: Sequence[int], scales: Value) -> list[Axis]:
    """The axes for scales computed at run time. Sizes are data dims, unless each scale is a wanted size over the
    present one."""
    sizes = [x.shape[axis] for axis in axes]
    if scales.elements is not None:
        ratios = [ratio_of(e) for e in scales.elements.reshape(-1)]
        wanted = [r and quotient_of_products(ctx, [n, r[0]], [r[1]]) for n, r in zip(sizes, ratios, strict=True)]
        exact = [
            w is not None and r is not None and ctx.equal(w * r[1], n * r[0])
            for w, r, n in zip(wanted, ratios, sizes, strict=True)
        ]
        if all(exact):
            return [Axis(axis, n, w, None) for axis, n, w in zip(axes, sizes, wanted, strict=True) if w is not None]

    def write(_: Code, factors: Array, results: Array) -> None:
        for k, size in enumerate(sizes):
            product = tirx.floor(tirx.Cast("float32", expr(size)) * tirx.Cast("float32", factors[k]))
            results[k] = tirx.Cast("int64", tirx.max(product, tirx.const(0, "float32")))

    def build(t: te.Tensor) -> list[te.Tensor]:
        return imperative("resized", [t], [((len(axes),), "int64")], write)

    results = ctx.ints(ctx.kernel("resized", build, scales, dtype="int64"), minimum=0, hint="size")
    factors = [take(ctx, scales, [Piece(k, 1)]) for k in range(len(axes))]
    return [Axis(axis, x.shape[axis], n, s) for axis, n, s in zip(axes, results, factors, strict=True)]


def _keep_aspect_ratio(
    ctx: Context, x: Value, axes: Sequence[int], wanted: Sequence[IntExpr], policy: Policy
) -> list[Axis]:
    """The axes with one scale for all: the least (`not_larger`) or greatest (`not_smaller`) scale."""
    sizes = [x.shape[axis] for axis in axes]
    if any(is_plain(n) and n < 1 for n in (*wanted, *sizes)):
        raise Unsupported("an axis without elements has no aspect ratio to keep")
    if all_plain([*wanted, *sizes]):
        ratios = [int(w) / int(n) for w, n in zip(wanted, sizes, strict=True)]
        scale = min(ratios) if policy == "not_larger" else max(ratios)
        return [Axis(axis, n, int(scale * int(n) + 0.5), scale) for axis, n in zip(axes, sizes, strict=True)]

    def write(code: Code, scale: Array, results: Array) -> None:
        pick = tirx.min if policy == "not_larger" else tirx.max
        for k, (want, size) in enumerate(zip(wanted, sizes, strict=True)):
            ratio = tirx.Cast("float64", expr(want)) / tirx.Cast("float64", expr(size))
            scale[0] = ratio if k == 0 else pick(scale[0], ratio)
        for k, size in enumerate(sizes):
            results[k] = tirx.Cast("int64", tirx.floor(scale[0] * tirx.Cast("float64", expr(size)) + 0.5))

    def build() -> list[te.Tensor]:
        return imperative("aspect", [], [((1,), "float64"), ((len(axes),), "int64")], write)

    factor, results = ctx.kernel("aspect", build, dtype=("float64", "int64"))
    dims = ctx.ints(results, minimum=0, hint="size")
    return [Axis(axis, n, size, factor) for axis, n, size in zip(axes, sizes, dims, strict=True)]


def _with_roi(ctx: Context, changes: Sequence[Axis], roi: Value | None) -> list[Axis]:
    """The axes with the part that `tf_crop_and_resize` takes of each; `roi` has the starts of all axes, then the
    ends."""
    if roi is None:
        return list(changes)
    count = len(changes)
    require_equal(ctx, "the roi needs two numbers an axis", roi.shape[0], 2 * count)
    parts = [take(ctx, roi, [Piece(k, 2, count)]) for k in range(count)]
    return [replace(axis, roi=part) for axis, part in zip(changes, parts, strict=True)]


def _resample(ctx: Context, x: Value, changes: Sequence[Axis], method: Method) -> Value:
    """`x` with the given axes resampled."""
    active = [axis for axis in changes if not _is_identity(ctx, axis)]
    if not active:
        return x
    for axis in active:
        require_source(ctx, axis.source, axis.result)
    if any(axis.roi is None for axis in active) and method.coordinates == "tf_crop_and_resize":
        raise Unsupported("tf_crop_and_resize needs a roi")
    factors = [_repeats(ctx, axis, method) for axis in active]
    if all(factors):
        return _repeat(ctx, x, {axis.position: f for axis, f in zip(active, factors, strict=True)})
    precision = "float64" if x.dtype == "float64" else "float32"
    tables = {axis.position: table(ctx, axis, method, taps_of(ctx, axis, method), precision) for axis in active}
    shape = list(x.shape)
    if method.mode == "nearest":
        for axis in active:
            shape[axis.position] = axis.result
        return _gather(ctx, x, shape, tables, method)
    result = x
    for number, axis in enumerate(sorted(active, key=_last_when_it_shrinks)):
        shape[axis.position] = axis.result
        dtype = x.dtype if number == len(active) - 1 else precision
        result = _weighted_pass(ctx, result, shape, axis.position, tables[axis.position], method, dtype)
    return result


def _last_when_it_shrinks(axis: Axis) -> tuple[bool, int]:
    """A sort key for passes. A pass along an inner axis gathers elements, so it runs when there are fewest elements."""
    shrinks = isinstance(axis.scale, float) and axis.scale < 1
    if is_plain(axis.source) and is_plain(axis.result):
        shrinks = int(axis.result) < int(axis.source)
    return shrinks, axis.position if shrinks else -axis.position


def _is_identity(ctx: Context, axis: Axis) -> bool:
    return axis.roi is None and axis.scale in (None, 1.0) and ctx.equal(axis.source, axis.result)


def _repeats(ctx: Context, axis: Axis, method: Method) -> int:
    """How often every element is repeated; 0 if not all are repeated equally often."""
    if method.coordinates == "asymmetric":
        plainly = method.nearest in ("floor", "simple")
    else:
        plainly = method.coordinates.startswith("half_pixel") and method.nearest.startswith("round")
    factor = quotient_of_products(ctx, [axis.result], [axis.source])
    if method.mode != "nearest" or not plainly or not is_plain(factor) or axis.roi is not None:
        return 0
    return int(factor) if axis.scale in (None, float(factor)) and ctx.equal(axis.source * factor, axis.result) else 0


def _repeat(ctx: Context, x: Value, factors: dict[int, int]) -> Value:
    """`x` with its elements repeated. Each repeated axis is computed as two, element and copy, which a reshape
    joins."""
    shape: list[IntExpr] = []
    positions = []
    for axis, size in enumerate(x.shape):
        positions.append(len(shape))
        shape.extend([size, factors[axis]] if axis in factors else [size])

    def build(t: te.Tensor) -> te.Tensor:
        return compute(shape, lambda *index: t(*(index[p] for p in positions)), name="repeat")

    repeated = ctx.kernel("repeat", build, x, dtype=x.dtype)
    return ctx.reshape(repeated, [n * factors.get(axis, 1) for axis, n in enumerate(x.shape)])


def _gather(ctx: Context, x: Value, shape: Sequence[IntExpr], tables: dict[int, Table], method: Method) -> Value:
    """The nearest element, in one pass for all axes."""
    positions = list(tables)
    outside = [p for p in positions if tables[p].outside is not None]
    operands = [tables[p].places for p in positions] + [v for p in outside if (v := tables[p].outside) is not None]

    def build(t: te.Tensor, *given: te.Tensor) -> te.Tensor:
        def element(*index: ir.Expr) -> ir.Expr:
            source = list(index)
            for position, places in zip(positions, given, strict=False):
                source[position] = places(index[position], 0)
            value = t(*source)
            for position, beyond in zip(outside, given[len(positions) :], strict=True):
                filler = store(tirx.const(method.extrapolation, "float32"), x.dtype)
                value = tirx.Select(beyond(index[position]) != 0, filler, value)
            return value

        return compute(shape, element, name="resize")

    return ctx.kernel("resize", build, x, *operands, dtype=x.dtype)


def _weighted_pass(
    ctx: Context, x: Value, shape: Sequence[IntExpr], axis: int, given: Table, method: Method, dtype: str
) -> Value:
    """A pass along one axis of a linear or cubic Resize. Positions outside get the extrapolation value."""
    assert given.weights is not None
    wide = "float64" if "float64" in (x.dtype, dtype) else "float32"
    size = tuple(shape)
    operands = [given.places, given.weights, *([given.outside] if given.outside is not None else [])]

    def build(t: te.Tensor, places: te.Tensor, weights: te.Tensor, *outside: te.Tensor) -> te.Tensor | list[te.Tensor]:
        def term(index: Sequence[ir.Expr], k: ir.Expr) -> ir.Expr:
            i = index[axis]
            element = load(t, x.dtype, [*index[:axis], places(i, k), *index[axis + 1 :]])
            return tirx.Cast(wide, element) * weights(i, k)

        def finish(value: ir.Expr, index: Sequence[ir.Expr]) -> ir.Expr:
            if outside:
                value = tirx.Select(outside[0](index[axis]) != 0, tirx.const(method.extrapolation, wide), value)
            return _rounded(value, dtype)

        if is_plain(given.taps) and given.taps <= UNROLLED_TAPS:
            taps = [tirx.IntImm("int64", k) for k in range(given.taps)]
            return compute(size, lambda *i: finish(_sum(term(i, k) for k in taps), i), name="resize")
        k = reduce_axis(given.taps, name="k")
        summed = compute(size, lambda *i: te.sum(term(i, k.var), axis=k), name="resize")
        return compute(size, lambda *i: finish(summed(*i), i), name="rounded")

    return ctx.kernel("resize", build, x, *operands, dtype=dtype)


def _sum(terms: Iterable[ir.Expr]) -> ir.Expr:
    return reduce(add, terms)


def _rounded(value: ir.Expr, dtype: str) -> ir.Expr:
    """The element of `dtype` nearest to a number. Integers saturate."""
    if not dtype.startswith(("int", "uint")):
        return store(value, dtype)
    wide = str(value.ty.dtype)
    lowest, highest = (tirx.const(float(n), wide) for n in (np.iinfo(dtype).min, np.iinfo(dtype).max))
    return store(tirx.max(tirx.min(tirx.nearbyint(value), highest), lowest), dtype)

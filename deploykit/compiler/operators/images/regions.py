"""Pooling of regions of interest: `roi_align`, `max_roi_pool`.

They are imperative kernels, because regions differ in size.

`roi_align` takes the average or the maximum of interpolated samples: `samples` per axis of a bin, or one for each
element that the bin covers. `max_roi_pool` rounds regions and bins to whole elements, and rounds the image indices,
which are floats, towards 0. A run with an image index outside of the batch is refused.
(Source: ONNX operators RoiAlign, MaxRoiPool.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from tvm import ir, te, tirx

from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.conversion import compute_dtype, load, store
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.expressions import compute
from deploykit.compiler.operators.building.imperative import Array, Cell, Code, imperative
from deploykit.compiler.operators.building.indices import LARGEST_INDEX, checked
from deploykit.compiler.operators.building.integers import clamp, equal, expr, exprs
from deploykit.compiler.operators.building.reduce_axes import lowest
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.images.sampling import number, size_as

MAXIMUM_SAMPLES = 1 << 16
"""The most samples, or elements, along one axis of a bin. It exceeds any image, and bounds the time of invalid
regions."""


def roi_align(
    ctx: Context,
    x: Value,
    regions: Value,
    images: Value,
    *,
    bins: tuple[int, int],
    scale: float = 1.0,
    samples: int = 0,
    average: bool = True,
    half_pixel: bool = True,
) -> Value:
    """Averages or maxima (regions, C, *bins) of the bins of `regions` of `x` (N, C, height, width). A region is (first
    column, first row, last column, last row), times `scale`; `images` has the index of its image.

    With `half_pixel`, regions are moved back by half an element; without, a region smaller than one element is enlarged
    to one. With `samples` of 0, there are as many samples as the bin covers elements."""
    if min(bins) < 1:
        raise Unsupported(f"a result of {bins[0]} by {bins[1]} bins; both must be positive")
    rule = _Align(scale, 0.5 if half_pixel else 0.0, samples, average, malformed=not half_pixel)
    counts = regions.shape[0], images.shape[0]
    ctx.require(equal(regions.shape[1], 4), "regions of {} coordinates", regions.shape[1])
    ctx.require(equal(*counts), "{} regions, images of {} are given", *counts)
    shape = exprs((regions.shape[0], x.shape[1], *bins))
    images = checked(ctx, images, [(0, x.shape[0] - 1)], position=2)

    def build(*tensors: te.Tensor) -> Sequence[te.Tensor]:
        def body(code: Code, data: Array, boxes: Array, indices: Array, y: Array) -> None:
            with code.loop("r", shape[0]) as r:
                image = code.cell("image", clamp(tirx.Cast("int64", indices[r]), 0, x.shape[0] - 1))
                box = [load(boxes, regions.dtype, (r, i)) for i in range(4)]
                axes = [_axis(code, rule, (box[1 - a], box[3 - a]), bins[a]) for a in range(2)]

                def pixel(*position: ir.Expr) -> ir.Expr:
                    return load(data, x.dtype, position)

                with code.loop("c", shape[1]) as c, code.loop("i", bins[0]) as i, code.loop("j", bins[1]) as j:
                    read = partial(pixel, image.value, c)
                    y[r, c, i, j] = store(_bin(code, rule, read, x.shape[2:], axes, (i, j)), x.dtype)

        return imperative("roi_align", tensors, [(shape, str(tensors[0].dtype))], body)

    (y,) = ctx.kernel("roi_align", build, x, regions, images, dtype=(x.dtype,))
    return y


@dataclass(frozen=True)
class _Align:
    """How regions are read: coordinates times `scale`, minus `offset`, with `ratio` samples per axis of a bin."""

    scale: float
    offset: float
    ratio: int
    average: bool
    malformed: bool
    """Whether regions smaller than one element are enlarged to one."""


@dataclass(frozen=True)
class _Axis:
    """A region along one axis: its start, the size of its bins, and the number of samples of each."""

    start: Cell
    bin: Cell
    samples: Cell


def _axis(code: Code, rule: _Align, ends: tuple[ir.Expr, ir.Expr], bins: int) -> _Axis:
    first, last = (end * number(end, rule.scale) - number(end, rule.offset) for end in ends)
    start = code.cell("start", first)
    extent = last - start.value
    extent = tirx.max(extent, number(extent, 1)) if rule.malformed else extent
    size = code.cell("bin", extent / number(extent, bins))
    if rule.ratio > 0:
        return _Axis(start, size, code.cell("samples", rule.ratio))
    return _Axis(start, size, code.cell("samples", _whole(tirx.ceil(size.value), 0, MAXIMUM_SAMPLES)))


def _whole(value: ir.Expr, least: int, most: int) -> ir.Expr:
    """A float as an integer from `least` to `most`; NaN becomes `least`."""
    bounded = tirx.max(tirx.min(number(value, most), value), number(value, least))
    return tirx.Cast("int64", tirx.Select(tirx.isnan(value), number(value, least), bounded))


def _bin(
    code: Code,
    rule: _Align,
    read: Callable[[ir.Expr, ir.Expr], ir.Expr],
    sizes: Sequence[IntExpr],
    axes: Sequence[_Axis],
    where: tuple[ir.Expr, ir.Expr],
) -> ir.Expr:
    """The average or maximum of the samples of one bin."""
    like = axes[0].start.value
    total = code.cell("total", number(like, 0) if rule.average else lowest(str(like.ty.dtype)))
    count = axes[0].samples.value * axes[1].samples.value
    with code.loop("v", axes[0].samples.value) as v, code.loop("h", axes[1].samples.value) as h:
        places = [
            code.cell("place", axis.start.value + axis.bin.value * (_as(like, at) + _share(axis, sample)))
            for axis, at, sample in zip(axes, where, (v, h), strict=True)
        ]
        inside = tirx.all(
            *(
                bound
                for place, size in zip(places, sizes, strict=True)
                for bound in (place.value >= number(like, -1), place.value <= size_as(like, size))
            )
        )
        terms = _corners(code, read, sizes, places, inside)
        if rule.average:
            total.value = total.value + terms[0] + terms[1] + terms[2] + terms[3]
        else:
            total.value = tirx.max(total.value, tirx.max(tirx.max(terms[0], terms[1]), tirx.max(terms[2], terms[3])))
    if rule.average:
        return total.value / _as(like, tirx.max(count, 1))
    return tirx.Select(count > 0, total.value, number(like, 0))


def _as(like: ir.Expr, value: ir.Expr) -> ir.Expr:
    return tirx.Cast(str(like.ty.dtype), value)


def _share(axis: _Axis, sample: ir.Expr) -> ir.Expr:
    """The position of a sample in its bin, from 0 to 1."""
    like = axis.start.value
    return (_as(like, sample) + number(like, 0.5)) * (number(like, 1) / _as(like, axis.samples.value))


def _corners(
    code: Code,
    read: Callable[[ir.Expr, ir.Expr], ir.Expr],
    sizes: Sequence[IntExpr],
    places: Sequence[Cell],
    inside: ir.Expr,
) -> list[ir.Expr]:
    """The four elements around a sample, times their weights; zeros for a sample outside of the image."""
    lows, highs, fractions = [], [], []
    for place, size in zip(places, sizes, strict=True):
        like = place.value
        bounded = tirx.max(tirx.min(like, size_as(like, size) - number(like, 1)), number(like, 0))
        exact = code.cell("exact", tirx.Select(tirx.isnan(like), number(like, 0), bounded))
        low = code.cell("low", clamp(tirx.Cast("int64", tirx.floor(exact.value)), 0, size - 1))
        lows.append(low.value)
        highs.append(expr(clamp(low.value + 1, 0, size - 1)))
        fractions.append(exact.value - _as(like, low.value))
    one = number(fractions[0], 1)
    (fv, fh), (gv, gh) = fractions, (one - fractions[0], one - fractions[1])
    corners = [(lows[0], lows[1], gv * gh), (lows[0], highs[1], gv * fh), (highs[0], lows[1], fv * gh)]
    corners.append((highs[0], highs[1], fv * fh))
    zero = number(one, 0)
    return [tirx.Select(inside, weight * _as(one, read(v, h)), zero) for v, h, weight in corners]


def max_roi_pool(ctx: Context, x: Value, regions: Value, bins: Sequence[int], scale: float = 1.0) -> Value:
    """Maxima (regions, C, *bins) of the bins of `regions` of `x` (N, C, height, width). A region is (image, first
    column, first row, last column, last row), with coordinates times `scale`. A bin without elements gives 0."""
    ctx.require(equal(regions.shape[1], 5), "regions of {} numbers", regions.shape[1])
    shape = exprs((regions.shape[0], x.shape[1], *bins))
    wide = compute_dtype(x.dtype)
    images = checked(ctx, _images(ctx, regions), [(0, x.shape[0] - 1)], what="images of")

    def build(*tensors: te.Tensor) -> Sequence[te.Tensor]:
        def body(code: Code, data: Array, boxes: Array, indices: Array, y: Array) -> None:
            with code.loop("r", shape[0]) as r:
                image = code.cell("image", clamp(expr(indices[r]), 0, x.shape[0] - 1))
                corners = [load(boxes, regions.dtype, (r, i)) for i in range(1, 5)]
                ends = [code.cell("end", _rounded(value * number(value, scale))) for value in corners]
                with code.loop("c", shape[1]) as c, code.loop("i", bins[0]) as i, code.loop("j", bins[1]) as j:
                    spans = [
                        _span(code, (ends[1 - a].value, ends[3 - a].value), at, (bins[a], x.shape[2 + a]))
                        for a, at in enumerate((i, j))
                    ]
                    best = code.cell("best", lowest(wide))
                    with (
                        code.loop("v", spans[0][1].value, spans[0][0].value) as v,
                        code.loop("h", spans[1][1].value, spans[1][0].value) as h,
                    ):
                        best.value = tirx.max(best.value, load(data, x.dtype, (image.value, c, v, h)))
                    empty = spans[0][1].value * spans[1][1].value == 0
                    y[r, c, i, j] = store(tirx.Select(empty, tirx.const(0, wide), best.value), x.dtype)

        return imperative("max_roi_pool", tensors, [(shape, str(tensors[0].dtype))], body)

    (y,) = ctx.kernel("max_roi_pool", build, x, regions, images, dtype=(x.dtype,))
    return y


def _images(ctx: Context, regions: Value) -> Value:
    """The image index of each region: the first column as integers."""

    def build(boxes: te.Tensor) -> te.Tensor:
        def image(r: ir.Expr) -> ir.Expr:
            return _whole(load(boxes, regions.dtype, (r, 0)), -1, LARGEST_INDEX + 1)

        return compute([regions.shape[0]], image, name="images")

    return ctx.kernel("images", build, regions, dtype="int64")


def _rounded(value: ir.Expr) -> ir.Expr:
    """The nearest integer, with halves away from zero. Values far outside of any image are bounded."""
    bounded = tirx.max(tirx.min(value, number(value, MAXIMUM_SAMPLES)), number(value, -MAXIMUM_SAMPLES))
    safe = tirx.Select(tirx.isnan(value), number(value, 0), bounded)
    away = tirx.Select(safe < number(safe, 0), number(safe, -0.5), number(safe, 0.5))
    return tirx.Cast("int64", tirx.trunc(safe + away))


def _span(code: Code, ends: tuple[ir.Expr, ir.Expr], at: ir.Expr, sizes: tuple[int, IntExpr]) -> tuple[Cell, Cell]:
    """The first element and the number of elements of bin `at`, along one axis of `sizes` (bins, image)."""
    bins, size = sizes
    extent = tirx.max(ends[1] - ends[0] + 1, 1)
    first = code.cell("first", clamp(tirx.floordiv(at * extent, bins) + ends[0], 0, size))
    last = clamp(tirx.floordiv((at + 1) * extent + (bins - 1), bins) + ends[0], 0, size)
    return first, code.cell("count", tirx.max(expr(last) - first.value, 0))

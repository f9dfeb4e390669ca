"""Sampling at a field of positions: `grid_sample`, `affine_grid`, over any number of spatial axes.

`grid_sample` is an imperative kernel. For each position it finds the elements that contribute and their weights: per
axis one element (nearest), two (linear) or four (cubic). Then it sums them up for every channel. Positions list the
innermost axis first. They run from -1 to 1, which are the centres of the outermost elements (`align`) or their outer
edges. An element outside is zero, the nearest element, or the mirrored one; this applies to each element of a cubic
kernel.
(Source: ONNX operators GridSample, opset 16, and AffineGrid, opset 20.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import reduce
from operator import mul
from typing import Literal

from tvm import ir, te, tirx

from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.dtypes import storage_dtype
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.conversion import compute_dtype, load, store
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.expressions import compute
from deploykit.compiler.operators.building.imperative import Array, Code, imperative
from deploykit.compiler.operators.building.integers import equal, expr, exprs, maximum
from deploykit.compiler.operators.building.sizes import require_equal
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.images.sampling import (
    clamped,
    cubic_weight,
    floor_index,
    inside,
    linear_weight,
    near,
    number,
    reflected,
    size_as,
)

Mode = Literal["nearest", "linear", "cubic"]
Padding = Literal["zeros", "border", "reflection"]


def grid_sample(
    ctx: Context, x: Value, grid: Value, *, mode: Mode = "linear", padding: Padding = "zeros", align: bool = False
) -> Value:
    """Samples (N, C, ...) of `x` (N, C, spatial axes) at the positions `grid` (N, ..., number of spatial axes)."""
    spatial = x.rank - 2
    if grid.rank != x.rank:
        raise Unsupported(f"a grid of rank {grid.rank} for data of rank {x.rank}")
    ctx.require(equal(grid.shape[-1], spatial), f"positions of {{}} axes for {spatial} spatial axes", grid.shape[-1])
    require_equal(ctx, "the batches of the data and of the grid differ", x.shape[0], grid.shape[0])
    sampler = _Sampler(tuple(x.shape[2:]), mode, padding, align)
    shape = exprs((*x.shape[:2], *grid.shape[1:-1]))

    def body(code: Code, data: Array, positions: Array, y: Array) -> None:
        axes = range(len(sampler.sizes))
        chosen = code.room("chosen", len(axes) * sampler.taps, "int64")
        weights = code.room("weights", len(axes) * sampler.taps, compute_dtype(grid.dtype))
        with ExitStack() as loops:
            n, *at = (loops.enter_context(code.loop(f"o{i}", size)) for i, size in enumerate([shape[0], *shape[2:]]))
            for axis in axes:
                given = load(positions, grid.dtype, (n, *at, axes.stop - 1 - axis))
                place = code.cell("place", sampler.position(given, axis)).value
                for tap in range(sampler.taps):
                    index = sampler.index(place, tap)
                    weights[axis * sampler.taps + tap] = sampler.weight(place - tirx.Cast(place.ty.dtype, index))
                    chosen[axis * sampler.taps + tap] = sampler.source(index, axis)
            with code.loop("c", shape[1]) as c:
                y[n, c, *at] = _weighted_sum(
                    code, sampler, x.dtype, lambda place: data[n, c, *place], (chosen, weights)
                )

    def build(*tensors: te.Tensor) -> Sequence[te.Tensor]:
        return imperative("grid_sample", tensors, [(shape, storage_dtype(x.dtype))], body)

    (y,) = ctx.kernel("grid_sample", build, x, grid, dtype=(x.dtype,))
    return y


@dataclass(frozen=True)
class _Sampler:
    """How positions are read. `sizes` are the sizes of the data's spatial axes."""

    sizes: tuple[IntExpr, ...]
    mode: Mode
    padding: Padding
    align: bool

    def borders(self, like: ir.Expr, axis: int) -> tuple[ir.Expr, ir.Expr]:
        """The start and the end of an axis, in elements."""
        edge = number(like, 0 if self.align else 0.5)
        return -edge, size_as(like, self.sizes[axis]) - number(like, 1) + edge

    def position(self, given: ir.Expr, axis: int) -> ir.Expr:
        """A position from -1 to 1 converted to elements, and moved to where the padding allows it."""
        low, high = self.borders(given, axis)
        place = (given + number(given, 1)) * number(given, 0.5) * (high - low) + low
        place = tirx.nearbyint(place) if self.mode == "nearest" else place
        if self.padding == "reflection":
            place = reflected(place, low, high)
        if self.padding == "border" and self.mode != "cubic":
            place = tirx.max(tirx.min(place, size_as(given, self.sizes[axis]) - number(given, 1)), number(given, 0))
        return near(place, self.sizes[axis])

    @property
    def taps(self) -> int:
        return {"nearest": 1, "linear": 2, "cubic": 4}[self.mode]

    def index(self, place: ir.Expr, tap: int) -> ir.Expr:
        """The integer position of a tap. It may lie outside."""
        return floor_index(place) + (tap - 1 if self.mode == "cubic" else tap)

    def weight(self, distance: ir.Expr) -> ir.Expr:
        return cubic_weight(distance) if self.mode == "cubic" else linear_weight(distance)

    def source(self, index: ir.Expr, axis: int) -> ir.Expr:
        """The element that is read for an integer position. It lies outside only if zeros are read there."""
        if self.padding == "zeros":
            return index
        if self.padding == "reflection":
            place = tirx.Cast("float32", index)
            index = floor_index(reflected(place, *self.borders(place, axis)))
        return clamped(index, self.sizes[axis])


def _weighted_sum(
    code: Code,
    sampler: _Sampler,
    dtype: str,
    read: Callable[[Sequence[ir.Expr]], ir.Expr],
    taps: tuple[Array, Array],
) -> ir.Expr:
    """The sum of the chosen elements, each times its weights, as an element of `dtype`; a single one is taken as it
    is."""
    chosen, weights = taps

    def element(at: Sequence[ir.Expr]) -> ir.Expr:
        place = [chosen[axis * sampler.taps + tap] for axis, tap in enumerate(at)]
        value = read(place)
        if sampler.padding != "zeros":
            return value
        return tirx.if_then_else(inside(place, sampler.sizes), value, tirx.const(0, value.ty.dtype))

    if sampler.mode == "nearest":
        return element([expr(0)] * len(sampler.sizes))
    wide = compute_dtype(dtype) if compute_dtype(dtype).startswith("float") else "float32"
    total = code.cell("total", tirx.const(0, wide))
    with ExitStack() as loops:
        at = [loops.enter_context(code.loop(f"t{i}", sampler.taps)) for i in range(len(sampler.sizes))]
        factors = [weights[axis * sampler.taps + tap] for axis, tap in enumerate(at)]
        value = load(lambda *_: element(at), dtype, ())
        total.value = total.value + tirx.Cast(wide, reduce(mul, factors)) * tirx.Cast(wide, value)
    return store(total.value, dtype)


def affine_grid(ctx: Context, theta: Value, sizes: Sequence[IntExpr], *, align: bool = False) -> Value:
    """Positions (N, ..., axes): the matrices `theta` (N, axes, axes + 1) times the positions of a grid of `sizes`."""
    axes = theta.shape[1]
    if axes != len(sizes):
        raise Unsupported(f"matrices for {axes} axes and a size of {len(sizes)} spatial axes")
    dtype = compute_dtype(theta.dtype)

    def place(index: ir.Expr, count: IntExpr) -> ir.Expr:
        """The position, from -1 to 1, of element `index` of `count`."""
        if align:
            twice, intervals = index * 2, maximum(count - 1, 1)
        else:
            twice, intervals = index * 2 + 1, count
        return tirx.Cast(dtype, twice) * (tirx.const(1, dtype) / tirx.Cast(dtype, expr(intervals))) - tirx.const(
            1, dtype
        )

    def build(t: te.Tensor) -> te.Tensor:
        def element(*index: ir.Expr) -> ir.Expr:
            n, *at, row = index
            total = load(t, theta.dtype, (n, row, len(sizes)))
            for column, (i, count) in enumerate(zip(reversed(at), reversed(sizes), strict=True)):
                total = total + load(t, theta.dtype, (n, row, column)) * place(i, count)
            return store(total, theta.dtype)

        return compute((theta.shape[0], *sizes, len(sizes)), element, name="affine_grid")

    return ctx.kernel("affine_grid", build, theta, dtype=theta.dtype)

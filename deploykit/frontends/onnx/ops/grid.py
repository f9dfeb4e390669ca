"""Sampling by a field of positions: GridSample, AffineGrid, over any number of spatial axes.

GridSample computes the positions once for all channels, in elements; then each result reads one element (nearest) or
interpolates between two (linear) or four (cubic) an axis. Positions list the innermost axis first and run from -1 to 1,
which are the centres of the outermost elements (`align_corners`) or their edges. What lies outside is zero, the nearest
element, or the mirror image; a cubic kernel that reaches outside has each element replaced.
(Source: ONNX operators GridSample, opset 16, and AffineGrid, opset 20.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import mul

from tvm import ir, te, tirx

from deploykit.compiler.program.ir import IntExpr
from deploykit.frontends.onnx.broadcast import compute_dtype, load, store
from deploykit.frontends.onnx.context import Context
from deploykit.frontends.onnx.integers import expr, exprs, maximum
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import Unsupported, operator
from deploykit.frontends.onnx.sampling import (
    clamped,
    cubic_weight,
    floor_index,
    inside,
    linear,
    near,
    number,
    reflected,
    size_as,
)
from deploykit.frontends.onnx.value import Value

_MODES = {"nearest": "nearest", "linear": "linear", "cubic": "cubic", "bilinear": "linear", "bicubic": "cubic"}


@dataclass(frozen=True)
class _Sampler:
    """How positions are read: `sizes` are those of the spatial axes of the data."""

    sizes: tuple[IntExpr, ...]
    mode: str
    padding: str
    align: bool

    def borders(self, like: ir.Expr, axis: int) -> tuple[ir.Expr, ir.Expr]:
        """Where an axis starts and ends, in elements."""
        edge = number(like, 0 if self.align else 0.5)
        return -edge, size_as(like, self.sizes[axis]) - number(like, 1) + edge

    def position(self, given: ir.Expr, axis: int) -> ir.Expr:
        """A position from -1 to 1 in elements, moved to within the padding's reach."""
        low, high = self.borders(given, axis)
        place = (given + number(given, 1)) * number(given, 0.5) * (high - low) + low
        place = tirx.nearbyint(place) if self.mode == "nearest" else place
        if self.padding == "reflection":
            place = reflected(place, low, high)
        if self.padding == "border" and self.mode != "cubic":
            place = tirx.max(tirx.min(place, size_as(given, self.sizes[axis]) - number(given, 1)), number(given, 0))
        return near(place, self.sizes[axis])

    def element(self, data: te.Tensor, plane: Sequence[ir.Expr], index: Sequence[ir.Expr]) -> ir.Expr:
        """The stored element at integer positions, which may lie outside."""
        if self.padding == "zeros":
            element = data(*plane, *index)
            return tirx.if_then_else(inside(index, self.sizes), element, tirx.const(0, element.ty.dtype))
        if self.padding == "reflection":
            index = [self._mirrored(i, axis) for axis, i in enumerate(index)]
        return data(*plane, *(clamped(i, n) for i, n in zip(index, self.sizes, strict=True)))

    def _mirrored(self, index: ir.Expr, axis: int) -> ir.Expr:
        place = tirx.Cast("float32", index)
        return floor_index(reflected(place, *self.borders(place, axis)))


@operator("GridSample")
def grid_sample(ctx: Context, node: Node, x: Value, grid: Value) -> Value:
    sampler = _sampler(ctx, node, x, grid)
    spatial = len(sampler.sizes)
    wide = compute_dtype(x.dtype) if compute_dtype(x.dtype).startswith("float") else "float32"

    def build(t: te.Tensor, where: te.Tensor) -> te.Tensor:
        def at(index: Sequence[ir.Expr]) -> list[ir.Expr]:
            return [where(index[0], *index[2:], axis) for axis in range(spatial)]

        def value(index: Sequence[ir.Expr], place: Sequence[ir.Expr]) -> ir.Expr:
            return tirx.Cast(wide, load(lambda *i: sampler.element(t, i[:2], i[2:]), x.dtype, (*index[:2], *place)))

        def nearest(*index: ir.Expr) -> ir.Expr:
            return sampler.element(t, index[:2], [tirx.Cast("int64", p) for p in at(index)])

        def interpolated(*index: ir.Expr) -> ir.Expr:
            return store(tirx.Cast(wide, linear(lambda place: value(index, place), at(index))), x.dtype)

        shape = exprs((*x.shape[:2], *grid.shape[1:-1]))
        if sampler.mode != "cubic":
            return te.compute(shape, nearest if sampler.mode == "nearest" else interpolated, name="grid_sample")
        taps = [te.reduce_axis((0, expr(4)), name=f"tap{axis}") for axis in range(spatial)]

        def cubic(*index: ir.Expr) -> ir.Expr:
            places = at(index)
            chosen = [floor_index(p) - 1 + tap.var for p, tap in zip(places, taps, strict=True)]
            weights = [cubic_weight(p - tirx.Cast(p.ty.dtype, i)) for p, i in zip(places, chosen, strict=True)]
            return te.sum(tirx.Cast(wide, reduce(mul, weights)) * value(index, chosen), axis=taps)

        total = te.compute(shape, cubic, name="grid_sample")
        return te.compute(shape, lambda *i: store(total(*i), x.dtype), name="grid_sample_result")

    return ctx.kernel("grid_sample", build, x, _positions(ctx, grid, sampler), dtype=x.dtype)


def _sampler(ctx: Context, node: Node, x: Value, grid: Value) -> _Sampler:
    mode, padding = node.string("mode", "linear"), node.string("padding_mode", "zeros")
    if mode not in _MODES or padding not in {"zeros", "border", "reflection"}:
        raise Unsupported(f"mode '{mode}' with padding mode '{padding}'")
    spatial = x.rank - 2
    if grid.rank != x.rank:
        raise Unsupported(f"a grid of rank {grid.rank} for data of rank {x.rank}")
    ctx.require(grid.shape[-1] == spatial, f"positions of {{}} axes for {spatial} spatial axes", grid.shape[-1])
    return _Sampler(tuple(x.shape[2:]), _MODES[mode], padding, node.int("align_corners", 0) == 1)


def _positions(ctx: Context, grid: Value, sampler: _Sampler) -> Value:
    """The grid in elements, outermost axis first, in the dtype that it is computed in."""
    last = len(sampler.sizes) - 1

    def build(t: te.Tensor) -> te.Tensor:
        def element(*index: ir.Expr) -> ir.Expr:
            *at, axis = index
            given = load(t, grid.dtype, (*at, last - axis))
            place = sampler.position(given, last)
            for other in range(last):
                place = tirx.Select(axis == other, sampler.position(given, other), place)
            return place

        return te.compute(exprs(grid.shape), element, name="positions")

    return ctx.kernel("grid_positions", build, grid, dtype=compute_dtype(grid.dtype))


@operator("AffineGrid")
def affine_grid(ctx: Context, node: Node, theta: Value, size: Value) -> Value:
    """(N, ..., axes): the matrices times the positions of a grid of the given spatial size."""
    axes = theta.shape[1]
    sizes = ctx.ints(size, minimum=1, hint="grid_size")[2:]
    if axes != len(sizes):
        raise Unsupported(f"matrices for {axes} axes and a size of {len(sizes)} spatial axes")
    align = node.int("align_corners", 0) == 1
    dtype = compute_dtype(theta.dtype)

    def place(index: ir.Expr, count: IntExpr) -> ir.Expr:
        """Position from -1 to 1 of element `index` of `count`."""
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

        return te.compute(exprs((theta.shape[0], *sizes, len(sizes))), element, name="affine_grid")

    return ctx.kernel("affine_grid", build, theta, dtype=theta.dtype)

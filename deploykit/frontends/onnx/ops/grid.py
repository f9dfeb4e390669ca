"""ONNX: GridSample, AffineGrid (`compiler.operators.grid`)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from tvm import ir, te, tirx

from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.dtypes import storage_dtype
from deploykit.compiler.operators.broadcast import compute_dtype, load, store
from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.errors import Unsupported
from deploykit.compiler.operators.expressions import compute
from deploykit.compiler.operators.grid import Sampler, weighted_sum
from deploykit.compiler.operators.imperative import Array, Code, imperative
from deploykit.compiler.operators.integers import equal, expr, exprs, maximum
from deploykit.compiler.operators.sizes import require_equal
from deploykit.compiler.operators.value import Value
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator

_MODES = {"nearest": "nearest", "linear": "linear", "cubic": "cubic", "bilinear": "linear", "bicubic": "cubic"}


@operator("GridSample")
def grid_sample(ctx: Context, node: Node, x: Value, grid: Value) -> Value:
    sampler = _sampler(ctx, node, x, grid)
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
                y[n, c, *at] = weighted_sum(code, sampler, x.dtype, lambda place: data[n, c, *place], (chosen, weights))

    def build(*tensors: te.Tensor) -> Sequence[te.Tensor]:
        return imperative("grid_sample", tensors, [(shape, storage_dtype(x.dtype))], body)

    (y,) = ctx.kernel("grid_sample", build, x, grid, dtype=(x.dtype,))
    return y


def _sampler(ctx: Context, node: Node, x: Value, grid: Value) -> Sampler:
    mode = node.choice("mode", _MODES, "linear")
    padding = node.choice("padding_mode", ("zeros", "border", "reflection"), "zeros")
    spatial = x.rank - 2
    if grid.rank != x.rank:
        raise Unsupported(f"a grid of rank {grid.rank} for data of rank {x.rank}")
    ctx.require(equal(grid.shape[-1], spatial), f"positions of {{}} axes for {spatial} spatial axes", grid.shape[-1])
    require_equal(ctx, "the batches of the data and of the grid differ", x.shape[0], grid.shape[0])
    return Sampler(tuple(x.shape[2:]), _MODES[mode], padding, node.int("align_corners", 0) == 1)


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

        return compute((theta.shape[0], *sizes, len(sizes)), element, name="affine_grid")

    return ctx.kernel("affine_grid", build, theta, dtype=theta.dtype)

"""Operators that cut tensors into pieces (`take`, `strided_slice`, `split`) or reverse pieces (`reverse_sequence`).

A piece is a start, a size and a step per axis. If starts or ends are expressions over dims, starts and sizes are, too.
If an operand of a slice is computed at run time, a small kernel computes them, and they are read as data dims.
(Source: ONNX operators Slice, Split, ReverseSequence.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from tvm import ir, te, tirx

from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.operators.building.axes import from_front
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.expressions import compute
from deploykit.compiler.operators.building.imperative import Array, Code, imperative
from deploykit.compiler.operators.building.indices import checked
from deploykit.compiler.operators.building.integers import (
    all_plain,
    ceil_div,
    clamp,
    equal,
    expr,
    floor_div,
    floor_mod,
    from_end,
    is_plain,
    maximum,
    minimum,
    select,
)
from deploykit.compiler.operators.building.sizes import require_equal, require_rank
from deploykit.compiler.operators.building.value import Value, constant

LONGEST = 2**62
"""More elements than any axis has."""


@dataclass(frozen=True)
class Piece:
    """The elements `start + i * step` of one axis, for `i` in `0..size-1`; all are within the axis."""

    start: IntExpr
    size: IntExpr
    step: IntExpr = 1


def take(ctx: Context, x: Value, pieces: Sequence[Piece]) -> Value:
    """The given piece of every axis, one per axis."""
    if all(_is_whole(ctx, piece, size) for piece, size in zip(pieces, x.shape, strict=True)):
        return x
    if x.array is not None and all_plain(n for p in pieces for n in (p.start, p.size, p.step)):
        return constant(x.array[tuple(slice(*_bounds(p)) for p in pieces)])

    def build(t: te.Tensor) -> te.Tensor:
        def element(*index: ir.Expr) -> ir.Expr:
            return t(*(p.start + i * p.step for p, i in zip(pieces, index, strict=True)))

        return compute([p.size for p in pieces], element, name="slice")

    return ctx.kernel("slice", build, x, dtype=x.dtype)


def _is_whole(ctx: Context, piece: Piece, size: IntExpr) -> bool:
    at_start = is_plain(piece.start) and is_plain(piece.step) and (piece.start, piece.step) == (0, 1)
    return at_start and ctx.equal(piece.size, size)


def _bounds(piece: Piece) -> tuple[int, int | None, int]:
    start, size, step = int(piece.start), int(piece.size), int(piece.step)
    end = start + size * step
    return (start, end if end >= 0 else None, step) if size else (0, 0, 1)


def piece_of(ctx: Context, start: IntExpr, end: IntExpr, step: int, size: IntExpr) -> Piece:
    """The piece that numpy's `start:end:step` takes from an axis of `size`."""
    if step > 0:
        first, last = (_bound(index, size, 0, size) for index in (start, end))
        count = ceil_div(last - first, step)
    else:
        first, last = (_bound(index, size, -1, size - 1) for index in (start, end))
        count = ceil_div(first - last, -step)
    return Piece(ctx.simplify(first), ctx.simplify(maximum(count, 0)), step)


def _bound(index: IntExpr, size: IntExpr, low: IntExpr, high: IntExpr) -> IntExpr:
    """The place within `low..high` that an index stands for, which counts from the end if it is negative."""
    return low if is_plain(index) and index < -LONGEST else clamp(from_end(index, size), low, high)


def strided_slice(
    ctx: Context, x: Value, starts: Value, ends: Value, axes: Value | None = None, steps: Value | None = None
) -> Value:
    """The elements that numpy's `start:end:step` takes from each of `axes`; all operands are vectors of the same
    length. Without `axes`, these are the first axes; without `steps`, each step is 1.

    Raises `Unsupported` for a step that is known to be 0. A step that is 0 at run time gives an empty result."""
    count = ctx.length(starts)
    axes = axes or ctx.constant(range(count), "int64")
    steps = steps or ctx.constant([1] * count, "int64")
    for operand in (starts, ends, axes, steps):
        require_rank(ctx, operand, 1)
        require_equal(ctx, "starts, ends, axes and steps differ in number", operand.shape[0], count)
    if not axes.is_known:
        return _slice_at_run_time(ctx, x, starts, ends, axes, steps, list(range(x.rank)))
    where = [from_front(int(a), x.rank) for a in ctx.ints(axes)]
    if not (starts.is_known and ends.is_known and steps.is_constant):
        return _slice_at_run_time(ctx, x, starts, ends, axes, steps, where)
    pieces = [Piece(0, n) for n in x.shape]
    bounds = (ctx.ints(starts), ctx.ints(ends), [int(n) for n in ctx.ints(steps)])
    for axis, start, end, step in zip(where, *bounds, strict=True):
        if step == 0:
            raise Unsupported("a step of 0")
        pieces[axis] = piece_of(ctx, start, end, step, x.shape[axis])
    return take(ctx, x, pieces)


def _slice_at_run_time(
    ctx: Context, x: Value, starts: Value, ends: Value, axes: Value, steps: Value, where: Sequence[int]
) -> Value:
    """A slice of the axes `where`, with bounds that a kernel computes. A step of 0 gives an empty result."""
    operands = [ctx.cast(v, "int64") for v in (starts, ends, axes, steps)]

    def write(
        code: Code, starts: Array, ends: Array, axes: Array, steps: Array, firsts: Array, counts: Array, strides: Array
    ) -> None:
        for position, axis in enumerate(where):
            size = expr(x.shape[axis])
            firsts[position], counts[position], strides[position] = expr(0), size, expr(1)
            with code.loop("k", operands[0].shape[0]) as k, code.when(_is_axis(axes[k], axis, x.rank)):
                step = steps[k]
                ahead = step > 0
                low, high = tirx.Select(ahead, expr(0), expr(-1)), tirx.Select(ahead, size, size - 1)
                first = clamp(from_end(starts[k], size), low, high)
                last = clamp(from_end(ends[k], size), low, high)
                way = tirx.Select(ahead, last - first, first - last)
                each = tirx.max(tirx.Select(ahead, step, -step), 1)
                firsts[position], strides[position] = first, step
                counts[position] = tirx.Select(step == 0, expr(0), tirx.max(tirx.floordiv(way + each - 1, each), 0))

    shape = ((len(where),), "int64")
    firsts, counts, strides = ctx.kernel(
        "slice_bounds",
        lambda *tensors: imperative("slice_bounds", tensors, [shape] * 3, write),
        *operands,
        dtype=("int64",) * 3,
    )
    sizes = [x.shape[i] for i in where]
    bounds = (ctx.ints(firsts, 0, sizes, "first"), ctx.ints(counts, 0, sizes, "count"), ctx.ints(strides, hint="step"))
    pieces = [Piece(0, n) for n in x.shape]
    for axis, first, count, step in zip(where, *bounds, strict=True):
        pieces[axis] = Piece(first, count, step)
    return take(ctx, x, pieces)


def _is_axis(given: ir.Expr, axis: int, rank: int) -> ir.Expr:
    return tirx.any(given == axis, given == axis - rank)


def split(ctx: Context, x: Value, axis: int, sizes: Sequence[IntExpr]) -> tuple[Value, ...]:
    """Consecutive pieces of an axis. Their sizes must add up to the size of the axis."""
    total: IntExpr = 0
    parts = []
    for size in sizes:
        pieces = [Piece(total, size) if i == axis else Piece(0, n) for i, n in enumerate(x.shape)]
        parts.append(pieces)
        total = ctx.simplify(total + size)
    require_equal(ctx, f"the parts do not add up to axis {axis}", total, x.shape[axis])
    return tuple(take(ctx, x, pieces) for pieces in parts)


def split_evenly(ctx: Context, x: Value, axis: int, count: int, *, smaller_last: bool = False) -> tuple[Value, ...]:
    """`count` consecutive pieces of an axis, of equal size. With `smaller_last`, the last one may be smaller."""
    size = x.shape[axis]
    if smaller_last:
        return split(ctx, x, axis, even_parts(ctx, size, count))
    ctx.require(equal(floor_mod(size, count), 0), f"axis {axis} of size {{}} has no {count} equal parts", size)
    return split(ctx, x, axis, [ctx.simplify(floor_div(size, count))] * count)


def even_parts(ctx: Context, size: IntExpr, count: int) -> list[IntExpr]:
    """The sizes of `count` parts, equal except the last one, which may be smaller."""
    part = ctx.simplify(ceil_div(size, count))
    starts = [ctx.simplify(minimum(part * k, size)) for k in range(count + 1)]
    if ctx.proves(equal(floor_mod(size, count), 0)):
        return [ctx.simplify(floor_div(size, count))] * count
    return [ctx.simplify(after - before) for before, after in pairwise(starts)]


def reverse_sequence(ctx: Context, x: Value, lengths: Value, time: int, batch: int) -> Value:
    """`x`, with the first `lengths[i]` elements of the axis `time` in reverse order for each `i` of the axis
    `batch`. Raises `Unsupported` if that is the same axis."""
    if time == batch:
        raise Unsupported(f"axis {time} is both that of time and that of the batch")
    require_equal(ctx, "the lengths do not fit the batch", lengths.shape[0], x.shape[batch])
    lengths = checked(ctx, lengths, [(0, x.shape[time])], what="lengths")

    def build(t: te.Tensor, ends: te.Tensor) -> te.Tensor:
        def element(*index: ir.Expr) -> ir.Expr:
            i = index[time]
            end = clamp(tirx.Cast("int64", ends(index[batch])), 0, x.shape[time])
            source = select(i < end, end - 1 - i, i)
            return t(*index[:time], source, *index[time + 1 :])

        return compute(x.shape, element, name="reverse_sequence")

    return ctx.kernel("reverse_sequence", build, x, lengths, dtype=x.dtype)

"""Operators that write elements by index: `scatter_elements`, `scatter_nd`, `tensor_scatter`, `max_unpool`.

The result starts as a copy of the data (zeros for `max_unpool`). Then updates are applied in order; if several go to
one element, the last one wins, or all are combined. Negative indices count from the end. A run with an index out of
range is refused (`indices`). No kernel writes outside of a tensor; `max_unpool` leaves out elements that lie outside of
its result. (Source: ONNX operators ScatterElements, ScatterND, TensorScatter, MaxUnpool.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvm import ir, te, tirx

from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.dims.formulas import to_text
from deploykit.compiler.dtypes import storage_dtype
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.conversion import load, store
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.expressions import compute
from deploykit.compiler.operators.building.imperative import Array, Code, imperative, loops
from deploykit.compiler.operators.building.indices import LARGEST_INDEX, checked, checked_indices
from deploykit.compiler.operators.building.integers import expr, floor_mod, inside, less_equal, maximum
from deploykit.compiler.operators.building.sizes import require_equal, require_rank, require_source
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.filling import stored

SCATTER = "deploykit.scatter"
"""Annotation of a kernel whose result is its first operand, but for the elements of its third operand, which are at the
places that its second operand gives."""

Combine = Callable[[ir.Expr, ir.Expr], ir.Expr]
"""Combines the element that is there with a new one. Without it, the new element replaces the old one."""


def scatter_elements(
    ctx: Context, x: Value, indices: Value, updates: Value, axis: int, combine: Combine | None = None
) -> Value:
    """`x` with each `updates[i]` written, or combined, at `i` with `i[axis]` replaced by `indices[i]`."""
    require_rank(ctx, indices, x.rank)
    require_rank(ctx, updates, x.rank)
    for i, (n, m, k) in enumerate(zip(x.shape, indices.shape, updates.shape, strict=True)):
        require_equal(ctx, f"the indices and updates differ in axis {i}", m, k)
        if i != axis and not ctx.equal(m, n):
            ctx.require(less_equal(m, n), f"axis {i} has {{}} updates for {{}} elements", m, n)

    require_source(ctx, x.shape[axis], ctx.product(indices.shape))
    indices = checked_indices(ctx, indices, [x.shape[axis]])

    def place(where: Array, index: Sequence[ir.Expr]) -> list[ir.Expr]:
        return [*index[:axis], inside(expr(where(*index)), x.shape[axis]), *index[axis + 1 :]]

    return _scatter(ctx, x, indices, updates, combine, place)


def scatter_nd(ctx: Context, x: Value, indices: Value, updates: Value, combine: Combine | None = None) -> Value:
    """`x` with parts of `updates` written, or combined, at the index tuples in the last axis of `indices`. A tuple
    indexes the first axes of `x`."""
    depth, tuples = indices.shape[-1], indices.rank - 1
    if not isinstance(depth, int) or depth > x.rank or updates.rank != tuples + x.rank - depth:
        raise Unsupported(
            f"index tuples of length {to_text(depth)} and updates of rank {updates.rank} for rank {x.rank}"
        )
    for i, (m, n) in enumerate(zip(updates.shape, (*indices.shape[:-1], *x.shape[depth:]), strict=True)):
        require_equal(ctx, f"axis {i} of the updates does not fit", m, n)

    for size in x.shape[:depth]:
        require_source(ctx, size, ctx.product(indices.shape))
    indices = checked_indices(ctx, indices, x.shape[:depth])

    def place(where: Array, index: Sequence[ir.Expr]) -> list[ir.Expr]:
        at = [inside(expr(where(*index[:tuples], k)), x.shape[k]) for k in range(depth)]
        return [*at, *index[tuples:]]

    return _scatter(ctx, x, indices, updates, combine, place)


def _scatter(
    ctx: Context,
    x: Value,
    indices: Value,
    updates: Value,
    combine: Combine | None,
    place: Callable[[Array, Sequence[ir.Expr]], list[ir.Expr]],
) -> Value:
    """A copy of `x`, with element `i` of `updates` written at `place(indices, i)`."""

    def write(code: Code, data: Array, where: Array, new: Array, result: Array) -> None:
        with loops(code, x.shape) as index:
            result[tuple(index)] = data(*index)
        with loops(code, updates.shape) as index:
            target = place(where, index)
            if combine is None:
                result[tuple(target)] = new(*index)
            else:
                old, update = load(result, x.dtype, target), load(new, x.dtype, index)
                result[tuple(target)] = store(combine(old, update), x.dtype)

    def build(*tensors: te.Tensor) -> list[te.Tensor]:
        made = {} if combine is not None else {SCATTER: "1"}
        return imperative("scatter", tensors, [(x.shape, storage_dtype(x.dtype))], write, made)

    return ctx.kernel("scatter", build, x, indices, updates, dtype=x.dtype)


def tensor_scatter(
    ctx: Context, cache: Value, update: Value, starts: Value | None, axis: int, *, circular: bool = False
) -> Value:
    """`cache` with `update` written along `axis`. For each `n` of the first axis, it begins at `starts[n]` (default:
    0). If `circular`, the part beyond the end continues at the front.

    It is a gather: an element of the result comes from the update if its position is in the written range."""
    size, length = cache.shape[axis], update.shape[axis]
    for i, (m, n) in enumerate(zip(cache.shape, update.shape, strict=True)):
        if i != axis:
            require_equal(ctx, f"the cache and the update differ in axis {i}", m, n)
    if starts is not None:
        require_equal(ctx, "the write indices do not fit the batch", starts.shape[0], cache.shape[0])
    ctx.require(less_equal(length, size), "an update of {} rows for a cache of {}", length, size)
    if starts is not None:
        starts = checked(ctx, starts, [(0, LARGEST_INDEX if circular else size - length)], position=2)

    def build(old: te.Tensor, new: te.Tensor, *first: te.Tensor) -> te.Tensor:
        def element(*index: ir.Expr) -> ir.Expr:
            row = expr(index[axis])
            start = expr(first[0](index[0])) if first else expr(0)
            offset = floor_mod(row - start, maximum(size, 1)) if circular else row - start
            source = new(*index[:axis], offset, *index[axis + 1 :])
            return tirx.if_then_else(tirx.all(offset >= 0, offset < length), source, old(*index))

        return compute(cache.shape, element, name="tensor_scatter")

    operands = (cache, update) if starts is None else (cache, update, starts)
    return ctx.kernel("tensor_scatter", build, *operands, dtype=cache.dtype)


def max_unpool(
    ctx: Context,
    x: Value,
    indices: Value,
    window: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    shape: Sequence[IntExpr] | None = None,
) -> Value:
    """Zeros, except for the elements of `x` (N, C, spatial axes), each at the flat position that `pooling` reported for
    it. The pooling's window, strides and pads (all before, then all after) give the shape of the result. A given
    `shape` that is larger extends the result; positions are within the shape that the window gives."""
    inner = _unpooled_shape(ctx, x, window, strides, pads)
    shape = inner if shape is None else shape
    for m, n in zip(x.shape, indices.shape, strict=True):
        require_equal(ctx, "values and positions differ in shape", m, n)
    indices = checked(ctx, indices, [(0, ctx.product(inner) - 1)])
    if len(shape) != x.rank:
        raise Unsupported(f"an output shape of {len(shape)} sizes for a tensor of rank {x.rank}")

    def write(code: Code, values: Array, where: Array, result: Array) -> None:
        with loops(code, shape) as index:
            result[tuple(index)] = stored(0, x.dtype)
        with loops(code, x.shape) as index:
            rest = expr(where(*index))
            target: list[ir.Expr] = []
            for size in reversed(inner):
                target.insert(0, tirx.floormod(rest, expr(maximum(size, 1))))
                rest = tirx.floordiv(rest, expr(maximum(size, 1)))
            within = tirx.all(*(tirx.all(t >= 0, t < n) for t, n in zip(target, shape, strict=True)))
            with code.when(within):
                result[tuple(target)] = values(*index)

    def build(*tensors: te.Tensor) -> list[te.Tensor]:
        return imperative("max_unpool", tensors, [(shape, storage_dtype(x.dtype))], write)

    return ctx.kernel("max_unpool", build, x, indices, dtype=x.dtype)


def _unpooled_shape(
    ctx: Context, x: Value, window: Sequence[int], strides: Sequence[int], pads: Sequence[int]
) -> list[IntExpr]:
    """The shape that a pooling reduced to the shape of `x`."""
    if len(window) != x.rank - 2:
        raise Unsupported(f"a window of {len(window)} sizes for a tensor of rank {x.rank}")
    spatial = [
        ctx.simplify((n - 1) * stride + size - before - after)
        for n, size, stride, before, after in zip(
            x.shape[2:], window, strides, pads[: len(window)], pads[len(window) :], strict=True
        )
    ]
    return [*x.shape[:2], *spatial]

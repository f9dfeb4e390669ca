"""Operators that pick elements by index: `gather`, `gather_elements`, `gather_nd`, `features`; and `one_hot`.

Negative indices count from the end. A run with an index out of range is refused (`indices`), and no kernel reads
outside of a tensor. `one_hot` gives no hot element for an index out of range. (Source: ONNX operators Gather,
GatherElements, GatherND, ArrayFeatureExtractor, OneHot.)
"""

from __future__ import annotations

from tvm import ir, te, tirx

from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.dims.formulas import to_text
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.expressions import compute
from deploykit.compiler.operators.building.indices import checked, checked_indices
from deploykit.compiler.operators.building.integers import expr, inside, is_plain, less, negate
from deploykit.compiler.operators.building.sizes import require_equal, require_source
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.slicing import Piece, take


def gather(ctx: Context, x: Value, indices: Value, axis: int) -> Value:
    """numpy.take along an axis, counted from the front."""
    require_source(ctx, x.shape[axis], ctx.product(indices.shape))
    return pick(ctx, x, checked_indices(ctx, indices, [x.shape[axis]]), axis)


def pick(ctx: Context, x: Value, indices: Value, axis: int) -> Value:
    """`gather` with indices that the caller has checked. A single constant index gives a slice."""
    shape = [*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]]
    require_source(ctx, x.shape[axis], ctx.product(indices.shape))
    if indices.array is not None and indices.array.size == 1:
        index = ctx.simplify(inside(int(indices.array.reshape(-1)[0]), x.shape[axis]))
        pieces = [Piece(index, 1) if i == axis else Piece(0, n) for i, n in enumerate(x.shape)]
        return ctx.reshape(take(ctx, x, pieces), shape)

    from_front = _in_range(indices, x.shape[axis])

    def build(data: te.Tensor, where: te.Tensor) -> te.Tensor:
        def element(*index: ir.Expr) -> ir.Expr:
            i = expr(where(*index[axis : axis + indices.rank]))
            i = i if from_front else inside(i, x.shape[axis])
            return data(*index[:axis], i, *index[axis + indices.rank :])

        return compute(shape, element, name="gather")

    return ctx.kernel("gather", build, x, indices, dtype=x.dtype)


def _in_range(indices: Value, size: IntExpr) -> bool:
    """Whether the indices are constant and within the axis, so that they need no adjustment."""
    array = indices.array
    return array is not None and array.size > 0 and is_plain(size) and bool(array.min() >= 0 and array.max() < size)


def gather_elements(ctx: Context, x: Value, indices: Value, axis: int) -> Value:
    """numpy.take_along_axis. The result has the shape of `indices`; its element at `i` is the element of `x` at `i`
    with `i[axis]` replaced by `indices[i]`. Other axes of `indices` may be shorter than those of `x`."""
    if x.rank != indices.rank:
        raise Unsupported(f"data of rank {x.rank} and indices of rank {indices.rank}")
    for i, (m, n) in enumerate(zip(indices.shape, x.shape, strict=True)):
        if i != axis and not ctx.equal(m, n):
            ctx.require(negate(less(n, m)), f"axis {i} of the indices has {{}} elements, the data {{}}", m, n)

    require_source(ctx, x.shape[axis], ctx.product(indices.shape))
    indices = checked_indices(ctx, indices, [x.shape[axis]])

    def build(data: te.Tensor, where: te.Tensor) -> te.Tensor:
        def element(*index: ir.Expr) -> ir.Expr:
            return data(*index[:axis], inside(expr(where(*index)), x.shape[axis]), *index[axis + 1 :])

        return compute(indices.shape, element, name="gather_elements")

    return ctx.kernel("gather_elements", build, x, indices, dtype=x.dtype)


def gather_nd(ctx: Context, x: Value, indices: Value, batch: int = 0) -> Value:
    """The parts of `x` at the index tuples in the last axis of `indices`. A tuple indexes the axes of `x` after the
    first `batch` axes, which `x` and `indices` have in common."""
    depth = indices.shape[-1]
    if not isinstance(depth, int) or batch + depth > x.rank or not 0 <= batch < indices.rank:
        raise Unsupported(
            f"index tuples of length {to_text(depth)} after {batch} batch axes into a tensor of rank {x.rank}"
        )
    for i, (m, n) in enumerate(zip(indices.shape[:batch], x.shape, strict=False)):
        require_equal(ctx, f"indices and data differ in batch axis {i}", m, n)
    tuples = indices.rank - 1
    for size in x.shape[batch : batch + depth]:
        require_source(ctx, size, ctx.product(indices.shape))
    indices = checked_indices(ctx, indices, x.shape[batch : batch + depth])

    def build(data: te.Tensor, where: te.Tensor) -> te.Tensor:
        def element(*index: ir.Expr) -> ir.Expr:
            at = [inside(expr(where(*index[:tuples], k)), x.shape[batch + k]) for k in range(depth)]
            return data(*index[:batch], *at, *index[tuples:])

        return compute([*indices.shape[:-1], *x.shape[batch + depth :]], element, name="gather_nd")

    return ctx.kernel("gather_nd", build, x, indices, dtype=x.dtype)


def one_hot(ctx: Context, indices: Value, size: IntExpr, values: Value, axis: int) -> Value:
    """One-hot encoding: `indices` with a new axis of `size` at position `axis`. Elements are `values[1]` at the index,
    and `values[0]` elsewhere."""
    shape = [*indices.shape[:axis], size, *indices.shape[axis:]]
    require_equal(ctx, "the values must be two", values.shape[0], 2)
    hot = ctx.cast(indices, "int64")

    def build(where: te.Tensor, pair: te.Tensor) -> te.Tensor:
        def element(*index: ir.Expr) -> ir.Expr:
            i = where(*index[:axis], *index[axis + 1 :])
            on = tirx.any(index[axis] == i, index[axis] == i + size)
            return pair(tirx.Select(on, expr(1), expr(0)))

        return compute(shape, element, name="one_hot")

    return ctx.kernel("one_hot", build, hot, values, dtype=values.dtype)


def features(ctx: Context, x: Value, indices: Value) -> Value:
    """The elements of the last axis of `x` at all `indices`, which must not be negative. For a vector, the result is a
    row."""
    count = ctx.product(indices.shape)
    flat = ctx.reshape(indices, (count,))
    picked = pick(ctx, x, checked(ctx, flat, [(0, x.shape[-1] - 1)]), x.rank - 1)
    return ctx.reshape(picked, (1, count)) if x.rank == 1 else picked

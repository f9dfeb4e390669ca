"""Operators that pick elements by index: Gather, GatherElements, GatherND, OneHot, ArrayFeatureExtractor.

Negative indices count from the end. A run with an index out of range is refused (`indices`), and none is ever read from
outside of a tensor; OneHot gives no hot element for it.
"""

from __future__ import annotations

from tvm import ir, te

from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.expressions import compute
from deploykit.compiler.operators.integers import expr, inside, is_plain
from deploykit.compiler.operators.sizes import require_source
from deploykit.compiler.operators.slicing import Piece, take
from deploykit.compiler.operators.value import Value


def gather(ctx: Context, x: Value, indices: Value, axis: int) -> Value:
    """numpy.take along an axis; one constant index is a slice. Who calls this checks the indices."""
    shape = [*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]]
    require_source(ctx, x.shape[axis], ctx.product(indices.shape))
    if indices.array is not None and indices.array.size == 1:
        index = ctx.simplify(inside(int(indices.array.reshape(-1)[0]), x.shape[axis]))
        pieces = [Piece(index, 1) if i == axis else Piece(0, n) for i, n in enumerate(x.shape)]
        return ctx.reshape(take(ctx, x, pieces), shape)

    checked = _in_range(indices, x.shape[axis])

    def build(data: te.Tensor, where: te.Tensor) -> te.Tensor:
        def element(*index: ir.Expr) -> ir.Expr:
            i = expr(where(*index[axis : axis + indices.rank]))
            i = i if checked else inside(i, x.shape[axis])
            return data(*index[:axis], i, *index[axis + indices.rank :])

        return compute(shape, element, name="gather")

    return ctx.kernel("gather", build, x, indices, dtype=x.dtype)


def _in_range(indices: Value, size: IntExpr) -> bool:
    """Whether constant indices are known to need no adjustment."""
    array = indices.array
    return array is not None and array.size > 0 and is_plain(size) and bool(array.min() >= 0 and array.max() < size)

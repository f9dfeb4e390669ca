"""ONNX: Gather, GatherElements, GatherND, OneHot, ArrayFeatureExtractor (`compiler.operators.indexing`)."""

from __future__ import annotations

from tvm import ir, te, tirx

from deploykit.compiler.dims.text import to_text
from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.errors import Unsupported
from deploykit.compiler.operators.expressions import compute
from deploykit.compiler.operators.indexing import gather
from deploykit.compiler.operators.indices import checked, checked_indices
from deploykit.compiler.operators.integers import expr, inside, less, negate
from deploykit.compiler.operators.sizes import require_equal, require_source
from deploykit.compiler.operators.value import Value
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator


@operator("Gather")
def gather_operator(ctx: Context, node: Node, x: Value, indices: Value) -> Value:
    axis = node.axis(x.rank, 0)
    require_source(ctx, x.shape[axis], ctx.product(indices.shape))
    return gather(ctx, x, checked_indices(ctx, indices, [x.shape[axis]]), axis)


@operator("GatherElements")
def gather_elements(ctx: Context, node: Node, x: Value, indices: Value) -> Value:
    if x.rank != indices.rank:
        raise Unsupported(f"data of rank {x.rank} and indices of rank {indices.rank}")
    axis = node.axis(x.rank, 0)
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


@operator("GatherND")
def gather_nd(ctx: Context, node: Node, x: Value, indices: Value) -> Value:
    batch, depth = node.int("batch_dims", 0), indices.shape[-1]
    if not isinstance(depth, int) or batch + depth > x.rank or batch >= indices.rank:
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


@operator("OneHot")
def one_hot(ctx: Context, node: Node, indices: Value, depth: Value, values: Value) -> Value:
    (size,) = ctx.ints(ctx.cast(depth, "int64"), minimum=0, hint="depth")
    axis = node.axis(indices.rank + 1, -1)
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


@operator("ArrayFeatureExtractor", domain="ai.onnx.ml")
def array_feature_extractor(ctx: Context, node: Node, x: Value, indices: Value) -> Value:
    count = ctx.product(indices.shape)
    flat = ctx.reshape(indices, (count,))
    picked = gather(ctx, x, checked(ctx, flat, [(0, x.shape[-1] - 1)]), x.rank - 1)
    return ctx.reshape(picked, (1, count)) if x.rank == 1 else picked

"""Matrix products: MatMul, Gemm."""

from __future__ import annotations

from tvm import relax

from deploykit.frontends.onnx.broadcast import broadcast_shapes, elementwise
from deploykit.frontends.onnx.context import Context
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator
from deploykit.frontends.onnx.value import Value


def matmul(ctx: Context, a: Value, b: Value) -> Value:
    """numpy.matmul of two values of one dtype."""
    depth_a, depth_b = a.shape[-1], b.shape[-2] if b.rank > 1 else b.shape[0]
    ctx.require(depth_a == depth_b, "the matrices' inner sizes {} and {} differ", depth_a, depth_b)
    batch = broadcast_shapes(ctx, a.shape[:-2], b.shape[:-2])
    shape = (*batch, *a.shape[-2:-1], *(b.shape[-1:] if b.rank > 1 else ()))
    return ctx.bind(relax.op.matmul(ctx.tensor(a), ctx.tensor(b)), a.dtype, shape)


@operator("MatMul")
def matmul_operator(ctx: Context, node: Node, a: Value, b: Value) -> Value:
    return matmul(ctx, a, b)


@operator("Gemm")
def gemm(ctx: Context, node: Node, a: Value, b: Value, c: Value | None = None) -> Value:
    alpha, beta = node.float("alpha", 1.0), node.float("beta", 1.0)
    if node.int("transA", 0):
        a = transpose(ctx, a, [1, 0])
    if node.int("transB", 0):
        b = transpose(ctx, b, [1, 0])
    product = matmul(ctx, a, b)
    if alpha != 1.0:
        product = elementwise(ctx, "scale", lambda x: x * alpha, product)
    if c is None:
        return product
    return elementwise(ctx, "add", lambda x, y: x + y * beta if beta != 1.0 else x + y, product, c)


from deploykit.frontends.onnx.ops.layout import transpose  # noqa: E402

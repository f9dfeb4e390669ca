"""ONNX: MatMul, Gemm (`compiler.operators.matmul`)."""

from __future__ import annotations

from deploykit.compiler.operators.broadcast import broadcasts_to, elementwise
from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.dequantized import quantized_matmul
from deploykit.compiler.operators.errors import Unsupported
from deploykit.compiler.operators.layout import transpose
from deploykit.compiler.operators.matmul import combine, matmul, wide_matmul
from deploykit.compiler.operators.value import Value
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator


@operator("MatMul")
def matmul_operator(ctx: Context, node: Node, a: Value, b: Value) -> Value:
    exact = quantized_matmul(ctx, a, b)
    return matmul(ctx, a, b) if exact is None else exact


@operator("Gemm")
def gemm(ctx: Context, node: Node, a: Value, b: Value, c: Value | None = None) -> Value:
    if a.rank != 2 or b.rank != 2:
        raise Unsupported(f"operands of rank {a.rank} and {b.rank}; both must be matrices")
    alpha, beta = node.float("alpha", 1.0), node.float("beta", 1.0)
    dtype = a.dtype
    if node.int("transA", 0):
        a = transpose(ctx, a, [1, 0])
    if node.int("transB", 0):
        b = transpose(ctx, b, [1, 0])
    exact = quantized_matmul(ctx, a, b)
    product = wide_matmul(ctx, a, b) if exact is None else exact
    if c is not None and beta != 0.0:
        ctx.require(broadcasts_to(c.shape, product.shape), "the addend of Gemm does not broadcast to the product")
        return elementwise(ctx, "gemm", lambda x, y: combine(x, y, alpha, beta), product, c, dtype=dtype)
    if alpha != 1.0:
        return elementwise(ctx, "gemm", lambda x: combine(x, None, alpha, beta), product, dtype=dtype)
    return ctx.cast(product, dtype)

"""Imports the ONNX operators MatMul, Gemm (`compiler.operators.matmul`)."""

from __future__ import annotations

from deploykit.compiler.operators import matmul
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.value import Value
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator


@operator("MatMul")
def matmul_operator(ctx: Context, node: Node, a: Value, b: Value) -> Value:
    return matmul.matrix_product(ctx, a, b)


@operator("Gemm")
def gemm(ctx: Context, node: Node, a: Value, b: Value, c: Value | None = None) -> Value:
    return matmul.gemm(
        ctx,
        a,
        b,
        c,
        alpha=node.float("alpha", 1.0),
        beta=node.float("beta", 1.0),
        transpose_a=bool(node.int("transA", 0)),
        transpose_b=bool(node.int("transB", 0)),
    )

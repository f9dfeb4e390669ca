"""Imports the ONNX operator Einsum (`compiler.operators.einsum`)."""

from __future__ import annotations

from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.einsum import einsum
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator


@operator("Einsum")
def einsum_operator(ctx: Context, node: Node, *operands: Value) -> Value:
    return einsum(ctx, node.string("equation"), *operands)

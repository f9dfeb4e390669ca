"""Imports the ONNX operator Det (`compiler.operators.determinant`)."""

from __future__ import annotations

from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.determinant import determinant
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator


@operator("Det")
def det(ctx: Context, node: Node, x: Value) -> Value:
    return determinant(ctx, x)

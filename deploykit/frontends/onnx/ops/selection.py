"""Imports the ONNX operators NonZero, Compress (`compiler.operators.selection`)."""

from __future__ import annotations

from deploykit.compiler.operators import selection
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.value import Value
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator


@operator("NonZero")
def nonzero(ctx: Context, node: Node, x: Value) -> Value:
    return selection.nonzero(ctx, x)


@operator("Compress")
def compress(ctx: Context, node: Node, x: Value, condition: Value) -> Value:
    return selection.compress(ctx, x, condition, node.axis(x.rank) if node.has("axis") else None)

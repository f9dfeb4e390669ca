"""Imports the ONNX operator Dropout (`compiler.operators.dropout`).

Before opset 10 the mask has the dtype of the data."""

from __future__ import annotations

from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.dropout import dropout
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator


@operator("Dropout")
def dropout_operator(
    ctx: Context, node: Node, x: Value, ratio: Value | None = None, training: Value | None = None
) -> tuple[Value | None, ...]:
    dtype = "bool" if node.opset >= 10 else x.dtype
    return dropout(
        ctx,
        x,
        ratio,
        training,
        seed=node.int("seed") if node.has("seed") else None,
        mask=dtype if node.uses_output(1) else None,
    )

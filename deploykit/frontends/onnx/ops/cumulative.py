"""Imports the ONNX operators CumSum, CumProd (`compiler.operators.cumulative`)."""

from __future__ import annotations

from deploykit.compiler.operators import cumulative
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.value import Value
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator


@operator("CumSum")
def cumulative_sum(ctx: Context, node: Node, x: Value, axis: Value) -> Value:
    return cumulative.cumulative_sum(ctx, x, axis, exclusive=_flag(node, "exclusive"), reverse=_flag(node, "reverse"))


@operator("CumProd")
def cumulative_product(ctx: Context, node: Node, x: Value, axis: Value) -> Value:
    return cumulative.cumulative_product(
        ctx, x, axis, exclusive=_flag(node, "exclusive"), reverse=_flag(node, "reverse")
    )


def _flag(node: Node, name: str) -> bool:
    return bool(node.int(name, 0))

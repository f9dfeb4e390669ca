"""Imports the ONNX operators TopK, Unique (`compiler.operators.ranking`).

The `k` of TopK is an attribute up to opset 9."""

from __future__ import annotations

from deploykit.compiler.operators import ranking
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.sizes import only_integer
from deploykit.compiler.operators.building.value import Value
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator


@operator("TopK")
def top_k_attribute(ctx: Context, node: Node, x: Value) -> tuple[Value, ...]:
    return ranking.top_k(ctx, x, node.int("k"), node.axis(x.rank, -1), largest=node.int("largest", 1) != 0)


@operator("TopK", since=10)
def top_k_operand(ctx: Context, node: Node, x: Value, k: Value) -> tuple[Value, ...]:
    axis = node.axis(x.rank, -1)
    count = only_integer(ctx, k, minimum=0, maximum=x.shape[axis], hint="k")
    return ranking.top_k(ctx, x, count, axis, largest=node.int("largest", 1) != 0)


@operator("Unique")
def unique(ctx: Context, node: Node, x: Value) -> tuple[Value, ...]:
    axis = node.axis(x.rank) if node.has("axis") else None
    return ranking.unique(ctx, x, axis, in_order=node.int("sorted", 1) != 0)

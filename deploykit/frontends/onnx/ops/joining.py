"""Imports the ONNX operators Concat, Expand, Tile (`compiler.operators.joining`)."""

from __future__ import annotations

from deploykit.compiler.operators import joining
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.value import Value
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator


@operator("Concat")
def concat(ctx: Context, node: Node, *inputs: Value) -> Value:
    return joining.concat(ctx, inputs, node.axis(inputs[0].rank))


@operator("Expand")
def expand(ctx: Context, node: Node, x: Value, shape: Value) -> Value:
    return joining.expand(ctx, x, ctx.ints(shape, minimum=0))


@operator("Tile")
def tile(ctx: Context, node: Node, x: Value, repeats: Value) -> Value:
    return joining.tile(ctx, x, ctx.ints(repeats, minimum=0, hint="repeats"))

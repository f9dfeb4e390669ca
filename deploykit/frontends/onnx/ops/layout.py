"""Imports the ONNX operators Transpose, Reshape, Flatten, Shape, Size, Squeeze, Unsqueeze
(`compiler.operators.layout`), and Constant.

Dense constants are folded before; others reach the importer here and are refused. Axes are attributes up to opset 12.
"""

from __future__ import annotations

from deploykit.compiler.operators import layout
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.value import Value
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator


@operator("Transpose")
def transpose(ctx: Context, node: Node, x: Value) -> Value:
    return layout.transpose(ctx, x, node.axes(x.rank, reversed(range(x.rank)), "perm"))


@operator("Reshape")
def reshape_by_attribute(ctx: Context, node: Node, x: Value) -> Value:
    return layout.reshape(ctx, x, ctx.constant(node.ints("shape"), "int64"))


@operator("Reshape", since=5)
def reshape(ctx: Context, node: Node, x: Value, shape: Value) -> Value:
    return layout.reshape(ctx, x, shape, zero_copies=not node.int("allowzero", 0))


@operator("Flatten")
def flatten(ctx: Context, node: Node, x: Value) -> Value:
    return layout.flatten(ctx, x, node.int("axis", 1))


@operator("Shape")
def shape_of(ctx: Context, node: Node, x: Value) -> Value:
    return layout.shape_of(ctx, x, node.int("start", 0), node.int("end", x.rank))


@operator("Size")
def size_of(ctx: Context, node: Node, x: Value) -> Value:
    return layout.size_of(ctx, x)


@operator("Constant")
def constant(ctx: Context, node: Node) -> Value:
    raise Unsupported("a constant that is not a dense tensor of numbers")


@operator("Squeeze")
def squeeze(ctx: Context, node: Node, x: Value, axes: Value | None = None) -> Value:
    where = node.ints("axes") if axes is None and node.has("axes") else axes
    declared = node.outputs[0].shape
    return layout.squeeze(ctx, x, where, declared_rank=None if declared is None else len(declared))


@operator("Unsqueeze")
def unsqueeze(ctx: Context, node: Node, x: Value, axes: Value | None = None) -> Value:
    return layout.unsqueeze(ctx, x, node.ints("axes") if axes is None else axes)

"""Imports the ONNX operators Pad, CenterCropPad (`compiler.operators.padding`)."""

from __future__ import annotations

from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.padding import center_crop_pad, pad
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator


@operator("Pad")
def pad_by_attributes(ctx: Context, node: Node, x: Value) -> Value:
    pads = node.ints("paddings" if node.opset == 1 else "pads")
    amounts, value = ctx.constant(pads, "int64"), ctx.constant(node.float("value", 0.0), x.dtype)
    return pad(ctx, x, amounts, mode=node.string("mode", "constant"), value=value)


@operator("Pad", since=11)
def pad_by_operands(
    ctx: Context, node: Node, x: Value, pads: Value, value: Value | None = None, axes: Value | None = None
) -> Value:
    return pad(ctx, x, pads, axes, mode=node.string("mode", "constant"), value=value)


@operator("CenterCropPad")
def center_crop_pad_operator(ctx: Context, node: Node, x: Value, sizes: Value) -> Value:
    return center_crop_pad(ctx, x, sizes, node.axes(x.rank))

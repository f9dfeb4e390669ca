"""Imports the ONNX operator Col2Im (`compiler.operators.images.columns`)."""

from __future__ import annotations

from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.images.columns import col2im
from deploykit.frontends.onnx.attributes import axis_attribute
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator


@operator("Col2Im")
def col2im_operator(ctx: Context, node: Node, x: Value, image_shape: Value, block_shape: Value) -> Value:
    rank = ctx.length(image_shape)
    return col2im(
        ctx,
        x,
        image_shape,
        block_shape,
        strides=axis_attribute(node, "strides", rank, 1),
        dilations=axis_attribute(node, "dilations", rank, 1),
        pads=axis_attribute(node, "pads", 2 * rank, 0),
    )

"""ONNX: Conv (`compiler.operators.conv`)."""

from __future__ import annotations

from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.conv import add_bias, conv
from deploykit.compiler.operators.dequantized import quantized_conv
from deploykit.compiler.operators.value import Value
from deploykit.frontends.onnx.attributes import windows
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator


@operator("Conv")
def conv_operator(ctx: Context, node: Node, x: Value, w: Value, bias: Value | None = None) -> Value:
    shape = windows(ctx, node, x.shape[2:], w.shape[2:])
    exact = quantized_conv(ctx, x, w, bias, shape, node.int("group", 1))
    if exact is not None:
        return exact
    y = conv(
        ctx,
        x,
        w,
        strides=shape.strides,
        pads=(*shape.before, *shape.after),
        dilations=shape.dilations,
        group=node.int("group", 1),
        counts=shape.counts,
    )
    return add_bias(ctx, y, bias, x.dtype)

"""Imports the ONNX operator DeformConv (`compiler.operators.images.deform_conv`)."""

from __future__ import annotations

from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.images.deform_conv import deform_conv
from deploykit.frontends.onnx.attributes import windows
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator


@operator("DeformConv")
def deform_conv_operator(
    ctx: Context,
    node: Node,
    x: Value,
    w: Value,
    offset: Value,
    bias: Value | None = None,
    mask: Value | None = None,
) -> Value:
    return deform_conv(
        ctx,
        x,
        w,
        offset,
        bias,
        mask,
        windows=windows(ctx, node, x.shape[2:], w.shape[2:]),
        group=node.int("group", 1),
        offset_groups=node.int("offset_group", 1),
    )

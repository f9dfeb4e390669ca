"""Imports the ONNX operator Conv (`compiler.operators.conv`)."""

from __future__ import annotations

from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.conv import convolution
from deploykit.frontends.onnx.attributes import windows
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator


@operator("Conv")
def conv(ctx: Context, node: Node, x: Value, w: Value, bias: Value | None = None) -> Value:
    shape = windows(ctx, node, x.shape[2:], w.shape[2:])
    return convolution(ctx, x, w, bias, shape, group=node.int("group", 1))

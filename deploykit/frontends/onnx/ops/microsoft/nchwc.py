"""Imports Conv, MaxPool, AveragePool, GlobalMaxPool, GlobalAveragePool, Upsample, ReorderInput, ReorderOutput of
`com.microsoft.nchwc`, whose tensors have their channels in blocks (`frontends.onnx.blocked`).

Here channels are in their usual order; only their number stays rounded up. Weights are brought back into it.
"""

from __future__ import annotations

import numpy as np

from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.value import Value
from deploykit.frontends.onnx.blocked import BLOCK, NCHWC
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.ops.microsoft.activations import activated
from deploykit.frontends.onnx.ops.microsoft.products import window
from deploykit.frontends.onnx.registry import operator
from deploykit.frontends.onnx.standard import Standard


@operator("Conv", domain=NCHWC)
def conv(ctx: Context, node: Node, x: Value, w: Value, bias: Value | None = None, addend: Value | None = None) -> Value:
    if w.array is None:
        raise Unsupported("weights that are not constant")
    onnx = Standard(ctx, node)
    y = onnx("Conv", x, ctx.constant(_in_order(w.array, node.int(BLOCK))), bias, **window(node))
    y = y if addend is None else onnx("Add", y, addend)
    return activated(onnx, y, node.string("activation", ""), node.floats("activation_params", []))


def _in_order(w: np.ndarray, block: int) -> np.ndarray:
    """Filters (O, I, ...) whose elements were stored in blocks of output channels and, if there are enough of them, of
    input channels."""
    outputs, inputs, *kernel = w.shape
    if inputs % block:
        return np.moveaxis(w.reshape(outputs // block, inputs, *kernel, block), -1, 1).reshape(w.shape)
    blocks = w.reshape(outputs // block, inputs // block, *kernel, block, block)
    return np.moveaxis(blocks, (-1, -2), (1, 3)).reshape(w.shape)


@operator("MaxPool", "AveragePool", domain=NCHWC)
def pool(ctx: Context, node: Node, x: Value) -> Value:
    return Standard(ctx, node)(node.op_type, x, **window(node))


@operator("GlobalMaxPool", "GlobalAveragePool", domain=NCHWC)
def global_pool(ctx: Context, node: Node, x: Value) -> Value:
    return Standard(ctx, node)(node.op_type, x)


@operator("Upsample", domain=NCHWC)
def upsample(ctx: Context, node: Node, x: Value) -> Value:
    onnx = Standard(ctx, node)
    scales = ctx.constant(np.array(node.ints("scales", [1] * x.rank), np.float32))
    mode = node.choice("mode", ("nearest", "linear"), "nearest")
    how = node.string("coordinate_transformation_mode", "asymmetric")
    nearest = {"nearest_mode": "floor"} if mode == "nearest" else {}
    return onnx("Resize", x, None, scales, mode=mode, coordinate_transformation_mode=how, **nearest)


@operator("ReorderInput", domain=NCHWC)
def reorder_input(ctx: Context, node: Node, x: Value) -> Value:
    """ReorderInput: channels of zeros come after the others, up to a multiple of the block."""
    onnx, block = Standard(ctx, node), node.int(BLOCK)
    if node.int("channels_last", 0):
        x = onnx("Transpose", x, perm=[0, x.rank - 1, *range(1, x.rank - 1)])
    if not isinstance(x.shape[1], int):
        raise Unsupported("a number of channels that depends on the run")
    missing = -x.shape[1] % block
    if not missing:
        return x
    pads = [0] * x.rank * 2
    pads[x.rank + 1] = missing
    return onnx("Pad", x, onnx.ints(*pads))


@operator("ReorderOutput", domain=NCHWC)
def reorder_output(ctx: Context, node: Node, x: Value) -> Value:
    """ReorderOutput: the first channels."""
    onnx = Standard(ctx, node)
    y = onnx("Slice", x, onnx.ints(0), onnx.ints(node.int("channels")), onnx.ints(1))
    return onnx("Transpose", y, perm=[0, *range(2, x.rank), 1]) if node.int("channels_last", 0) else y

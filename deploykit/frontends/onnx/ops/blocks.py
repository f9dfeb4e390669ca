"""DepthToSpace and SpaceToDepth: a reshape, a transpose, a reshape.

`DCR` orders the depth as (row in block, column in block, channel), `CRD` as (channel, row, column).
"""

from __future__ import annotations

from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.errors import Unsupported
from deploykit.compiler.operators.integers import equal, floor_div, floor_mod
from deploykit.compiler.operators.layout import transpose
from deploykit.compiler.operators.value import Value
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator


def _mode(node: Node, x: Value) -> str:
    if x.rank != 4:
        raise Unsupported(f"a tensor of rank {x.rank}")
    return node.choice("mode", ("DCR", "CRD"), "DCR")


@operator("DepthToSpace")
def depth_to_space(ctx: Context, node: Node, x: Value) -> Value:
    mode, block = _mode(node, x), node.int("blocksize")
    batch, depth, height, width = x.shape
    ctx.require(equal(floor_mod(depth, block * block), 0), f"{{}} channels are no multiple of {block * block}", depth)
    channels = ctx.simplify(floor_div(depth, block * block))
    if mode == "DCR":
        apart = ctx.reshape(x, (batch, block, block, channels, height, width))
        moved = transpose(ctx, apart, [0, 3, 4, 1, 5, 2])
    else:
        apart = ctx.reshape(x, (batch, channels, block, block, height, width))
        moved = transpose(ctx, apart, [0, 1, 4, 2, 5, 3])
    return ctx.reshape(moved, (batch, channels, height * block, width * block))


@operator("SpaceToDepth")
def space_to_depth(ctx: Context, node: Node, x: Value) -> Value:
    mode, block = _mode(node, x), node.int("blocksize")
    batch, channels, height, width = x.shape
    for size in (height, width):
        ctx.require(equal(floor_mod(size, block), 0), f"an extent of {{}} is no multiple of {block}", size)
    rows, columns = ctx.simplify(floor_div(height, block)), ctx.simplify(floor_div(width, block))
    apart = ctx.reshape(x, (batch, channels, rows, block, columns, block))
    moved = transpose(ctx, apart, [0, 3, 5, 1, 2, 4] if mode == "DCR" else [0, 1, 3, 5, 2, 4])
    return ctx.reshape(moved, (batch, channels * block * block, rows, columns))

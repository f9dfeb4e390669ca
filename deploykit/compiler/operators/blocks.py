"""DepthToSpace and SpaceToDepth: each is a reshape, a transpose and a reshape.

`DCR` orders the depth as (row in block, column in block, channel), `CRD` as (channel, row, column).
(Source: ONNX operators DepthToSpace, SpaceToDepth.)
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.integers import equal, floor_div, floor_mod
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.layout import transpose

Order: TypeAlias = Literal["DCR", "CRD"]


def depth_to_space(ctx: Context, x: Value, block: int, order: Order) -> Value:
    """(N, depth, height, width) as (N, depth / block**2, height * block, width * block)."""
    _check_rank(x)
    batch, depth, height, width = x.shape
    ctx.require(equal(floor_mod(depth, block * block), 0), f"{{}} channels are no multiple of {block * block}", depth)
    channels = ctx.simplify(floor_div(depth, block * block))
    if order == "DCR":
        apart = ctx.reshape(x, (batch, block, block, channels, height, width))
        moved = transpose(ctx, apart, [0, 3, 4, 1, 5, 2])
    else:
        apart = ctx.reshape(x, (batch, channels, block, block, height, width))
        moved = transpose(ctx, apart, [0, 1, 4, 2, 5, 3])
    return ctx.reshape(moved, (batch, channels, height * block, width * block))


def space_to_depth(ctx: Context, x: Value, block: int, order: Order) -> Value:
    """(N, channels, height, width) as (N, channels * block**2, height / block, width / block)."""
    _check_rank(x)
    batch, channels, height, width = x.shape
    for size in (height, width):
        ctx.require(equal(floor_mod(size, block), 0), f"an extent of {{}} is no multiple of {block}", size)
    rows, columns = ctx.simplify(floor_div(height, block)), ctx.simplify(floor_div(width, block))
    apart = ctx.reshape(x, (batch, channels, rows, block, columns, block))
    moved = transpose(ctx, apart, [0, 3, 5, 1, 2, 4] if order == "DCR" else [0, 1, 3, 5, 2, 4])
    return ctx.reshape(moved, (batch, channels * block * block, rows, columns))


def _check_rank(x: Value) -> None:
    if x.rank != 4:
        raise Unsupported(f"a tensor of rank {x.rank}")

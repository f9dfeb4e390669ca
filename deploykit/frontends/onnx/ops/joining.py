"""Imports the ONNX operators Concat, Expand, Tile (`compiler.operators.joining`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deploykit.compiler.operators import joining
from deploykit.compiler.operators.building.axes import from_front
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.sizes import only_integer
from deploykit.compiler.operators.building.value import Value
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator

if TYPE_CHECKING:
    from deploykit.compiler.dims.expressions import IntExpr


@operator("Concat")
def concat(ctx: Context, node: Node, *inputs: Value) -> Value:
    """Concat. Before opset 4, axis 1 is the default."""
    return joining.concat(ctx, inputs, node.axis(inputs[0].rank, 1 if node.opset < 4 else None))


@operator("Expand")
def expand(ctx: Context, node: Node, x: Value, shape: Value) -> Value:
    return joining.expand(ctx, x, ctx.ints(shape, minimum=0))


@operator("Tile")
def tile_along_axis(ctx: Context, node: Node, x: Value, tiles: Value, axis: Value) -> Value:
    """Tile of opset 1: both operands are scalars of the dtype of the data."""
    if axis.array is None:
        raise Unsupported("an axis that is not constant")
    counts: list[IntExpr] = [1] * x.rank
    counts[from_front(int(axis.array.reshape(-1)[0]), x.rank, "axis")] = only_integer(
        ctx, ctx.cast(tiles, "int64"), minimum=0, hint="repeats"
    )
    return joining.tile(ctx, x, counts)


@operator("Tile", since=6)
def tile(ctx: Context, node: Node, x: Value, repeats: Value) -> Value:
    return joining.tile(ctx, x, ctx.ints(repeats, minimum=0, hint="repeats"))

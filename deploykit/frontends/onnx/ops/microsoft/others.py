"""Imports Trilu, GatherND, GridSample, ExpandDims, Range, Pad, CDist, Unique of `com.microsoft`, most of which were
there before the standard had them."""

from __future__ import annotations

from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.value import Value
from deploykit.frontends.onnx.attributes import MICROSOFT
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator
from deploykit.frontends.onnx.standard import Standard


@operator("Trilu", domain=MICROSOFT)
def trilu(ctx: Context, node: Node, x: Value, diagonal: Value | None = None) -> Value:
    return Standard(ctx, node)("Trilu", x, diagonal, upper=node.int("upper", 1))


@operator("GatherND", domain=MICROSOFT)
def gather_nd(ctx: Context, node: Node, x: Value, indices: Value) -> Value:
    return Standard(ctx, node)("GatherND", x, ctx.cast(indices, "int64"))


@operator("GridSample", domain=MICROSOFT)
def grid_sample(ctx: Context, node: Node, x: Value, grid: Value) -> Value:
    modes = {"bilinear": "linear", "nearest": "nearest", "bicubic": "cubic"}
    return Standard(ctx, node)(
        "GridSample",
        *(x, grid),
        align_corners=node.int("align_corners", 0),
        padding_mode=node.string("padding_mode", "zeros"),
        mode=modes[node.choice("mode", modes, "bilinear")],
    )


@operator("ExpandDims", domain=MICROSOFT)
def expand_dims(ctx: Context, node: Node, x: Value, axis: Value) -> Value:
    return Standard(ctx, node)("Unsqueeze", x, ctx.reshape(ctx.cast(axis, "int64"), (1,)))


@operator("Range", domain=MICROSOFT)
def arange(ctx: Context, node: Node, start: Value, limit: Value, delta: Value | None = None) -> Value:
    onnx = Standard(ctx, node)
    step = onnx.like(1, start) if delta is None else ctx.reshape(delta, ())
    return onnx("Range", ctx.reshape(start, ()), ctx.reshape(limit, ()), step)


@operator("Pad", domain=MICROSOFT)
def pad(ctx: Context, node: Node, x: Value, pads: Value, fill: Value | None = None) -> Value:
    scalar = None if fill is None else ctx.reshape(fill, ())
    flat = ctx.reshape(pads, (ctx.product(pads.shape),))
    return Standard(ctx, node)("Pad", x, flat, scalar, mode=node.string("mode", "constant"))


@operator("CDist", domain=MICROSOFT)
def distances(ctx: Context, node: Node, a: Value, b: Value) -> Value:
    """CDist: the distance of each row of one matrix from each row of another."""
    metric = node.string("metric", "sqeuclidean")
    if metric not in ("euclidean", "sqeuclidean"):
        raise Unsupported(f"the metric '{metric}'")
    onnx = Standard(ctx, node)
    difference = onnx("Sub", onnx("Unsqueeze", a, onnx.ints(1)), onnx("Unsqueeze", b, onnx.ints(0)))
    square = onnx("ReduceSumSquare", difference, onnx.ints(2), keepdims=0)
    return onnx("Sqrt", square) if metric == "euclidean" else square


@operator("Unique", domain=MICROSOFT)
def unique(ctx: Context, node: Node, x: Value) -> tuple[Value, ...]:
    """Unique: the values in the order in which they come, where each element of `x` is among them, and their counts."""
    values, _, places, counts = Standard(ctx, node).several(4, "Unique", x, sorted=0)
    return values, places, counts

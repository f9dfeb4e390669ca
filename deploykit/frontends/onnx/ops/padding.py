"""ONNX: Pad, CenterCropPad (`compiler.operators.padding`)."""

from __future__ import annotations

from collections.abc import Sequence

from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.errors import Unsupported
from deploykit.compiler.operators.padding import by_axis, half, pad, pad_to
from deploykit.compiler.operators.value import Value
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator


@operator("Pad")
def pad_attributes(ctx: Context, node: Node, x: Value) -> Value:
    return _pad(ctx, node, x, node.ints("pads"), range(x.rank), ctx.constant(node.float("value", 0.0), x.dtype))


@operator("Pad", since=11)
def pad_operands(
    ctx: Context, node: Node, x: Value, pads: Value, value: Value | None = None, axes: Value | None = None
) -> Value:
    if axes is not None and not axes.is_known:
        return _pad(ctx, node, x, ctx.ints(by_axis(ctx, x.rank, pads, axes), hint="pad"), range(x.rank), value)
    where = [int(n) for n in ctx.ints(axes, -x.rank, x.rank - 1, "axis")] if axes is not None else range(x.rank)
    return _pad(ctx, node, x, ctx.ints(pads, hint="pad"), where, value)


def _pad(
    ctx: Context, node: Node, x: Value, amounts: Sequence[IntExpr], axes: Sequence[int], value: Value | None
) -> Value:
    if len(amounts) != 2 * len(axes):
        raise Unsupported(f"{len(amounts)} amounts for {len(axes)} axes")
    before: list[IntExpr] = [0] * x.rank
    after: list[IntExpr] = [0] * x.rank
    for axis, front, back in zip(axes, amounts, amounts[len(axes) :], strict=False):
        before[axis], after[axis] = front, back
    return pad(ctx, x, before, after, node.string("mode", "constant"), value)


@operator("CenterCropPad")
def center_crop_pad(ctx: Context, node: Node, x: Value, sizes: Value) -> Value:
    axes = node.axes(x.rank)
    shape = list(x.shape)
    before: list[IntExpr] = [0] * x.rank
    for axis, size in zip(axes, ctx.ints(sizes, minimum=0, hint="size"), strict=True):
        shape[axis] = size
        before[axis] = half(ctx, size - x.shape[axis])
    return pad_to(ctx, x, shape, before, "constant")

"""Imports the ONNX operators Slice, Split, ReverseSequence (`compiler.operators.slicing`).

The bounds of Slice are attributes up to opset 9. Split gets the sizes of its parts, or their number. Before opset 18
that is the number of outputs, and it must divide the axis.
"""

from __future__ import annotations

from deploykit.compiler.operators import slicing
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.value import Value
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator


@operator("Slice")
def slice_attributes(ctx: Context, node: Node, x: Value) -> Value:
    names = ("starts", "ends", *(["axes"] if node.has("axes") else []))
    return slicing.strided_slice(ctx, x, *(ctx.constant(node.ints(name), "int64") for name in names))


@operator("Slice", since=10)
def slice_operands(
    ctx: Context,
    node: Node,
    x: Value,
    starts: Value,
    ends: Value,
    axes: Value | None = None,
    steps: Value | None = None,
) -> Value:
    return slicing.strided_slice(ctx, x, starts, ends, axes, steps)


@operator("Split")
def split(ctx: Context, node: Node, x: Value, sizes: Value | None = None) -> tuple[Value, ...]:
    """Split. In opset 1, sizes that are an operand have the dtype of the data."""
    axis = node.axis(x.rank, 0)
    if sizes is not None:
        sizes = ctx.cast(sizes, "int64") if node.opset == 1 else sizes
        return slicing.split(ctx, x, axis, ctx.ints(sizes, minimum=0, maximum=x.shape[axis], hint="part"))
    if node.has("split"):
        return slicing.split(ctx, x, axis, node.ints("split"))
    count = node.int("num_outputs", len(node.outputs))
    return slicing.split_evenly(ctx, x, axis, count, smaller_last=node.has("num_outputs"))


@operator("ReverseSequence")
def reverse_sequence(ctx: Context, node: Node, x: Value, lengths: Value) -> Value:
    time, batch = node.axis(x.rank, 0, "time_axis"), node.axis(x.rank, 1, "batch_axis")
    return slicing.reverse_sequence(ctx, x, lengths, time, batch)

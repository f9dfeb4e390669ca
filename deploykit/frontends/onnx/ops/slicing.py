"""ONNX: Slice, Split, ReverseSequence (`compiler.operators.slicing`)."""

from __future__ import annotations

from tvm import ir, te, tirx

from deploykit.compiler.operators.axes import from_front
from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.expressions import compute
from deploykit.compiler.operators.indices import checked
from deploykit.compiler.operators.integers import (
    clamp,
    equal,
    floor_div,
    floor_mod,
    select,
)
from deploykit.compiler.operators.sizes import require_equal
from deploykit.compiler.operators.slicing import even_parts, slice_at_run_time, slice_of, split
from deploykit.compiler.operators.value import Value
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator


@operator("Slice")
def slice_attributes(ctx: Context, node: Node, x: Value) -> Value:
    starts, ends = node.ints("starts"), node.ints("ends")
    axes = node.ints("axes", list(range(len(starts))))
    return slice_of(ctx, x, starts, ends, axes, [1] * len(starts))


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
    count = ctx.length(starts)
    axes = axes or ctx.constant(range(count), "int64")
    steps = steps or ctx.constant([1] * count, "int64")
    for operand in (ends, axes, steps):
        require_equal(ctx, "starts, ends, axes and steps differ in number", operand.shape[0], count)
    if not axes.is_known:
        return slice_at_run_time(ctx, x, starts, ends, axes, steps, list(range(x.rank)))
    where = [from_front(int(a), x.rank) for a in ctx.ints(axes)]
    if not (starts.is_known and ends.is_known and steps.is_constant):
        return slice_at_run_time(ctx, x, starts, ends, axes, steps, where)
    return slice_of(ctx, x, ctx.ints(starts), ctx.ints(ends), where, [int(n) for n in ctx.ints(steps)])


@operator("Split")
def split_operator(ctx: Context, node: Node, x: Value, sizes: Value | None = None) -> tuple[Value, ...]:
    axis = node.axis(x.rank, 0)
    if sizes is not None:
        return split(ctx, x, axis, ctx.ints(sizes, minimum=0, maximum=x.shape[axis], hint="part"))
    if node.has("split"):
        return split(ctx, x, axis, node.ints("split"))
    count = node.int("num_outputs", len(node.outputs))
    if not node.has("num_outputs"):
        size = x.shape[axis]
        ctx.require(equal(floor_mod(size, count), 0), f"axis {axis} of size {{}} has no {count} equal parts", size)
        return split(ctx, x, axis, [ctx.simplify(floor_div(size, count))] * count)
    return split(ctx, x, axis, even_parts(ctx, x.shape[axis], count))


@operator("ReverseSequence")
def reverse_sequence(ctx: Context, node: Node, x: Value, lengths: Value) -> Value:
    time, batch = node.axis(x.rank, 0, "time_axis"), node.axis(x.rank, 1, "batch_axis")
    require_equal(ctx, "the lengths do not fit the batch", lengths.shape[0], x.shape[batch])
    lengths = checked(ctx, lengths, [(0, x.shape[time])], what="lengths")

    def build(t: te.Tensor, ends: te.Tensor) -> te.Tensor:
        def element(*index: ir.Expr) -> ir.Expr:
            i = index[time]
            end = clamp(tirx.Cast("int64", ends(index[batch])), 0, x.shape[time])
            source = select(i < end, end - 1 - i, i)
            return t(*index[:time], source, *index[time + 1 :])

        return compute(x.shape, element, name="reverse_sequence")

    return ctx.kernel("reverse_sequence", build, x, lengths, dtype=x.dtype)

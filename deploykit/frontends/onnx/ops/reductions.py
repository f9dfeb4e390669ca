"""ONNX: ReduceLogSumExp, ArgMax, ArgMin (`compiler.operators.reductions`)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from functools import reduce as fold

from tvm import tirx

from deploykit.compiler.operators.broadcast import compute_dtype, elementwise
from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.elementwise import absolute
from deploykit.compiler.operators.integers import is_plain, maximum
from deploykit.compiler.operators.reduce_axes import (
    MAXIMUM,
    MINIMUM,
    PRODUCT,
    SUM,
    count_of,
    reduce_axes,
)
from deploykit.compiler.operators.reductions import (
    Operand,
    Reduction,
    extreme_positions,
    finished,
    finite,
    mean,
    number,
    real,
    sizes_of,
)
from deploykit.compiler.operators.value import Value
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.ops.layout import axes_operand
from deploykit.frontends.onnx.registry import operator

_REDUCTIONS: Mapping[str, Reduction] = {
    "ReduceSum": Reduction(SUM),
    "ReduceMean": Reduction(SUM, finish=mean),
    "ReduceMax": Reduction(MAXIMUM, number),
    "ReduceMin": Reduction(MINIMUM, number),
    "ReduceProd": Reduction(PRODUCT),
    "ReduceL1": Reduction(SUM, absolute),
    "ReduceL2": Reduction(SUM, lambda v: real(v) * real(v), lambda total, _: tirx.sqrt(total)),
    "ReduceLogSum": Reduction(SUM, real, lambda total, _: tirx.log(total)),
    "ReduceSumSquare": Reduction(SUM, lambda v: v * v),
}


@operator(*_REDUCTIONS)
def reduce(ctx: Context, node: Node, x: Value, axes: Value | None = None) -> Value:
    reduction = _REDUCTIONS[node.op_type]
    operand = _operand(ctx, node, x, axes)
    count = count_of(ctx, operand.x.shape, operand.axes)
    value = reduce_axes(
        ctx,
        node.op_type.lower(),
        [operand.x],
        operand.axes,
        reduction.reducer,
        prepare=reduction.prepare,
        finish=partial(finished, reduction, count),
        keepdims=len(operand.shape) == operand.x.rank,
    )
    return ctx.reshape(value, operand.shape)


@operator("ReduceLogSumExp")
def reduce_log_sum_exp(ctx: Context, node: Node, x: Value, axes: Value | None = None) -> Value:
    """The greatest element is taken out of the sum, so that no exponential overflows."""
    operand = _operand(ctx, node, x, axes)
    x, where = operand.x, operand.axes
    wide = compute_dtype(x.dtype) if x.dtype.startswith(("float", "bfloat")) else "float64"
    greatest = reduce_axes(ctx, "greatest", [x], where, MAXIMUM, prepare=real, finish=finite, dtype=wide)
    total = reduce_axes(
        ctx, "sumexp", [x, greatest], where, SUM, prepare=lambda v, m: tirx.exp(real(v) - m), dtype=wide
    )
    value = elementwise(ctx, "logsumexp", lambda s, m: tirx.log(s) + m, total, greatest, dtype=x.dtype)
    return ctx.reshape(value, operand.shape)


def _operand(ctx: Context, node: Node, x: Value, operand: Value | None) -> Operand:
    """The axes of a reduction. For axes that only a run knows, every axis of `x` is seen as two, one of which is
    reduced: the other one or this has size 1."""
    keepdims = node.int("keepdims", 1)
    count = ctx.length(operand) if operand is not None else len(node.ints("axes", []))
    if count > 0 and operand is not None and not operand.is_known:
        rank = 0 if keepdims else x.rank - count
        most = fold(maximum, x.shape, 1)
        sizes = ctx.ints(sizes_of(ctx, x, operand, rank), minimum=0, maximum=most, hint="size")
        pairs = ctx.reshape(x, sizes[: 2 * x.rank])
        return Operand(pairs, range(1, 2 * x.rank, 2), sizes[0 : 2 * x.rank : 2] if keepdims else sizes[2 * x.rank :])
    everything = range(0 if node.int("noop_with_empty_axes", 0) else x.rank)
    given = axes_operand(ctx, node, operand, x.rank) if count > 0 else None
    axes = everything if given is None else [int(axis) for axis in given if is_plain(axis)]
    return Operand(x, axes, [1 if i in axes else n for i, n in enumerate(x.shape) if keepdims or i not in axes])


@operator("ArgMax", "ArgMin")
def arg_extreme(ctx: Context, node: Node, x: Value) -> Value:
    axis = node.axis(x.rank, 0)
    positions = extreme_positions(
        ctx, x, axis, largest=node.op_type == "ArgMax", last=node.int("select_last_index", 0) == 1
    )
    if node.int("keepdims", 1):
        return positions
    return ctx.reshape(positions, [n for i, n in enumerate(positions.shape) if i != axis])

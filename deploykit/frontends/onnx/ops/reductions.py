"""Imports the ONNX operators ReduceSum, ReduceMean, ReduceMax, ReduceMin, ReduceProd, ReduceL1, ReduceL2, ReduceLogSum,
ReduceLogSumExp, ReduceSumSquare, ArgMax, ArgMin (`compiler.operators.reductions`).

Axes are an attribute, or an operand from opset 18 on (ReduceSum: 13). Without axes all are reduced, or none with
`noop_with_empty_axes`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from deploykit.compiler.operators import reductions
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.value import Value
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator

_REDUCTIONS: Mapping[str, reductions.Reduction] = {
    "ReduceSum": reductions.REDUCE_SUM,
    "ReduceMean": reductions.REDUCE_MEAN,
    "ReduceMax": reductions.REDUCE_MAX,
    "ReduceMin": reductions.REDUCE_MIN,
    "ReduceProd": reductions.REDUCE_PROD,
    "ReduceL1": reductions.REDUCE_L1,
    "ReduceL2": reductions.REDUCE_L2,
    "ReduceLogSum": reductions.REDUCE_LOG_SUM,
    "ReduceSumSquare": reductions.REDUCE_SUM_SQUARE,
}


@operator(*_REDUCTIONS)
def reduce(ctx: Context, node: Node, x: Value, axes: Value | None = None) -> Value:
    where = _axes(ctx, node, axes)
    return reductions.reduce(ctx, x, _REDUCTIONS[node.op_type], where, keepdims=node.int("keepdims", 1) != 0)


@operator("ReduceLogSumExp")
def reduce_log_sum_exp(ctx: Context, node: Node, x: Value, axes: Value | None = None) -> Value:
    return reductions.reduce_log_sum_exp(ctx, x, _axes(ctx, node, axes), keepdims=node.int("keepdims", 1) != 0)


def _axes(ctx: Context, node: Node, operand: Value | None) -> Value | Sequence[int] | None:
    """The axes of a reduction; `None` stands for all axes."""
    axes = node.ints("axes", []) if operand is None else operand
    count = ctx.length(axes) if isinstance(axes, Value) else len(axes)
    if count > 0:
        return axes
    return [] if node.int("noop_with_empty_axes", 0) else None


@operator("ArgMax", "ArgMin")
def arg_extreme(ctx: Context, node: Node, x: Value) -> Value:
    return reductions.extreme_positions(
        ctx,
        x,
        node.axis(x.rank, 0),
        largest=node.op_type == "ArgMax",
        last=node.int("select_last_index", 0) == 1,
        keepdims=node.int("keepdims", 1) != 0,
    )

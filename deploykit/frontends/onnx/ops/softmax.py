"""Imports the ONNX operators Softmax, LogSoftmax, Hardmax (`compiler.operators.softmax`). Before opset 13 the input is
read as a matrix: the axes before `axis` are its rows, the others its columns."""

from __future__ import annotations

from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.softmax import hardmax, log_softmax, softmax
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator


@operator("Softmax", "LogSoftmax", "Hardmax", since=13)
def along_axis(ctx: Context, node: Node, x: Value) -> Value:
    return _KINDS[node.op_type](ctx, x, node.axis(x.rank, default=-1))


@operator("Softmax", "LogSoftmax", "Hardmax")
def as_matrix(ctx: Context, node: Node, x: Value) -> Value:
    axis = node.int("axis", 1)
    axis = axis + x.rank if axis < 0 else axis
    matrix = ctx.reshape(x, (ctx.product(x.shape[:axis]), ctx.product(x.shape[axis:])))
    return ctx.reshape(_KINDS[node.op_type](ctx, matrix, 1), x.shape)


_KINDS = {"Softmax": softmax, "LogSoftmax": log_softmax, "Hardmax": hardmax}

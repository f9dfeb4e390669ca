"""Operators that pick or place elements by index."""

from __future__ import annotations

from tvm import ir, te, tirx

from deploykit.frontends.onnx.context import Context
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator
from deploykit.frontends.onnx.value import Value


@operator("Gather")
def gather(ctx: Context, node: Node, x: Value, indices: Value) -> Value:
    axis = node.int("axis", 0) % x.rank
    shape = [*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]]

    def build(data: te.Tensor, where: te.Tensor) -> te.Tensor:
        def element(*index: ir.Expr) -> ir.Expr:
            i = tirx.Cast("int64", where(*index[axis : axis + indices.rank]))
            size = x.shape[axis]
            i = tirx.Select(i < 0, i + size, i)
            i = tirx.max(tirx.min(i, size - 1), 0)
            return data(*index[:axis], i, *index[axis + indices.rank :])

        return te.compute(shape, element, name="gather")

    result = ctx.kernel("gather", build, x, indices, dtype=x.dtype)
    assert isinstance(result, Value)
    return result

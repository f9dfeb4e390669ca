"""ONNX: NonZero, Compress (`compiler.operators.selection`)."""

from __future__ import annotations

from tvm import te

from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.errors import Unsupported
from deploykit.compiler.operators.imperative import Array, Code, imperative, loops
from deploykit.compiler.operators.indexing import gather
from deploykit.compiler.operators.integers import expr, minimum
from deploykit.compiler.operators.selection import count_nonzero, is_nonzero
from deploykit.compiler.operators.value import Value
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator


@operator("NonZero")
def nonzero(ctx: Context, node: Node, x: Value) -> Value:
    count = count_nonzero(ctx, x, x.shape)

    def write(code: Code, data: Array, places: Array) -> None:
        found = code.cell("found", 0)
        with loops(code, x.shape) as index, code.when(is_nonzero(data, x, index)):
            for axis, i in enumerate(index):
                places[axis, found.value] = i
            found.value += 1

    def build(t: te.Tensor) -> list[te.Tensor]:
        return imperative("nonzero", [t], [((x.rank, count), "int64")], write)

    return ctx.kernel("nonzero", build, x, dtype="int64")


@operator("Compress")
def compress(ctx: Context, node: Node, x: Value, condition: Value) -> Value:
    if condition.rank != 1:
        raise Unsupported(f"a condition of rank {condition.rank}")
    if not node.has("axis"):
        x = ctx.reshape(x, (ctx.product(x.shape),))
    axis = node.axis(x.rank, 0)
    considered = ctx.simplify(minimum(condition.shape[0], x.shape[axis]))
    count = count_nonzero(ctx, condition, (considered,))

    def write(code: Code, mask: Array, places: Array) -> None:
        found = code.cell("found", 0)
        with code.loop("i", considered) as i, code.when(mask[i]):
            places[found.value] = expr(i)
            found.value += 1

    def build(t: te.Tensor) -> list[te.Tensor]:
        return imperative("marked", [t], [((count,), "int64")], write)

    return gather(ctx, x, ctx.kernel("marked", build, condition, dtype="int64"), axis)

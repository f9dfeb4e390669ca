"""ONNX: Concat, Expand, Tile (`compiler.operators.joining`)."""

from __future__ import annotations

from tvm import te

from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.errors import Unsupported
from deploykit.compiler.operators.expressions import compute
from deploykit.compiler.operators.integers import is_plain
from deploykit.compiler.operators.joining import concat, expand
from deploykit.compiler.operators.value import Value
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator


@operator("Concat")
def concat_operator(ctx: Context, node: Node, *inputs: Value) -> Value:
    ranks = {v.rank for v in inputs}
    if len(ranks) != 1:
        raise Unsupported(f"inputs of different ranks: {sorted(ranks)}")
    return concat(ctx, inputs, node.axis(inputs[0].rank))


@operator("Expand")
def expand_operator(ctx: Context, node: Node, x: Value, shape: Value) -> Value:
    return expand(ctx, x, ctx.ints(shape, minimum=0))


@operator("Tile")
def tile(ctx: Context, node: Node, x: Value, repeats: Value) -> Value:
    """Each repeated axis is computed as two, copy and position, which the result's shape joins: no division."""
    counts = ctx.ints(repeats, minimum=0, hint="repeats")
    if len(counts) != x.rank:
        raise Unsupported(f"{len(counts)} repeats for a tensor of rank {x.rank}")
    repeated = [not (is_plain(count) and count == 1) for count in counts]
    shape: list[IntExpr] = []
    for again, count, size in zip(repeated, counts, x.shape, strict=True):
        shape.extend([count, size] if again else [size])
    positions = [i + sum(repeated[: i + 1]) for i in range(x.rank)]
    if not any(repeated):
        return x

    def build(t: te.Tensor) -> te.Tensor:
        return compute(shape, lambda *index: t(*(index[p] for p in positions)), name="tile")

    tiled = ctx.kernel("tile", build, x, dtype=x.dtype)
    return ctx.reshape(tiled, [ctx.product([count, size]) for count, size in zip(counts, x.shape, strict=True)])

"""ONNX: ConstantOfShape, Range, EyeLike, Trilu (`compiler.operators.filling`)."""

from __future__ import annotations

import numpy as np
from tvm import ir, te, tirx

from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.elementwise import unfolded_zero
from deploykit.compiler.operators.errors import Unsupported
from deploykit.compiler.operators.expressions import compute
from deploykit.compiler.operators.filling import element_of, known_range, runtime_range, stored
from deploykit.compiler.operators.integers import expr, is_plain
from deploykit.compiler.operators.value import Value, constant
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator

FURTHEST_DIAGONAL = 1 << 40
"""A diagonal further away holds no element of any tensor."""


@operator("ConstantOfShape")
def constant_of_shape(ctx: Context, node: Node, shape: Value) -> Value:
    fill = constant(node.tensor("value").reshape(-1)[0] if node.has("value") else np.float32(0))
    assert fill.array is not None
    element = element_of(fill.array)
    if fill.dtype in ("float16", "float32", "float64") and fill.array == 0:
        element = unfolded_zero(fill.dtype, fill.array.item())
    sizes = ctx.ints(shape, minimum=0, hint="size")
    if not sizes:
        return fill
    return ctx.kernel("fill", lambda: compute(sizes, lambda *_: element, name="fill"), dtype=fill.dtype)


@operator("Range")
def arange(ctx: Context, node: Node, start: Value, limit: Value, delta: Value) -> Value:
    if start.dtype.startswith("int") and start.is_known and limit.is_known and delta.is_constant:
        return known_range(ctx, start, *(ctx.ints(v)[0] for v in (start, limit, delta)))
    return runtime_range(ctx, start, limit, delta)


@operator("EyeLike")
def eye_like(ctx: Context, node: Node, x: Value) -> Value:
    if x.rank != 2:
        raise Unsupported(f"a tensor of rank {x.rank}")
    dtype, diagonal = node.dtype("dtype", x.dtype), node.int("k", 0)
    one, zero = stored(1, dtype), stored(0, dtype)

    def build() -> te.Tensor:
        return compute(x.shape, lambda i, j: tirx.Select(j == i + diagonal, one, zero), name="eye")

    return ctx.kernel("eye", build, dtype=dtype)


@operator("Trilu")
def trilu(ctx: Context, node: Node, x: Value, diagonal: Value | None = None) -> Value:
    (k,) = ctx.ints(diagonal, hint="k") if diagonal is not None else (0,)
    if is_plain(k):
        k = max(-FURTHEST_DIAGONAL, min(FURTHEST_DIAGONAL, k))
    upper, zero = bool(node.int("upper", 1)), stored(0, x.dtype)

    def build(t: te.Tensor) -> te.Tensor:
        def element(*index: ir.Expr) -> ir.Expr:
            distance = expr(index[-1]) - expr(index[-2])
            return tirx.Select(distance >= expr(k) if upper else distance <= expr(k), t(*index), zero)

        return compute(x.shape, element, name="trilu")

    return ctx.kernel("trilu", build, x, dtype=x.dtype)

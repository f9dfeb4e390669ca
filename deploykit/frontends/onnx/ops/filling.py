"""Imports the ONNX operators ConstantOfShape, Range, EyeLike, Trilu (`compiler.operators.filling`)."""

from __future__ import annotations

import numpy as np

from deploykit.compiler.operators import filling
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.sizes import only_integer
from deploykit.compiler.operators.building.value import Value
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator


@operator("ConstantOfShape")
def constant_of_shape(ctx: Context, node: Node, shape: Value) -> Value:
    value = node.tensor("value").reshape(-1)[0] if node.has("value") else np.float32(0)
    return filling.fill(ctx, ctx.ints(shape, minimum=0, hint="size"), value)


@operator("Range")
def arange(ctx: Context, node: Node, start: Value, limit: Value, delta: Value) -> Value:
    return filling.arange(ctx, start, limit, delta)


@operator("EyeLike")
def eye_like(ctx: Context, node: Node, x: Value) -> Value:
    return filling.eye(ctx, x.shape, node.dtype("dtype", x.dtype), node.int("k", 0))


@operator("Trilu")
def trilu(ctx: Context, node: Node, x: Value, diagonal: Value | None = None) -> Value:
    k = 0 if diagonal is None else only_integer(ctx, diagonal, hint="k")
    return filling.triangle(ctx, x, k, upper=node.int("upper", 1) != 0)

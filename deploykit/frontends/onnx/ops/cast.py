"""Conversion between dtypes."""

from __future__ import annotations

from tvm import ir, tirx

from deploykit.frontends.dtypes import numpy_dtype
from deploykit.frontends.onnx.broadcast import elementwise
from deploykit.frontends.onnx.context import Context
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator
from deploykit.frontends.onnx.value import Value, constant, known


def cast(ctx: Context, value: Value, dtype: str) -> Value:
    """`value` in another dtype; the value itself when it already has it."""
    if value.dtype == dtype:
        return value
    if value.array is not None and value.array.size < 1 << 20:
        return constant(value.array.astype(numpy_dtype(dtype)))
    if value.elements is not None and dtype in ("int64", "int32") and value.dtype in ("int64", "int32"):
        return known(value.elements, dtype)

    def convert(x: ir.Expr) -> ir.Expr:
        if dtype == "bool":
            return x != tirx.const(0, str(x.ty.dtype))
        return x

    return elementwise(ctx, "cast", convert, value, dtype=dtype)


@operator("Cast")
def cast_operator(ctx: Context, node: Node, x: Value) -> Value:
    return cast(ctx, x, node.dtype("to"))


@operator("CastLike")
def cast_like(ctx: Context, node: Node, x: Value, target: Value) -> Value:
    return cast(ctx, x, target.dtype)

"""Imports the ONNX operators Cast, CastLike, BitCast (`compiler.operators.cast`; for strings
`compiler.operators.text.printing` and `compiler.operators.text.reading`)."""

from __future__ import annotations

from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.cast import bit_cast, cast
from deploykit.compiler.operators.strings.printing import to_strings
from deploykit.compiler.operators.strings.reading import to_numbers
from deploykit.compiler.operators.strings.spans import STRING
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator


@operator("Cast")
def cast_operator(ctx: Context, node: Node, x: Value) -> Value:
    return _cast(ctx, node, x, node.dtype("to"))


@operator("CastLike")
def cast_like(ctx: Context, node: Node, x: Value, target: Value) -> Value:
    return _cast(ctx, node, x, target.dtype)


def _cast(ctx: Context, node: Node, x: Value, dtype: str) -> Value:
    if x.dtype == dtype:
        return x
    if dtype == STRING:
        return to_strings(ctx, x)
    if x.dtype == STRING:
        return to_numbers(ctx, x, dtype)
    round_mode = node.choice("round_mode", ("up", "down", "nearest"), "up")
    return cast(ctx, x, dtype, saturate=bool(node.int("saturate", 1)), round_mode=round_mode)


@operator("BitCast")
def bit_cast_operator(ctx: Context, node: Node, x: Value) -> Value:
    return bit_cast(ctx, x, node.dtype("to"))

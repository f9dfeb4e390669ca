"""Imports the ONNX operators Abs, Neg, Sign, Exp, Log, Sqrt, Reciprocal, Floor, Ceil, Round, Erf, Sigmoid,
trigonometric and hyperbolic functions, Not, BitwiseNot, IsNaN, IsInf, Clip, Identity
(`compiler.operators.elementwise`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tvm import ir, tirx

from deploykit.compiler.operators import elementwise as functions
from deploykit.compiler.operators.building.broadcast import elementwise
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.value import AnyValue, Value
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator

_UNARY: Mapping[str, Callable[[ir.Expr], ir.Expr]] = {
    "Abs": functions.absolute,
    "Neg": functions.negative,
    "Sign": functions.sign,
    "Exp": tirx.exp,
    "Log": tirx.log,
    "Sqrt": tirx.sqrt,
    "Reciprocal": functions.reciprocal,
    "Floor": tirx.floor,
    "Ceil": tirx.ceil,
    "Round": tirx.nearbyint,
    "Erf": tirx.erf,
    "Sin": tirx.sin,
    "Cos": tirx.cos,
    "Tan": tirx.tan,
    "Asin": tirx.asin,
    "Acos": tirx.acos,
    "Atan": tirx.atan,
    "Sinh": tirx.sinh,
    "Cosh": tirx.cosh,
    "Asinh": tirx.asinh,
    "Acosh": tirx.acosh,
    "Atanh": tirx.atanh,
    "Tanh": tirx.tanh,
    "Sigmoid": functions.sigmoid,
    "Not": tirx.Not,
    "BitwiseNot": tirx.bitwise_not,
}
"""Functions by operator. `Round` rounds ties to the even neighbour."""


@operator(*_UNARY)
def unary(ctx: Context, node: Node, x: Value) -> Value:
    return elementwise(ctx, node.op_type.lower(), _UNARY[node.op_type], x)


@operator("IsNaN")
def is_nan(ctx: Context, node: Node, x: Value) -> Value:
    return functions.is_nan(ctx, x)


@operator("IsInf")
def is_inf(ctx: Context, node: Node, x: Value) -> Value:
    return functions.is_inf(
        ctx, x, positive=bool(node.int("detect_positive", 1)), negative=bool(node.int("detect_negative", 1))
    )


@operator("Clip")
def clip_by_attributes(ctx: Context, node: Node, x: Value) -> Value:
    limits = {name: ctx.constant(node.float(name), x.dtype) for name in ("min", "max") if node.has(name)}
    return functions.clip(ctx, x, limits.get("min"), limits.get("max"))


@operator("Clip", since=11)
def clip(ctx: Context, node: Node, x: Value, minimum: Value | None = None, maximum: Value | None = None) -> Value:
    return functions.clip(ctx, x, minimum, maximum)


@operator("Identity")
def identity(ctx: Context, node: Node, x: AnyValue) -> AnyValue:
    return x

"""ONNX: IsNaN, IsInf, Clip, Identity (`compiler.operators.elementwise`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from tvm import ir, tirx

from deploykit.compiler.operators.broadcast import elementwise
from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.elementwise import clip_of, is_float, is_unsigned, like, sigmoid, sign_of
from deploykit.compiler.operators.value import Value
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator

Unary = Callable[[ir.Expr], ir.Expr]


UNARY: Mapping[str, Unary] = {
    "Abs": lambda x: x if is_unsigned(x) else tirx.abs(x),
    "Neg": lambda x: -x if is_float(x) else like(x, 0) - x,
    "Sign": sign_of,
    "Exp": tirx.exp,
    "Log": tirx.log,
    "Sqrt": tirx.sqrt,
    "Reciprocal": lambda x: like(x, 1) / x,
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
    "Sigmoid": sigmoid,
    "Not": tirx.Not,
    "BitwiseNot": tirx.bitwise_not,
}


@operator(*UNARY)
def unary(ctx: Context, node: Node, x: Value) -> Value:
    return elementwise(ctx, node.op_type.lower(), UNARY[node.op_type], x)


@operator("IsNaN")
def is_nan(ctx: Context, node: Node, x: Value) -> Value:
    return elementwise(ctx, "isnan", tirx.isnan, x, dtype="bool")


@operator("IsInf")
def is_inf(ctx: Context, node: Node, x: Value) -> Value:
    wanted = [
        infinity for name, infinity in (("detect_positive", np.inf), ("detect_negative", -np.inf)) if node.int(name, 1)
    ]

    def function(v: ir.Expr) -> ir.Expr:
        return tirx.any(tirx.const(False, "bool"), *(tirx.EQ(v, like(v, infinity)) for infinity in wanted))

    return elementwise(ctx, "isinf", function, x, dtype="bool")


@operator("Clip")
def clip_by_attributes(ctx: Context, node: Node, x: Value) -> Value:
    limits = {name: ctx.constant(node.float(name), x.dtype) for name in ("min", "max") if node.has(name)}
    return clip_of(ctx, x, limits.get("min"), limits.get("max"))


@operator("Clip", since=11)
def clip(ctx: Context, node: Node, x: Value, minimum: Value | None = None, maximum: Value | None = None) -> Value:
    return clip_of(ctx, x, minimum, maximum)


@operator("Identity")
def identity(ctx: Context, node: Node, x: Value) -> Value:
    return x

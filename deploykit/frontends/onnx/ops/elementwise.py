"""Elementwise operators of one operand: mathematical functions, rounding, tests for special values, Clip.

Functions are computed in the operand's dtype, float16 and narrower in float32. `Round` takes ties to the even
neighbour. The sign of zero is zero, that of NaN is NaN; NaN is not clipped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from tvm import ir, tirx

from deploykit.compiler.operators.broadcast import elementwise
from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.value import Clipped, Value
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator

Unary = Callable[[ir.Expr], ir.Expr]


def is_float(x: ir.Expr) -> bool:
    return str(x.ty.dtype).startswith("float")


def like(x: ir.Expr, value: float) -> ir.Expr:
    """A constant of the dtype of `x`."""
    return tirx.const(value, str(x.ty.dtype))


def factor(x: ir.Expr, value: float) -> ir.Expr:
    """A constant of the dtype of `x` to multiply by. A literal 0 would make the product 0, which that of a NaN or an
    infinity is not, and which may lack its sign; so this 0 is one by its bits."""
    return unfolded_zero(str(x.ty.dtype), value) if is_float(x) and value == 0 else like(x, value)


def unfolded_zero(dtype: str, value: float = 0.0) -> ir.Expr:
    """0, or -0, as a float of 16 bits or more by which no product and no quotient is simplified."""
    if dtype == "float16":
        return tirx.Cast(dtype, unfolded_zero("float32", value))
    bits = dtype.replace("float", "uint")
    negative = tirx.reinterpret(dtype, tirx.const(int(np.array(-0.0, dtype).view(bits)), bits))
    return negative if math.copysign(1, value) < 0 else tirx.abs(negative)


def _is_unsigned(x: ir.Expr) -> bool:
    return str(x.ty.dtype).startswith("uint")


def _sign(x: ir.Expr) -> ir.Expr:
    below = x if _is_unsigned(x) else tirx.Select(x < like(x, 0), like(x, -1), x)
    return tirx.Select(x > like(x, 0), like(x, 1), below)


def sigmoid(x: ir.Expr) -> ir.Expr:
    return like(x, 1) / (like(x, 1) + tirx.exp(-x))


UNARY: Mapping[str, Unary] = {
    "Abs": lambda x: x if _is_unsigned(x) else tirx.abs(x),
    "Neg": lambda x: -x if is_float(x) else like(x, 0) - x,
    "Sign": _sign,
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
    return _clip(ctx, x, limits.get("min"), limits.get("max"))


@operator("Clip", since=11)
def clip(ctx: Context, node: Node, x: Value, minimum: Value | None = None, maximum: Value | None = None) -> Value:
    return _clip(ctx, x, minimum, maximum)


def _clip(ctx: Context, x: Value, minimum: Value | None, maximum: Value | None) -> Value:
    """The maximum wins when it is below the minimum."""
    limits = [(limit, bound) for limit, bound in ((tirx.max, minimum), (tirx.min, maximum)) if bound is not None]
    if not limits:
        return x

    def function(v: ir.Expr, *bounds: ir.Expr) -> ir.Expr:
        for (limit, _), bound in zip(limits, bounds, strict=True):
            v = limit(bound, v)
        return v

    y = elementwise(ctx, "clip", function, x, *(bound for _, bound in limits))
    ends = [_single(bound, end) for bound, end in ((minimum, -np.inf), (maximum, np.inf))]
    return (
        y
        if None in ends or not y.inexact
        else replace(y, clipped=Clipped(x, *(float(end) for end in ends if end is not None)))
    )


def _single(bound: Value | None, default: float) -> float | None:
    """A bound that is known, `default` where there is none."""
    if bound is None:
        return default
    return None if bound.array is None else float(bound.array.reshape(()))


@operator("Identity")
def identity(ctx: Context, node: Node, x: Value) -> Value:
    return x

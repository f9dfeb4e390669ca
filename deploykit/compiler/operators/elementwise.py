"""Elementwise operators of one operand: mathematical functions, tests for special values, Clip.

`like` and `factor` make the constants that functions of an element use. `broadcast.elementwise` makes an operator of a
function of an element; the functions that TVM does not have are here. They are computed in the operand's dtype, or in
float32 for float16 and narrower floats. The sign of zero is zero, and the sign of NaN is NaN. NaN is not clipped.
(Source: ONNX operators Abs, Neg, Sign, Reciprocal, Sigmoid, IsNaN, IsInf, Clip.)
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from tvm import ir, tirx

from deploykit.compiler.operators.building.broadcast import elementwise
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.value import Clipped, Value
from deploykit.compiler.tir import extrema


def is_float(x: ir.Expr) -> bool:
    return str(x.ty.dtype).startswith("float")


def like(x: ir.Expr, value: float) -> ir.Expr:
    """A constant of the dtype of `x`."""
    return tirx.const(value, str(x.ty.dtype))


def factor(x: ir.Expr, value: float) -> ir.Expr:
    """A constant of the dtype of `x` to multiply by. The simplifier makes the product with a literal 0 zero, which is
    wrong for NaN and infinities and may lose the sign of zero. So a 0 is given by its bits."""
    return unfolded_zero(str(x.ty.dtype), value) if is_float(x) and value == 0 else like(x, value)


def unfolded_zero(dtype: str, value: float = 0.0) -> ir.Expr:
    """0 or -0 as a float of 16 bits or more, in a form that the simplifier does not use to fold products and
    quotients."""
    if dtype == "float16":
        return tirx.Cast(dtype, unfolded_zero("float32", value))
    bits = dtype.replace("float", "uint")
    negative = tirx.reinterpret(dtype, tirx.const(int(np.array(-0.0, dtype).view(bits)), bits))
    return negative if math.copysign(1, value) < 0 else tirx.abs(negative)


def absolute(x: ir.Expr) -> ir.Expr:
    return x if _is_unsigned(x) else tirx.abs(x)


def negative(x: ir.Expr) -> ir.Expr:
    return -x if is_float(x) else like(x, 0) - x


def sign(x: ir.Expr) -> ir.Expr:
    below = x if _is_unsigned(x) else tirx.Select(x < like(x, 0), like(x, -1), x)
    return tirx.Select(x > like(x, 0), like(x, 1), below)


def reciprocal(x: ir.Expr) -> ir.Expr:
    return like(x, 1) / x


def _is_unsigned(x: ir.Expr) -> bool:
    return str(x.ty.dtype).startswith("uint")


def sigmoid(x: ir.Expr) -> ir.Expr:
    return like(x, 1) / (like(x, 1) + tirx.exp(-x))


def is_nan(ctx: Context, x: Value) -> Value:
    """Whether each element of `x` is NaN."""
    return elementwise(ctx, "isnan", tirx.isnan, x, dtype="bool")


def is_inf(ctx: Context, x: Value, *, positive: bool = True, negative: bool = True) -> Value:
    """Whether each element of `x` is an infinity of one of the signs asked for."""
    wanted = [infinity for asked, infinity in ((positive, np.inf), (negative, -np.inf)) if asked]

    def function(v: ir.Expr) -> ir.Expr:
        return tirx.any(tirx.const(False, "bool"), *(tirx.EQ(v, like(v, infinity)) for infinity in wanted))

    return elementwise(ctx, "isinf", function, x, dtype="bool")


def clip(ctx: Context, x: Value, minimum: Value | None, maximum: Value | None) -> Value:
    """`x` clipped to scalars of its dtype; the maximum wins if it is below the minimum. If `x` is inexact and both
    bounds are constants, the result records what was clipped."""
    limits = [
        (limit, bound) for limit, bound in ((extrema.maximum, minimum), (extrema.minimum, maximum)) if bound is not None
    ]
    if not limits:
        return x

    def function(v: ir.Expr, *bounds: ir.Expr) -> ir.Expr:
        for (limit, _), bound in zip(limits, bounds, strict=True):
            v = limit(bound, v)
        return v

    y = elementwise(ctx, "clip", function, x, *(bound for _, bound in limits))
    ends = [_single(bound, end) for bound, end in ((minimum, -np.inf), (maximum, np.inf))]
    known = [end for end in ends if end is not None]
    return replace(y, clipped=Clipped(x, *known)) if y.inexact and len(known) == len(ends) else y


def _single(bound: Value | None, default: float) -> float | None:
    """The value of a constant bound, `default` without a bound, None for a bound that is not constant."""
    if bound is None:
        return default
    return None if bound.array is None else float(bound.array.reshape(()))

"""Elementwise operators of one operand: mathematical functions, rounding, tests for special values, Clip.

Functions are computed in the operand's dtype, float16 and narrower in float32. `Round` takes ties to the even
neighbour. The sign of zero is zero, that of NaN is NaN; NaN is not clipped.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from tvm import ir, tirx

from deploykit.compiler.operators.broadcast import elementwise
from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.value import Clipped, Value


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


def is_unsigned(x: ir.Expr) -> bool:
    return str(x.ty.dtype).startswith("uint")


def sign_of(x: ir.Expr) -> ir.Expr:
    below = x if is_unsigned(x) else tirx.Select(x < like(x, 0), like(x, -1), x)
    return tirx.Select(x > like(x, 0), like(x, 1), below)


def sigmoid(x: ir.Expr) -> ir.Expr:
    return like(x, 1) / (like(x, 1) + tirx.exp(-x))


def clip_of(ctx: Context, x: Value, minimum: Value | None, maximum: Value | None) -> Value:
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

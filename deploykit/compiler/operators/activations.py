"""Activation functions: of an element, `relu` to `gelu_by_tanh`, and of a tensor, such as `rectify`.

NaN stays NaN: `tirx.max` and `tirx.min` of a constant and a NaN, in this order, give NaN.
(Source: the ONNX operators of these names.)
"""

from __future__ import annotations

import math
from dataclasses import replace

from tvm import ir, tirx

from deploykit.compiler.operators.building.broadcast import elementwise
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.value import Clipped, Value
from deploykit.compiler.operators.elementwise import factor, is_float, like, sigmoid


def rectify(ctx: Context, x: Value) -> Value:
    """`relu` of every element. If `x` is inexact, the result records what was clipped."""
    y = elementwise(ctx, "relu", relu, x)
    return replace(y, clipped=Clipped(x, 0.0, math.inf)) if x.inexact else y


def relu(x: ir.Expr) -> ir.Expr:
    return tirx.Select(x < like(x, 0), like(x, 0), x)


def leaky_relu(x: ir.Expr, alpha: float) -> ir.Expr:
    return tirx.Select(x < like(x, 0), x * factor(x, alpha), x)


def thresholded_relu(x: ir.Expr, alpha: float) -> ir.Expr:
    return tirx.Select(x > like(x, alpha), x, like(x, 0))


def elu(x: ir.Expr, alpha: float) -> ir.Expr:
    return tirx.Select(x < like(x, 0), factor(x, alpha) * (tirx.exp(x) - like(x, 1)), x)


def selu(x: ir.Expr, alpha: float, gamma: float) -> ir.Expr:
    return factor(x, gamma) * elu(x, alpha)


def celu(x: ir.Expr, alpha: float) -> ir.Expr:
    return tirx.Select(x < like(x, 0), like(x, alpha) * (tirx.exp(x / like(x, alpha)) - like(x, 1)), x)


def hard_sigmoid(x: ir.Expr, alpha: float, beta: float) -> ir.Expr:
    return tirx.max(like(x, 0), tirx.min(like(x, 1), affine(x, alpha, beta)))


def hard_swish(x: ir.Expr) -> ir.Expr:
    return x * hard_sigmoid(x, 1 / 6, 0.5)


def softplus(x: ir.Expr) -> ir.Expr:
    """log(1 + exp(x)), computed without overflow and without loss of small results."""
    return tirx.max(x, like(x, 0)) + tirx.log1p(tirx.exp(-tirx.abs(x)))


def softsign(x: ir.Expr) -> ir.Expr:
    return x / (like(x, 1) + tirx.abs(x))


def mish(x: ir.Expr) -> ir.Expr:
    """`x tanh(softplus(x)) = x n / (n + 2) with n = e (e + 2), e = exp(x)`; beyond 20 the factor is 1 in float32."""
    e = tirx.exp(tirx.min(x, like(x, 20)))
    n = e * (e + like(x, 2))
    return x * (n / (n + like(x, 2)))


def swish(x: ir.Expr, alpha: float) -> ir.Expr:
    return x * sigmoid(x if alpha == 1 else x * factor(x, alpha))


def affine(x: ir.Expr, alpha: float, beta: float) -> ir.Expr:
    return x * factor(x, alpha) + like(x, beta)


def scaled_tanh(x: ir.Expr, alpha: float, beta: float) -> ir.Expr:
    return factor(x, alpha) * tirx.tanh(x * factor(x, beta))


def gelu(x: ir.Expr) -> ir.Expr:
    return like(x, 0.5) * x * (like(x, 1) + tirx.erf(x * like(x, math.sqrt(0.5))))


def gelu_by_tanh(x: ir.Expr) -> ir.Expr:
    inner = like(x, math.sqrt(2 / math.pi)) * (x + like(x, 0.044715) * x * x * x)
    return like(x, 0.5) * x * (like(x, 1) + tirx.tanh(inner))


def prelu(x: ir.Expr, slope: ir.Expr) -> ir.Expr:
    return tirx.Select(x < like(x, 0), x * slope, x)


def shrink(x: ir.Expr, bias: float, limit: float) -> ir.Expr:
    """`x` moved towards zero by `bias`, or zero where `|x| <= limit`. Integers are computed in float64."""
    x = x if is_float(x) else tirx.Cast("float64", x)
    above = tirx.Select(x > like(x, limit), x - like(x, bias), like(x, 0))
    return tirx.Select(x < like(x, -limit), x + like(x, bias), above)

"""Activation functions. `ACTIVATIONS` gives each by its ONNX name, for operators that are told one by name.

NaN stays NaN: `tirx.max` and `tirx.min` of a constant and a NaN, in this order, give the NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from tvm import ir, tirx

from deploykit.compiler.operators.broadcast import elementwise
from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.value import Clipped, Value
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.ops.elementwise import factor, is_float, like, sigmoid
from deploykit.frontends.onnx.registry import operator


def _relu(x: ir.Expr) -> ir.Expr:
    return tirx.Select(x < like(x, 0), like(x, 0), x)


def _leaky_relu(x: ir.Expr, alpha: float) -> ir.Expr:
    return tirx.Select(x < like(x, 0), x * factor(x, alpha), x)


def _thresholded_relu(x: ir.Expr, alpha: float) -> ir.Expr:
    return tirx.Select(x > like(x, alpha), x, like(x, 0))


def _elu(x: ir.Expr, alpha: float) -> ir.Expr:
    return tirx.Select(x < like(x, 0), factor(x, alpha) * (tirx.exp(x) - like(x, 1)), x)


def _selu(x: ir.Expr, alpha: float, gamma: float) -> ir.Expr:
    return factor(x, gamma) * _elu(x, alpha)


def _celu(x: ir.Expr, alpha: float) -> ir.Expr:
    return tirx.Select(x < like(x, 0), like(x, alpha) * (tirx.exp(x / like(x, alpha)) - like(x, 1)), x)


def _hard_sigmoid(x: ir.Expr, alpha: float, beta: float) -> ir.Expr:
    return tirx.max(like(x, 0), tirx.min(like(x, 1), _affine(x, alpha, beta)))


def _hard_swish(x: ir.Expr) -> ir.Expr:
    return x * _hard_sigmoid(x, 1 / 6, 0.5)


def _softplus(x: ir.Expr) -> ir.Expr:
    """log(1 + exp(x)) that neither overflows nor loses small results."""
    return tirx.max(x, like(x, 0)) + tirx.log1p(tirx.exp(-tirx.abs(x)))


def _softsign(x: ir.Expr) -> ir.Expr:
    return x / (like(x, 1) + tirx.abs(x))


def _mish(x: ir.Expr) -> ir.Expr:
    """`x tanh(softplus(x)) = x n / (n + 2) with n = e (e + 2), e = exp(x)`; beyond 20 the factor is 1 in float32."""
    e = tirx.exp(tirx.min(x, like(x, 20)))
    n = e * (e + like(x, 2))
    return x * (n / (n + like(x, 2)))


def _swish(x: ir.Expr, alpha: float) -> ir.Expr:
    return x * sigmoid(x if alpha == 1 else x * factor(x, alpha))


def _affine(x: ir.Expr, alpha: float, beta: float) -> ir.Expr:
    return x * factor(x, alpha) + like(x, beta)


def _scaled_tanh(x: ir.Expr, alpha: float, beta: float) -> ir.Expr:
    return factor(x, alpha) * tirx.tanh(x * factor(x, beta))


def gelu(x: ir.Expr) -> ir.Expr:
    return like(x, 0.5) * x * (like(x, 1) + tirx.erf(x * like(x, math.sqrt(0.5))))


def gelu_by_tanh(x: ir.Expr) -> ir.Expr:
    inner = like(x, math.sqrt(2 / math.pi)) * (x + like(x, 0.044715) * x * x * x)
    return like(x, 0.5) * x * (like(x, 1) + tirx.tanh(inner))


@dataclass(frozen=True)
class Activation:
    """`parameters` are the function's attributes after the operand, in order, with ONNX's defaults."""

    function: Callable[..., ir.Expr]
    parameters: Mapping[str, float]

    def of(self, values: Mapping[str, float]) -> Callable[[ir.Expr], ir.Expr]:
        """The function with the given attributes, defaults for the rest."""
        return partial(
            self.function, **{**self.parameters, **{n: v for n, v in values.items() if n in self.parameters}}
        )


ACTIVATIONS: Mapping[str, Activation] = {
    "Relu": Activation(_relu, {}),
    "LeakyRelu": Activation(_leaky_relu, {"alpha": 0.01}),
    "ThresholdedRelu": Activation(_thresholded_relu, {"alpha": 1.0}),
    "Elu": Activation(_elu, {"alpha": 1.0}),
    "Selu": Activation(_selu, {"alpha": 1.67326319217681884765625, "gamma": 1.05070102214813232421875}),
    "Celu": Activation(_celu, {"alpha": 1.0}),
    "HardSigmoid": Activation(_hard_sigmoid, {"alpha": 0.2, "beta": 0.5}),
    "HardSwish": Activation(_hard_swish, {}),
    "Softplus": Activation(_softplus, {}),
    "Softsign": Activation(_softsign, {}),
    "Mish": Activation(_mish, {}),
    "Swish": Activation(_swish, {"alpha": 1.0}),
    "Sigmoid": Activation(sigmoid, {}),
    "Tanh": Activation(tirx.tanh, {}),
    "Affine": Activation(_affine, {"alpha": 1.0, "beta": 0.0}),
    "ScaledTanh": Activation(_scaled_tanh, {"alpha": 1.0, "beta": 1.0}),
}
"""Affine and ScaledTanh occur in recurrent operators only; Sigmoid and Tanh are registered as plain functions."""


@operator(*(name for name in ACTIVATIONS if name not in {"Sigmoid", "Tanh", "Affine", "ScaledTanh"}))
def activation(ctx: Context, node: Node, x: Value) -> Value:
    found = ACTIVATIONS[node.op_type]
    given = {name: node.float(name) for name in found.parameters if node.has(name)}
    y = elementwise(ctx, node.op_type.lower(), found.of(given), x)
    return replace(y, clipped=Clipped(x, 0.0, math.inf)) if node.op_type == "Relu" and x.inexact else y


@operator("Gelu")
def gelu_operator(ctx: Context, node: Node, x: Value) -> Value:
    functions = {"none": gelu, "tanh": gelu_by_tanh}
    return elementwise(ctx, "gelu", functions[node.choice("approximate", functions, "none")], x)


@operator("PRelu")
def prelu(ctx: Context, node: Node, x: Value, slope: Value) -> Value:
    if node.opset < 7 and slope.rank == 1 and x.rank > 1:
        slope = ctx.reshape(slope, (slope.shape[0], *([1] * (x.rank - 2))))
    return elementwise(ctx, "prelu", lambda v, s: tirx.Select(v < like(v, 0), v * s, v), x, slope)


@operator("Shrink")
def shrink(ctx: Context, node: Node, x: Value) -> Value:
    bias, limit = node.float("bias", 0.0), node.float("lambd", 0.5)

    def function(v: ir.Expr) -> ir.Expr:
        v = v if is_float(v) else tirx.Cast("float64", v)
        above = tirx.Select(v > like(v, limit), v - like(v, bias), like(v, 0))
        return tirx.Select(v < like(v, -limit), v + like(v, bias), above)

    return elementwise(ctx, "shrink", function, x)

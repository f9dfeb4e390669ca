"""ONNX: Sigmoid, Tanh, Affine, ScaledTanh, Gelu, PRelu, Shrink (`compiler.operators.activations`)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from tvm import ir, tirx

from deploykit.compiler.operators.activations import (
    Activation,
    affine,
    celu,
    elu,
    gelu,
    gelu_by_tanh,
    hard_sigmoid,
    hard_swish,
    leaky_relu,
    mish,
    relu,
    scaled_tanh,
    selu,
    softplus_of,
    softsign,
    swish,
    thresholded_relu,
)
from deploykit.compiler.operators.broadcast import elementwise
from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.elementwise import is_float, like, sigmoid
from deploykit.compiler.operators.value import Clipped, Value
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator

ACTIVATIONS: Mapping[str, Activation] = {
    "Relu": Activation(relu, {}),
    "LeakyRelu": Activation(leaky_relu, {"alpha": 0.01}),
    "ThresholdedRelu": Activation(thresholded_relu, {"alpha": 1.0}),
    "Elu": Activation(elu, {"alpha": 1.0}),
    "Selu": Activation(selu, {"alpha": 1.67326319217681884765625, "gamma": 1.05070102214813232421875}),
    "Celu": Activation(celu, {"alpha": 1.0}),
    "HardSigmoid": Activation(hard_sigmoid, {"alpha": 0.2, "beta": 0.5}),
    "HardSwish": Activation(hard_swish, {}),
    "Softplus": Activation(softplus_of, {}),
    "Softsign": Activation(softsign, {}),
    "Mish": Activation(mish, {}),
    "Swish": Activation(swish, {"alpha": 1.0}),
    "Sigmoid": Activation(sigmoid, {}),
    "Tanh": Activation(tirx.tanh, {}),
    "Affine": Activation(affine, {"alpha": 1.0, "beta": 0.0}),
    "ScaledTanh": Activation(scaled_tanh, {"alpha": 1.0, "beta": 1.0}),
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

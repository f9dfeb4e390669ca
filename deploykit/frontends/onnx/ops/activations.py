"""Imports the ONNX operators Relu, LeakyRelu, ThresholdedRelu, Elu, Selu, Celu, HardSigmoid, HardSwish, Softplus,
Softsign, Mish, Swish, Gelu, PRelu, Shrink (`compiler.operators.activations`). `ACTIVATIONS` holds functions by their
ONNX names, with ONNX's attributes and defaults, for operators that have an activation as an attribute."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from tvm import ir, tirx

from deploykit.compiler.operators import activations
from deploykit.compiler.operators.building.broadcast import elementwise
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.elementwise import sigmoid
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator


@dataclass(frozen=True)
class Activation:
    """An activation function. `parameters` are its attributes, the arguments after the operand, with their defaults."""

    function: Callable[..., ir.Expr]
    parameters: Mapping[str, float]

    def of(self, values: Mapping[str, float]) -> Callable[[ir.Expr], ir.Expr]:
        """The function with the given attributes, and defaults for the others."""
        return partial(
            self.function, **{**self.parameters, **{n: v for n, v in values.items() if n in self.parameters}}
        )


_ELEMENTWISE: Mapping[str, Activation] = {
    "LeakyRelu": Activation(activations.leaky_relu, {"alpha": 0.01}),
    "ThresholdedRelu": Activation(activations.thresholded_relu, {"alpha": 1.0}),
    "Elu": Activation(activations.elu, {"alpha": 1.0}),
    "Selu": Activation(activations.selu, {"alpha": 1.67326319217681884765625, "gamma": 1.05070102214813232421875}),
    "Celu": Activation(activations.celu, {"alpha": 1.0}),
    "HardSigmoid": Activation(activations.hard_sigmoid, {"alpha": 0.2, "beta": 0.5}),
    "HardSwish": Activation(activations.hard_swish, {}),
    "Softplus": Activation(activations.softplus, {}),
    "Softsign": Activation(activations.softsign, {}),
    "Mish": Activation(activations.mish, {}),
    "Swish": Activation(activations.swish, {"alpha": 1.0}),
}

ACTIVATIONS: Mapping[str, Activation] = {
    **_ELEMENTWISE,
    "Relu": Activation(activations.relu, {}),
    "Sigmoid": Activation(sigmoid, {}),
    "Tanh": Activation(tirx.tanh, {}),
    "Affine": Activation(activations.affine, {"alpha": 1.0, "beta": 0.0}),
    "ScaledTanh": Activation(activations.scaled_tanh, {"alpha": 1.0, "beta": 1.0}),
}
"""Affine and ScaledTanh occur in recurrent operators only; Sigmoid and Tanh are registered as plain functions."""


@operator(*_ELEMENTWISE)
@operator("Selu", since=6)
def activation(ctx: Context, node: Node, x: Value) -> Value:
    found = _ELEMENTWISE[node.op_type]
    given = {name: node.float(name) for name in found.parameters if node.has(name)}
    return elementwise(ctx, node.op_type.lower(), found.of(given), x)


@operator("Selu")
def selu_with_short_constants(ctx: Context, node: Node, x: Value) -> Value:
    """Selu before opset 6, whose defaults have fewer digits."""
    alpha, gamma = node.float("alpha", 1.6732), node.float("gamma", 1.0507)
    return elementwise(ctx, "selu", partial(activations.selu, alpha=alpha, gamma=gamma), x)


@operator("Relu")
def relu(ctx: Context, node: Node, x: Value) -> Value:
    return activations.rectify(ctx, x)


@operator("Gelu")
def gelu(ctx: Context, node: Node, x: Value) -> Value:
    functions = {"none": activations.gelu, "tanh": activations.gelu_by_tanh}
    return elementwise(ctx, "gelu", functions[node.choice("approximate", functions, "none")], x)


@operator("PRelu")
def prelu(ctx: Context, node: Node, x: Value, slope: Value) -> Value:
    """PRelu. Before opset 7, a slope of rank 1 has an element per channel."""
    if node.opset < 7 and slope.rank == 1 and x.rank > 1:
        slope = ctx.reshape(slope, (slope.shape[0], *([1] * (x.rank - 2))))
    return elementwise(ctx, "prelu", activations.prelu, x, slope)


@operator("Shrink")
def shrink(ctx: Context, node: Node, x: Value) -> Value:
    function = partial(activations.shrink, bias=node.float("bias", 0.0), limit=node.float("lambd", 0.5))
    return elementwise(ctx, "shrink", function, x)

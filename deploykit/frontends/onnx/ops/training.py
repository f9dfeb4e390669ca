"""Imports the ONNX operators Adagrad, Adam, Momentum (`compiler.operators.training`)."""

from __future__ import annotations

from deploykit.compiler.operators import training
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.value import Value
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator

_DOMAIN = "ai.onnx.preview.training"


@operator("Adagrad", domain=_DOMAIN)
def adagrad(ctx: Context, node: Node, rate: Value, update: Value, *tensors: Value) -> tuple[Value, ...]:
    decay, epsilon = node.float("decay_factor", 0.0), node.float("epsilon", 1e-6)
    return training.adagrad(ctx, rate, update, tensors, decay, epsilon, node.float("norm_coefficient", 0.0))


@operator("Adam", domain=_DOMAIN)
def adam(ctx: Context, node: Node, rate: Value, update: Value, *tensors: Value) -> tuple[Value, ...]:
    return training.adam(
        ctx,
        rate,
        update,
        tensors,
        alpha=node.float("alpha", 0.9),
        beta=node.float("beta", 0.999),
        epsilon=node.float("epsilon", 1e-6),
        norm=node.float("norm_coefficient", 0.0),
        norm_after=node.float("norm_coefficient_post", 0.0),
    )


@operator("Momentum", domain=_DOMAIN)
def momentum(ctx: Context, node: Node, rate: Value, update: Value, *tensors: Value) -> tuple[Value, ...]:
    alpha, beta, norm = node.float("alpha"), node.float("beta"), node.float("norm_coefficient", 0.0)
    nesterov = node.choice("mode", ("standard", "nesterov")) == "nesterov"
    return training.momentum(ctx, rate, update, tensors, alpha, beta, norm, nesterov=nesterov)

"""ONNX: Adagrad, Adam, Momentum (`compiler.operators.training`)."""

from __future__ import annotations

from collections.abc import Callable

from tvm import ir, tirx

from deploykit.compiler.operators.broadcast import elementwise
from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.elementwise import like
from deploykit.compiler.operators.training import by_role, from_first, groups_of
from deploykit.compiler.operators.value import Value
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator

_DOMAIN = "ai.onnx.preview.training"


def _regularised(node: Node, x: ir.Expr, gradient: ir.Expr) -> ir.Expr:
    coefficient = node.float("norm_coefficient", 0.0)
    return gradient + like(x, coefficient) * x if coefficient else gradient


@operator("Adagrad", domain=_DOMAIN)
def adagrad(ctx: Context, node: Node, rate: Value, update: Value, *tensors: Value) -> tuple[Value, ...]:
    decay, epsilon = node.float("decay_factor", 0.0), node.float("epsilon", 1e-6)

    def step(x: ir.Expr, g: ir.Expr, h: ir.Expr, r: ir.Expr, t: ir.Expr) -> ir.Expr:
        slowed = r / (like(x, 1) + tirx.Cast(x.ty.dtype, t) * like(x, decay))
        return x - slowed * _regularised(node, x, g) / (tirx.sqrt(h) + like(h, epsilon))

    results = []
    for x, g, h in groups_of(tensors, 3):
        square = _state(ctx, node, x, g, h, 1.0, lambda gradient: gradient * gradient)
        results.append((elementwise(ctx, "adagrad", step, x, g, square, rate, update), square))
    return by_role(results)


@operator("Adam", domain=_DOMAIN)
def adam(ctx: Context, node: Node, rate: Value, update: Value, *tensors: Value) -> tuple[Value, ...]:
    alpha, beta = node.float("alpha", 0.9), node.float("beta", 0.999)
    epsilon, shrink = node.float("epsilon", 1e-6), 1.0 - node.float("norm_coefficient_post", 0.0)

    def step(x: ir.Expr, v: ir.Expr, h: ir.Expr, r: ir.Expr, t: ir.Expr) -> ir.Expr:
        exponent = tirx.Cast(x.ty.dtype, t)

        def rest(base: float) -> ir.Expr:
            return like(x, 1) - tirx.power(like(x, base), exponent)

        adjusted = from_first(t, r * tirx.sqrt(rest(beta)) / rest(alpha), r)
        return (x - adjusted * v / (tirx.sqrt(h) + like(h, epsilon))) * like(x, shrink)

    results = []
    for x, g, v, h in groups_of(tensors, 4):
        mean = _state(ctx, node, x, g, v, alpha, lambda gradient: gradient * like(gradient, 1 - alpha))
        square = _state(ctx, node, x, g, h, beta, lambda gradient: gradient * gradient * like(gradient, 1 - beta))
        results.append((elementwise(ctx, "adam", step, x, mean, square, rate, update), mean, square))
    return by_role(results)


@operator("Momentum", domain=_DOMAIN)
def momentum(ctx: Context, node: Node, rate: Value, update: Value, *tensors: Value) -> tuple[Value, ...]:
    alpha, beta = node.float("alpha"), node.float("beta")
    nesterov = node.choice("mode", ("standard", "nesterov")) == "nesterov"

    def velocity(x: ir.Expr, g: ir.Expr, v: ir.Expr, t: ir.Expr) -> ir.Expr:
        return like(v, alpha) * v + from_first(t, like(v, beta), like(v, 1)) * _regularised(node, x, g)

    def step(x: ir.Expr, g: ir.Expr, v: ir.Expr, r: ir.Expr) -> ir.Expr:
        return x - r * (_regularised(node, x, g) + like(v, alpha) * v if nesterov else v)

    results = []
    for x, g, v in groups_of(tensors, 3):
        new = elementwise(ctx, "velocity", velocity, x, g, v, update)
        results.append((elementwise(ctx, "momentum", step, x, g, new, rate), new))
    return by_role(results)


def _state(
    ctx: Context, node: Node, x: Value, g: Value, old: Value, keep: float, term: Callable[[ir.Expr], ir.Expr]
) -> Value:
    """`keep * old + term(regularised gradient)`."""
    return elementwise(ctx, "state", lambda s, v, d: s * like(s, keep) + term(_regularised(node, v, d)), old, x, g)

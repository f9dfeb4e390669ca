"""Steps of gradient descent: Adagrad, Adam, Momentum (ai.onnx.preview.training).

Each operator takes the learning rate R and the count of updates T, both scalars. Then come all tensors X to optimise,
all their gradients G, and all of each of their states. It returns the new X and the new states in the same order. In
each, g = G + norm * X is the gradient with regularisation. (Source: the operator schemas.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvm import ir, tirx

from deploykit.compiler.operators.building.broadcast import elementwise
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.elementwise import like


def adagrad(
    ctx: Context, rate: Value, update: Value, tensors: Sequence[Value], decay: float, epsilon: float, norm: float
) -> tuple[Value, ...]:
    """H' = H + g * g, X' = X - R / (1 + T * decay) * g / (sqrt(H') + epsilon)."""

    def step(x: ir.Expr, g: ir.Expr, h: ir.Expr, r: ir.Expr, t: ir.Expr) -> ir.Expr:
        slowed = r / (like(x, 1) + tirx.Cast(x.ty.dtype, t) * like(x, decay))
        return x - slowed * _regularised(x, g, norm) / (tirx.sqrt(h) + like(h, epsilon))

    results = []
    for x, g, h in _by_tensor(tensors, 3):
        square = _state(ctx, x, g, h, 1.0, norm, lambda gradient: gradient * gradient)
        results.append((elementwise(ctx, "adagrad", step, x, g, square, rate, update), square))
    return _by_role(results)


def adam(
    ctx: Context,
    rate: Value,
    update: Value,
    tensors: Sequence[Value],
    alpha: float,
    beta: float,
    epsilon: float,
    norm: float,
    norm_after: float,
) -> tuple[Value, ...]:
    """V' = alpha * V + (1 - alpha) * g, H' = beta * H + (1 - beta) * g * g, and X' = (1 - norm_after) * (X - R' * V' /
    (sqrt(H') + epsilon)), where R' = R * sqrt(1 - beta ** T) / (1 - alpha ** T), and R for T = 0."""

    def step(x: ir.Expr, v: ir.Expr, h: ir.Expr, r: ir.Expr, t: ir.Expr) -> ir.Expr:
        exponent = tirx.Cast(x.ty.dtype, t)

        def rest(base: float) -> ir.Expr:
            return like(x, 1) - tirx.power(like(x, base), exponent)

        adjusted = _from_first(t, r * tirx.sqrt(rest(beta)) / rest(alpha), r)
        return (x - adjusted * v / (tirx.sqrt(h) + like(h, epsilon))) * like(x, 1.0 - norm_after)

    results = []
    for x, g, v, h in _by_tensor(tensors, 4):
        mean = _state(ctx, x, g, v, alpha, norm, lambda gradient: gradient * like(gradient, 1 - alpha))
        square = _state(ctx, x, g, h, beta, norm, lambda gradient: gradient * gradient * like(gradient, 1 - beta))
        results.append((elementwise(ctx, "adam", step, x, mean, square, rate, update), mean, square))
    return _by_role(results)


def momentum(
    ctx: Context,
    rate: Value,
    update: Value,
    tensors: Sequence[Value],
    alpha: float,
    beta: float,
    norm: float,
    *,
    nesterov: bool,
) -> tuple[Value, ...]:
    """V' = alpha * V + beta * g, with 1 for beta at T = 0, and X' = X - R * V', or X - R * (g + alpha * V') with
    `nesterov`."""

    def velocity(x: ir.Expr, g: ir.Expr, v: ir.Expr, t: ir.Expr) -> ir.Expr:
        return like(v, alpha) * v + _from_first(t, like(v, beta), like(v, 1)) * _regularised(x, g, norm)

    def step(x: ir.Expr, g: ir.Expr, v: ir.Expr, r: ir.Expr) -> ir.Expr:
        return x - r * (_regularised(x, g, norm) + like(v, alpha) * v if nesterov else v)

    results = []
    for x, g, v in _by_tensor(tensors, 3):
        new = elementwise(ctx, "velocity", velocity, x, g, v, update)
        results.append((elementwise(ctx, "momentum", step, x, g, new, rate), new))
    return _by_role(results)


def _state(
    ctx: Context, x: Value, g: Value, old: Value, keep: float, norm: float, term: Callable[[ir.Expr], ir.Expr]
) -> Value:
    """`keep * old + term(regularised gradient)`."""
    return elementwise(ctx, "state", lambda s, v, d: s * like(s, keep) + term(_regularised(v, d, norm)), old, x, g)


def _regularised(x: ir.Expr, gradient: ir.Expr, norm: float) -> ir.Expr:
    return gradient + like(x, norm) * x if norm else gradient


def _from_first(update: ir.Expr, value: ir.Expr, at_start: ir.Expr) -> ir.Expr:
    """`at_start` for the update number 0, `value` for all later ones."""
    return tirx.Select(update > like(update, 0), value, at_start)


def _by_tensor(tensors: Sequence[Value], count: int) -> list[tuple[Value, ...]]:
    """The X, G and states of each tensor, `count` in all, from operands that are sorted by role."""
    if not tensors or len(tensors) % count:
        raise Unsupported(f"{len(tensors)} tensors do not make groups of {count}")
    each = len(tensors) // count
    return [tuple(tensors[i::each]) for i in range(each)]


def _by_role(results: Sequence[tuple[Value, ...]]) -> tuple[Value, ...]:
    """All new X, then all of each state."""
    return tuple(value for role in zip(*results, strict=True) for value in role)

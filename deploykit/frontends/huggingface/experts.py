"""Mixtures of experts: networks of which a router chooses a few for each token.

All experts are computed for all tokens, one after the other, and those that were not chosen count 0. So the results are
those of the chosen experts alone, and the time is that of all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tvm import ir, te, tirx

from deploykit.compiler.operators.building.expressions import compute, reduce_axis
from deploykit.compiler.operators.softmax import softmax
from deploykit.frontends.huggingface.tensors import Module, Tensor

if TYPE_CHECKING:
    from deploykit.frontends.huggingface.folder import Config


def mixture(m: Module, c: Config, x: Tensor, count: int, width: int, *, shared: bool) -> Tensor:
    """The sum of the chosen experts, each weighted by its share. Shares add up to 1 if they are `shared` among them."""
    shares = chosen(m.linear("gate", x, count, bias=False), c.num_experts_per_tok, shared=shared)
    total: Tensor | None = None
    for number in range(count):
        y = expert(m, c, x, number, width) * shares.slice(2, number, 1)
        total = y if total is None else total + y
    assert total is not None
    return total


def chosen(scores: Tensor, count: int, *, shared: bool) -> Tensor:
    """The softmax of scores (batch, length, experts) where it is among the `count` greatest of its token, 0 elsewhere.
    Of equal ones, the first are greater. They add up to 1 if they are `shared`."""
    shares = scores.of(softmax(scores.ctx, scores.value, 2))
    experts = int(scores.shape[2])

    def build(share: te.Tensor) -> te.Tensor:
        other = reduce_axis(experts, name="other")

        def rank(b: ir.Expr, s: ir.Expr, e: ir.Expr) -> ir.Expr:
            own, against = share(b, s, e), share(b, s, other.var)
            ahead = tirx.any(against > own, tirx.all(against == own, other.var < e))
            return te.sum(tirx.Select(ahead, tirx.const(1, "int64"), tirx.const(0, "int64")), axis=[other])

        ranks = compute(scores.shape, rank, name="ranks")

        def element(*index: ir.Expr) -> ir.Expr:
            return tirx.Select(ranks(*index) < count, share(*index), tirx.const(0, "float32"))

        return compute(scores.shape, element, name="chosen")

    kept = scores.of(scores.ctx.kernel("chosen", build, shares.value, dtype="float32"))
    return kept / kept.sum(2, keepdims=True) if shared else kept


def expert(m: Module, c: Config, x: Tensor, number: int, width: int) -> Tensor:
    """`(activation(x @ A) * (x @ B)) @ C` with the weights of an expert."""
    own = m[f"experts.{number}"]
    names = ("w1", "w3", "w2") if own.has("w1.weight") else ("gate_proj", "up_proj", "down_proj")
    a, b = (own.linear(name, x, width, bias=False) for name in names[:2])
    return own.linear(names[2], a.activation(c.hidden_act) * b, c.hidden_size, bias=False)

"""Steps of gradient descent, domain ai.onnx.preview.training: Adagrad, Adam, Momentum.

Inputs are the learning rate R, the count of updates T, then all tensors X to optimise, all their gradients G and all
their states, group by group; outputs are the new X and the new states. In each, g = G + norm_coefficient * X is the
gradient with regularisation. (Source: the operator schemas.)
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import ir, tirx

from deploykit.compiler.operators.elementwise import like
from deploykit.compiler.operators.errors import Unsupported
from deploykit.compiler.operators.value import Value


def groups_of(tensors: tuple[Value, ...], count: int) -> list[tuple[Value, ...]]:
    """The X, G and states of each tensor, from inputs that are sorted by role."""
    if not tensors or len(tensors) % count:
        raise Unsupported(f"{len(tensors)} tensors do not make groups of {count}")
    each = len(tensors) // count
    return [tensors[i::each] for i in range(each)]


def from_first(update: ir.Expr, value: ir.Expr, at_start: ir.Expr) -> ir.Expr:
    """`at_start` for the update number 0, `value` for all later ones."""
    return tirx.Select(update > like(update, 0), value, at_start)


def by_role(results: Sequence[tuple[Value, ...]]) -> tuple[Value, ...]:
    """All new X, then all of each state."""
    return tuple(value for role in zip(*results, strict=True) for value in role)

"""The block of encoders with a normalisation after each sum, which families share under different names.

x = norm(x + out(attention(query(x), key(x), value(x))))
x = out_norm(x + down(activation(up(x))))
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from deploykit.errors import UnsupportedModelError
from deploykit.frontends.huggingface.tensors import Module, Tensor

if TYPE_CHECKING:
    from deploykit.frontends.huggingface.folder import Config

Attention: TypeAlias = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Computes attention from queries, keys and values."""


@dataclass(frozen=True)
class Names:
    """The names of the parts of a block; by default those of BERT."""

    query: str = "attention.self.query"
    key: str = "attention.self.key"
    value: str = "attention.self.value"
    out: str = "attention.output.dense"
    norm: str = "attention.output.LayerNorm"
    up: str = "intermediate.dense"
    down: str = "output.dense"
    out_norm: str = "output.LayerNorm"


BERT = Names()


def head_size(width: int, heads: int) -> int:
    """The channels of each head. Raises `UnsupportedModelError` if the heads do not divide them."""
    size, rest = divmod(width, heads)
    if rest:
        raise UnsupportedModelError(f"{heads} heads do not divide {width} channels")
    return size


def post_norm(m: Module, c: Config, x: Tensor, attend: Attention, names: Names = BERT) -> Tensor:
    q, k, v = (m.linear(name, x, c.hidden_size) for name in (names.query, names.key, names.value))
    x = m.layer_norm(names.norm, x + m.linear(names.out, attend(q, k, v)), c.layer_norm_eps)
    y = m.linear(names.up, x, c.intermediate_size).activation(c.hidden_act)
    return m.layer_norm(names.out_norm, x + m.linear(names.down, y), c.layer_norm_eps)


def masked(c: Config, mask: Tensor) -> Attention:
    """Attention with a mask, or with what is added to the scores."""
    return lambda q, k, v: q.attend(k, v, c.num_attention_heads, mask)

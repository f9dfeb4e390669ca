"""What decoders share: a forward pass over a whole text, in which a token sees those in front of it.

`text_decoder` registers a family with its two heads: the states of all tokens, and scores of the next word after each.
`Attention` is that of Llama with what others change as data; `stack` is Llama's sum of attention and a gated network,
each behind a normalisation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from deploykit.errors import UnsupportedModelError, UsageError
from deploykit.frontends.huggingface.blocks import head_size
from deploykit.frontends.huggingface.folder import Config
from deploykit.frontends.huggingface.heads import hidden_state
from deploykit.frontends.huggingface.registry import Encoder, Head, Outputs, Text, Way, head, text_encoder, untyped
from deploykit.frontends.huggingface.rotary import Rotary, rotary, settings_of
from deploykit.frontends.huggingface.tensors import Module, Tensor
from deploykit.frontends.memory import Cached, Memory, cache_name

FULL, LOCAL = "full_attention", "sliding_attention"
"""The names of layers whose tokens see all others, and of those whose tokens see only those near them, in
`layer_types`."""

LLAMA: Mapping[str, Any] = {
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "num_key_value_heads": None,
    "head_dim": None,
    "attention_bias": False,
    "mlp_bias": False,
    "tie_word_embeddings": False,
}
"""The defaults of families like Llama."""

DECODER: Mapping[str, Any] = {"is_encoder_decoder": False, "add_cross_attention": False, "pruned_heads": {}}
"""Entries that decoders share, with the value that they are made for."""


def text_decoder(
    prefixes: Mapping[str, str],
    *,
    base: str = "model",
    table: str = "embed_tokens.weight",
    out: str = "lm_head",
    states: str = "Model",
    scores: str = "ForCausalLM",
    **facts: Any,
) -> Callable[[Encoder], Encoder]:
    """Registers a decoder and its heads. `table` is the name of the embeddings under `base`, `out` that of the layer
    for the scores of the next words. `states` and `scores` are the endings of architectures with these results. `facts`
    are those of a `Family`."""
    facts["fixed"] = {**DECODER, **facts.get("fixed", {})}
    facts["harmless"] = ("is_decoder", *facts.get("harmless", ()))
    facts.setdefault("remembers", alike)

    def register(encode: Encoder) -> Encoder:
        text_encoder(prefixes, base=base, types=untyped, **facts)(encode)
        head(prefixes, states)(hidden_state)
        head(prefixes, scores)(next_words(base, table, out))
        return encode

    return register


def next_words(base: str, table: str, out: str) -> Head:
    """Scores of all words for the place after each token; of a size below `final_logit_softcapping`, if it is there."""

    def build(m: Module, c: Config, x: Tensor, text: Text) -> Outputs:
        source = f"{m.under(base).prefix}{table}"
        tied = bool(c.tie_word_embeddings)
        weight = m.shared(f"{out}.weight", source, tied=tied)
        m.named("logits")
        y = m.product(weight, text.asked(x), int(c.vocab_size))
        cap = c.get("final_logit_softcapping")
        return {"logits": (y / cap).activation("tanh") * cap if cap else y}

    return build


@dataclass(frozen=True)
class Heads:
    """Numbers of heads of queries and of keys, and their size."""

    queries: int
    keys: int
    size: int

    @classmethod
    def of(cls, c: Config) -> Heads:
        size = c.get("head_dim") or head_size(c.hidden_size, c.num_attention_heads)
        return cls(c.num_attention_heads, c.get("num_key_value_heads") or c.num_attention_heads, size)


def alike(c: Config) -> Memory:
    """Keys and values with the same heads in all layers."""
    return cached(c, Heads.of(c))


def cached(c: Config, heads: Heads) -> Memory:
    """Keys and values with these heads in all layers."""
    return {cache_name(layer): Cached(heads.keys, heads.size) for layer in range(c.num_hidden_layers)}


Norm: TypeAlias = Callable[[Module, str, Tensor], Tensor]
"""Normalises the queries or keys (batch, length, heads * size) with the weights of that name."""


@dataclass(frozen=True)
class Attention:
    """Attention to the tokens in front. `turns` and `windows` are for each layer how its queries and keys turn by their
    positions, and how many tokens a query sees, itself included; None for not at all and for all. `bias` says whether
    queries, keys and values have one, and the result. `fused` is the name of one layer for queries, keys and values,
    one after the other; `out` that of the one for the result. `biases` are added to scores by positions (`alibi`)."""

    c: Config
    text: Text
    turns: Sequence[Rotary | None]
    windows: Sequence[int | None]
    bias: tuple[bool, bool] = (False, False)
    fused: str | None = None
    out: str = "o_proj"
    norm: Norm | None = None
    scale: float | None = None
    softcap: float | None = None
    biases: Tensor | None = None

    def __call__(self, m: Module, x: Tensor, number: int) -> Tensor:
        heads, turn = Heads.of(self.c), self.turns[number]
        q, k, v = self.projected(m, x, heads)
        if self.norm is not None:
            q, k = self.norm(m, "q_norm", q), self.norm(m, "k_norm", k)
        if turn is not None:
            q, k = turn(q, heads.queries), turn(k, heads.keys)
        y = self.attended(q, k, v, heads, number)
        return m.linear(self.out, y, self.c.hidden_size, bias=self.bias[1])

    def projected(self, m: Module, x: Tensor, heads: Heads) -> Sequence[Tensor]:
        widths = (heads.queries * heads.size, heads.keys * heads.size, heads.keys * heads.size)
        if self.fused is not None:
            return m.linear(self.fused, x, sum(widths), bias=self.bias[0]).split(2, *widths)
        names = ("q_proj", "k_proj", "v_proj")
        return [m.linear(name, x, width, bias=self.bias[0]) for name, width in zip(names, widths, strict=True)]

    def attended(self, q: Tensor, k: Tensor, v: Tensor, heads: Heads, number: int) -> Tensor:
        pair = (heads.queries, heads.keys)
        way = Way(number, pair, self.scale, self.windows[number], self.softcap or 0.0, self.biases)
        return self.text.attended(q, k, v, way)


def group_by_group(m: Module, x: Tensor, heads: Heads, *, bias: bool) -> Sequence[Tensor]:
    """Queries, keys and values of a layer that has them group by group: the queries that share a key, the key and the
    value."""
    (batch, length, _), group = x.shape, heads.queries // heads.keys
    y = m.linear("query_key_value", x, (heads.queries + 2 * heads.keys) * heads.size, bias=bias)
    parts = y.reshape(batch, length, heads.keys, group + 2, heads.size).split(3, group, 1, 1)
    counts = (heads.queries, heads.keys, heads.keys)
    return [part.reshape(batch, length, n * heads.size) for part, n in zip(parts, counts, strict=True)]


def turned(c: Config, text: Text) -> list[Rotary | None]:
    """The same rotary positions in all layers."""
    return [rotary(c, text, Heads.of(c).size, settings_of(c))] * c.num_hidden_layers


def everywhere(c: Config, window: int | None = None) -> list[int | None]:
    """The same window in all layers."""
    return [window] * c.num_hidden_layers


def kinds_of(c: Config, is_local: Callable[[int], bool]) -> list[str]:
    """The kind of each layer: what `layer_types` says, or `LOCAL` where `is_local`.

    Raises `UnsupportedModelError` for another kind, and `UsageError` for another number of layers."""
    given: list[str] = c.get("layer_types") or [LOCAL if is_local(n) else FULL for n in range(c.num_hidden_layers)]
    if other := sorted({*given} - {FULL, LOCAL}):
        raise UnsupportedModelError(f"'layer_types' in {c.path} has '{other[0]:.40}'; there are {FULL} and {LOCAL}")
    if len(given) != c.num_hidden_layers:
        raise UsageError(f"'layer_types' in {c.path} has {len(given)} entries for {c.num_hidden_layers} layers")
    return given


def by_kind(c: Config, kinds: Sequence[str]) -> list[int | None]:
    """The window of the configuration in layers of the kind `LOCAL`."""
    return [window_of(c) if kind == LOCAL else None for kind in kinds]


def window_of(c: Config) -> int | None:
    """The window of the configuration; None if it has none. Raises `UsageError` for one without a token."""
    if c.sliding_window == 0:
        raise UsageError(f"'sliding_window' is 0 in {c.path}; it must be a positive integer, or null")
    window: int | None = c.sliding_window
    return window


def by_head(c: Config, offset: float = 0.0) -> Norm:
    """Normalises each head by its root mean square."""

    def norm(m: Module, name: str, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        size = Heads.of(c).size
        split = x.reshape(batch, length, int(width) // size, size)
        return m.rms_norm(name, split, c.rms_norm_eps, offset).reshape(batch, length, width)

    return norm


Mix: TypeAlias = Callable[[Module, Tensor, int], Tensor]
"""The part of a layer after attention, by the layer's number."""


def stack(m: Module, c: Config, text: Text, attend: Attention, mix: Mix | None = None) -> Tensor:
    """The layers of Llama: `x + attention(norm(x))`, then `x + mix(norm(x))`."""
    x = m.embedding("embed_tokens", text.ids, c.vocab_size)
    for number, layer in enumerate(m.layers("layers", c.num_hidden_layers)):
        x = x + attend(layer["self_attn"], layer.rms_norm("input_layernorm", x, c.rms_norm_eps), number)
        y = layer.rms_norm("post_attention_layernorm", x, c.rms_norm_eps)
        x = x + (gated(layer["mlp"], c, y) if mix is None else mix(layer, y, number))
    return m.rms_norm("norm", x, c.rms_norm_eps)


def gated(
    m: Module, c: Config, x: Tensor, width: int | None = None, *, bias: bool = False, activation: str | None = None
) -> Tensor:
    """`(activation(x @ A) * (x @ B)) @ C`."""
    width, activation = width or c.intermediate_size, activation or c.hidden_act
    y = m.linear("gate_proj", x, width, bias=bias).activation(activation) * m.linear("up_proj", x, width, bias=bias)
    return m.linear("down_proj", y, c.hidden_size, bias=bias)

"""Falcon: attention and the network next to each other, and few keys for many queries.

    x = x + attention(norm(x)) + mlp(norm(x))

The later architecture has two normalisations and groups of queries; positions that are added to scores (`alibi`) are
refused. (Source: Almazrouei et al., "The Falcon Series of Open Language Models", 2023.)
"""

from __future__ import annotations

from deploykit.frontends.huggingface.decoders import Attention, Heads, cached, everywhere, text_decoder, turned
from deploykit.frontends.huggingface.folder import Config
from deploykit.frontends.huggingface.registry import Text
from deploykit.frontends.huggingface.tensors import Module, Tensor


def heads_of(c: Config) -> Heads:
    count = c.num_attention_heads
    keys = (c.num_kv_heads or count) if c.new_decoder_architecture else 1 if c.multi_query else count
    return Heads(count, keys, c.hidden_size // count)


@text_decoder(
    {"falcon": "Falcon"},
    base="transformer",
    table="word_embeddings.weight",
    defaults={
        "activation": "gelu",
        "layer_norm_epsilon": 1e-5,
        "rope_theta": 10000.0,
        "max_position_embeddings": 2048,
        "num_kv_heads": None,
        "num_ln_in_parallel_attn": None,
        "new_decoder_architecture": False,
        "multi_query": True,
        "parallel_attn": True,
        "bias": False,
        "ffn_hidden_size": None,
        "tie_word_embeddings": True,
    },
    remembers=lambda c: cached(c, heads_of(c)),
    fixed={"alibi": False, "apply_residual_connection_post_layernorm": False},
)
def falcon(m: Module, c: Config, text: Text) -> Tensor:
    x = m.embedding("word_embeddings", text.ids, c.vocab_size)
    attend = Attention(c, text, turned(c, text), everywhere(c))
    for number, layer in enumerate(m.layers("h", c.num_hidden_layers)):
        x = block(layer, c, x, attend, number)
    return norm(m, "ln_f", c, x)


def block(m: Module, c: Config, x: Tensor, attend: Attention, number: int) -> Tensor:
    later = c.new_decoder_architecture
    two = later and c.parallel_attn and c.num_ln_in_parallel_attn in (None, 2)
    normed = norm(m, "ln_attn" if two else "input_layernorm", c, x)
    y = attention(m["self_attention"], c, normed, attend, number)
    if two:
        normed = norm(m, "ln_mlp", c, x)
    elif not c.parallel_attn:
        normed = norm(m, "post_attention_layernorm", c, x + y)
    return x + y + mlp(m["mlp"], c, normed)


def norm(m: Module, name: str, c: Config, x: Tensor) -> Tensor:
    return m.layer_norm(name, x, c.layer_norm_epsilon)


def attention(m: Module, c: Config, x: Tensor, attend: Attention, number: int) -> Tensor:
    """The layer for queries, keys and values has them group by group: the queries that share a key, the key and the
    value."""
    turn, heads = attend.turns[number], heads_of(c)
    count, keys = heads.queries, heads.keys
    (batch, length, _), group = x.shape, count // keys
    y = m.linear("query_key_value", x, (count + 2 * keys) * heads.size, bias=c.bias)
    y = y.reshape(batch, length, keys, group + 2, heads.size)
    parts = y.split(3, group, 1, 1)
    q, k, v = (x.reshape(batch, length, n * heads.size) for x, n in zip(parts, (count, keys, keys), strict=True))
    assert turn is not None
    y = attend.attended(turn(q, heads.queries), turn(k, heads.keys), v, heads, number)
    return m.linear("dense", y, c.hidden_size, bias=c.bias)


def mlp(m: Module, c: Config, x: Tensor) -> Tensor:
    y = m.linear("dense_h_to_4h", x, c.ffn_hidden_size or 4 * c.hidden_size, bias=c.bias).activation(c.activation)
    return m.linear("dense_4h_to_h", y, c.hidden_size, bias=c.bias)

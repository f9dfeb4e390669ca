"""Falcon: attention and the network next to each other, and few keys for many queries.

    x = x + attention(norm(x)) + mlp(norm(x))

The later architecture has two normalisations and groups of queries. Positions turn queries and keys, or are added to
scores (`alibi`). (Source: Almazrouei et al., "The Falcon Series of Open Language Models", 2023.)
"""

from __future__ import annotations

from deploykit.frontends.huggingface.alibi import biases, slopes
from deploykit.frontends.huggingface.decoders import (
    Attention,
    Heads,
    cached,
    everywhere,
    group_by_group,
    text_decoder,
    turned,
)
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
        "alibi": False,
        "parallel_attn": True,
        "bias": False,
        "ffn_hidden_size": None,
        "tie_word_embeddings": True,
    },
    remembers=lambda c: cached(c, heads_of(c)),
    fixed={"apply_residual_connection_post_layernorm": False},
    harmless=("rope_parameters",),
)
def falcon(m: Module, c: Config, text: Text) -> Tensor:
    x = m.embedding("word_embeddings", text.ids, c.vocab_size)
    attend = positioned(c, text)
    for number, layer in enumerate(m.layers("h", c.num_hidden_layers)):
        x = block(layer, c, x, attend, number)
    return norm(m, "ln_f", c, x)


def positioned(c: Config, text: Text) -> Attention:
    """Attention with rotary positions, or with positions that are added to scores before these are scaled."""
    if not c.alibi:
        return Attention(c, text, turned(c, text), everywhere(c))
    heads = heads_of(c)
    table = biases(text, slopes(heads.queries), factor=heads.size**-0.5, narrow=True)
    return Attention(c, text, [None] * c.num_hidden_layers, everywhere(c), biases=table)


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
    turn, heads = attend.turns[number], heads_of(c)
    q, k, v = group_by_group(m, x, heads, bias=c.bias)
    if turn is not None:
        q, k = turn(q, heads.queries), turn(k, heads.keys)
    y = attend.attended(q, k, v, heads, number)
    return m.linear("dense", y, c.hidden_size, bias=c.bias)


def mlp(m: Module, c: Config, x: Tensor) -> Tensor:
    y = m.linear("dense_h_to_4h", x, c.ffn_hidden_size or 4 * c.hidden_size, bias=c.bias).activation(c.activation)
    return m.linear("dense_4h_to_h", y, c.hidden_size, bias=c.bias)

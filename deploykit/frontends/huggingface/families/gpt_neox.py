"""GPT-NeoX: attention and the network next to each other, and positions that turn a part of each head.

    x = x + attention(norm(x)) + mlp(other_norm(x))

(Source: Black et al., "GPT-NeoX-20B: An Open-Source Autoregressive Language Model", 2022.)
"""

from __future__ import annotations

from deploykit.frontends.huggingface.decoders import Attention, Heads, everywhere, text_decoder, turned
from deploykit.frontends.huggingface.folder import Config
from deploykit.frontends.huggingface.registry import Text
from deploykit.frontends.huggingface.tensors import Module, Tensor


@text_decoder(
    {"gpt_neox": "GPTNeoX"},
    base="gpt_neox",
    table="embed_in.weight",
    out="embed_out",
    defaults={
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "partial_rotary_factor": 0.25,
        "use_parallel_residual": True,
        "attention_bias": True,
        "tie_word_embeddings": False,
    },
    aliases={"rotary_emb_base": "rope_theta", "rotary_pct": "partial_rotary_factor"},
)
def gpt_neox(m: Module, c: Config, text: Text) -> Tensor:
    x = m.embedding("embed_in", text.ids, c.vocab_size)
    attend = Attention(c, text, turned(c, text), everywhere(c))
    for number, layer in enumerate(m.layers("layers", c.num_hidden_layers)):
        y = attention(layer["attention"], c, norm(layer, "input_layernorm", c, x), attend, number)
        other = x if c.use_parallel_residual else x + y
        x = x + y + mlp(layer["mlp"], c, norm(layer, "post_attention_layernorm", c, other))
    return norm(m, "final_layer_norm", c, x)


def norm(m: Module, name: str, c: Config, x: Tensor) -> Tensor:
    return m.layer_norm(name, x, c.layer_norm_eps)


def attention(m: Module, c: Config, x: Tensor, attend: Attention, number: int) -> Tensor:
    """The layer for queries, keys and values has them head by head."""
    (batch, length, width), heads, turn = x.shape, Heads.of(c), attend.turns[number]
    y = m.linear("query_key_value", x, 3 * c.hidden_size, bias=c.attention_bias)
    y = y.reshape(batch, length, heads.queries, 3, heads.size)
    q, k, v = (y.at(3, part).reshape(batch, length, width) for part in range(3))
    assert turn is not None
    y = attend.attended(turn(q, heads.queries), turn(k, heads.keys), v, heads, number)
    return m.linear("dense", y, c.hidden_size, bias=c.attention_bias)


def mlp(m: Module, c: Config, x: Tensor) -> Tensor:
    y = m.linear("dense_h_to_4h", x, c.intermediate_size).activation(c.hidden_act)
    return m.linear("dense_4h_to_h", y, c.hidden_size)

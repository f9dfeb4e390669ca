"""BLOOM: GPT-2 with positions that are added to scores, and normalised embeddings.

(Source: BigScience Workshop, "BLOOM: A 176B-Parameter Open-Access Multilingual Language Model", 2022.)
"""

from __future__ import annotations

from deploykit.frontends.huggingface.alibi import biases, slopes
from deploykit.frontends.huggingface.decoders import Attention, Heads, everywhere, group_by_group, text_decoder
from deploykit.frontends.huggingface.folder import Config
from deploykit.frontends.huggingface.registry import Text
from deploykit.frontends.huggingface.tensors import Module, Tensor


@text_decoder(
    {"bloom": "Bloom"},
    base="transformer",
    table="word_embeddings.weight",
    defaults={
        "layer_norm_epsilon": 1e-5,
        "max_position_embeddings": 2048,
        "tie_word_embeddings": True,
    },
    aliases={
        "n_embed": "hidden_size",
        "n_layer": "num_hidden_layers",
        "n_head": "num_attention_heads",
        "seq_length": "max_position_embeddings",
    },
    fixed={"apply_residual_connection_post_layernorm": False},
    harmless=(
        *("attention_softmax_in_fp32", "bias_dropout_fusion", "masked_softmax_fusion", "n_inner", "offset_alibi"),
        *("skip_bias_add", "skip_bias_add_qkv", "slow_but_exact"),
    ),
)
def bloom(m: Module, c: Config, text: Text) -> Tensor:
    x = norm(m, "word_embeddings_layernorm", c, m.embedding("word_embeddings", text.ids, c.vocab_size))
    count, heads = c.num_hidden_layers, Heads.of(c)
    attend = Attention(c, text, [None] * count, everywhere(c), biases=biases(text, slopes(heads.queries)))
    for number, layer in enumerate(m.layers("h", count)):
        part = layer["self_attention"]
        q, k, v = group_by_group(part, norm(layer, "input_layernorm", c, x), heads, bias=True)
        x = x + part.linear("dense", attend.attended(q, k, v, heads, number), c.hidden_size)
        x = x + mlp(layer["mlp"], c, norm(layer, "post_attention_layernorm", c, x))
    return norm(m, "ln_f", c, x)


def norm(m: Module, name: str, c: Config, x: Tensor) -> Tensor:
    return m.layer_norm(name, x, c.layer_norm_epsilon)


def mlp(m: Module, c: Config, x: Tensor) -> Tensor:
    y = m.linear("dense_h_to_4h", x, 4 * c.hidden_size).activation("gelu_pytorch_tanh")
    return m.linear("dense_4h_to_h", y, c.hidden_size)

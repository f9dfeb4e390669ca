"""OPT: GPT-2 with positions that count the tokens of the mask from 2 on, and with the normalisations behind the sums in
one of its sizes.

(Source: Zhang et al., "OPT: Open Pre-trained Transformer Language Models", 2022.)
"""

from __future__ import annotations

from deploykit.frontends.huggingface.decoders import Attention, everywhere, text_decoder
from deploykit.frontends.huggingface.folder import Config
from deploykit.frontends.huggingface.registry import Text
from deploykit.frontends.huggingface.tensors import Module, Tensor

EPSILON = 1e-5


@text_decoder(
    {"opt": "OPT"},
    base="model.decoder",
    defaults={
        "hidden_act": "relu",
        "do_layer_norm_before": True,
        "enable_bias": True,
        "_remove_final_layer_norm": False,
        "word_embed_proj_dim": None,
        "tie_word_embeddings": True,
    },
    aliases={"ffn_dim": "intermediate_size", "activation_function": "hidden_act"},
    fixed={"layer_norm_elementwise_affine": True},
)
def opt(m: Module, c: Config, text: Text) -> Tensor:
    m = m.under("decoder")
    projected = c.word_embed_proj_dim not in (None, c.hidden_size)
    x = m.embedding("embed_tokens", text.ids, c.vocab_size)
    x = m.linear("project_in", x, c.hidden_size, bias=False) if projected else x
    x = x + m.embedding("embed_positions", text.numbers() + 1, c.max_position_embeddings + 2)
    bias = (c.enable_bias, c.enable_bias)
    attend = Attention(c, text, [None] * c.num_hidden_layers, everywhere(c), bias, out="out_proj")
    for number, layer in enumerate(m.layers("layers", c.num_hidden_layers)):
        x = block(layer, c, x, attend, number)
    if c.do_layer_norm_before and not c["_remove_final_layer_norm"]:
        x = m.layer_norm("final_layer_norm", x, EPSILON)
    return m.linear("project_out", x, c.word_embed_proj_dim, bias=False) if projected else x


def block(m: Module, c: Config, x: Tensor, attend: Attention, number: int) -> Tensor:
    def mlp(x: Tensor) -> Tensor:
        y = m.linear("fc1", x, c.intermediate_size, bias=c.enable_bias).activation(c.hidden_act)
        return m.linear("fc2", y, c.hidden_size, bias=c.enable_bias)

    def norm(name: str, x: Tensor) -> Tensor:
        return m.layer_norm(name, x, EPSILON)

    if c.do_layer_norm_before:
        x = x + attend(m["self_attn"], norm("self_attn_layer_norm", x), number)
        return x + mlp(norm("final_layer_norm", x))
    x = norm("self_attn_layer_norm", x + attend(m["self_attn"], x, number))
    return norm("final_layer_norm", x + mlp(x))

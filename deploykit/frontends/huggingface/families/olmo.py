"""OLMo 2: Llama with the normalisations behind attention and the gated network, and with normalised queries and keys.

(Source: OLMo team, "2 OLMo 2 Furious", 2024.)
"""

from __future__ import annotations

from deploykit.frontends.huggingface.decoders import LLAMA, Attention, everywhere, gated, text_decoder, turned
from deploykit.frontends.huggingface.folder import Config
from deploykit.frontends.huggingface.registry import Text
from deploykit.frontends.huggingface.tensors import Module, Tensor


@text_decoder({"olmo2": "Olmo2"}, defaults={**LLAMA, "rms_norm_eps": 1e-5})
def olmo2(m: Module, c: Config, text: Text) -> Tensor:
    def whole(part: Module, name: str, x: Tensor) -> Tensor:
        return part.rms_norm(name, x, c.rms_norm_eps)

    bias = (c.attention_bias, c.attention_bias)
    attend = Attention(c, text, turned(c, text), everywhere(c), bias, norm=whole)
    x = m.embedding("embed_tokens", text.ids, c.vocab_size)
    for number, layer in enumerate(m.layers("layers", c.num_hidden_layers)):
        x = x + layer.rms_norm("post_attention_layernorm", attend(layer["self_attn"], x, number), c.rms_norm_eps)
        x = x + layer.rms_norm("post_feedforward_layernorm", gated(layer["mlp"], c, x), c.rms_norm_eps)
    return m.rms_norm("norm", x, c.rms_norm_eps)

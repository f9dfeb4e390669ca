"""Llama, Mistral and SmolLM3: rotary positions, groups of queries that share a key, and a gated network.

Mistral's tokens see a window in front of them. Some layers of SmolLM3 have no positions. (Sources: Touvron et al.,
"LLaMA: Open and Efficient Foundation Language Models", 2023; Jiang et al., "Mistral 7B", 2023.)
"""

from __future__ import annotations

from deploykit.frontends.huggingface.decoders import (
    LLAMA,
    Attention,
    by_kind,
    everywhere,
    gated,
    kinds_of,
    stack,
    text_decoder,
    turned,
    window_of,
)
from deploykit.frontends.huggingface.folder import Config
from deploykit.frontends.huggingface.registry import Text
from deploykit.frontends.huggingface.tensors import Module, Tensor


@text_decoder({"llama": "Llama"}, defaults=LLAMA, fixed={"rope_interleaved": False})
def llama(m: Module, c: Config, text: Text) -> Tensor:
    bias = (c.attention_bias, c.attention_bias)
    attend = Attention(c, text, turned(c, text), everywhere(c), bias)
    return stack(m, c, text, attend, lambda layer, x, _: gated(layer["mlp"], c, x, bias=c.mlp_bias))


@text_decoder({"mistral": "Mistral"}, defaults={**LLAMA, "sliding_window": 4096}, fixed={"layer_types": None})
def mistral(m: Module, c: Config, text: Text) -> Tensor:
    return stack(m, c, text, Attention(c, text, turned(c, text), everywhere(c, window_of(c))))


@text_decoder(
    {"smollm3": "SmolLM3"},
    defaults={
        **LLAMA,
        "rope_theta": 2000000.0,
        "no_rope_layers": None,
        "no_rope_layer_interval": 4,
        "layer_types": None,
        "use_sliding_window": False,
        "sliding_window": None,
        "tie_word_embeddings": True,
    },
    harmless=("max_window_layers",),
)
def smollm3(m: Module, c: Config, text: Text) -> Tensor:
    numbers = range(c.num_hidden_layers)
    turns = c.no_rope_layers or [(number + 1) % c.no_rope_layer_interval != 0 for number in numbers]
    local = c.use_sliding_window and c.sliding_window is not None
    kinds = kinds_of(c, lambda number: local and not turns[number])
    attend = Attention(
        c,
        text,
        [turn if turns[number] else None for number, turn in enumerate(turned(c, text))],
        by_kind(c, kinds),
        (c.attention_bias, c.attention_bias),
    )
    return stack(m, c, text, attend, lambda layer, x, _: gated(layer["mlp"], c, x, bias=c.mlp_bias))

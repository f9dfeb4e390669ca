"""Gemma 1 to 3: Llama with embeddings that are scaled, and scales of normalisations that count from 1.

Gemma 2 and 3 normalise the results of attention and of the gated network, too, and have layers with a window. Gemma 2
limits scores; Gemma 3 normalises queries and keys and turns those of layers with a window faster. (Sources: "Gemma",
2024; "Gemma 2", 2024; "Gemma 3 Technical Report", 2025.)
"""

from __future__ import annotations

from deploykit.frontends.huggingface.decoders import (
    FULL,
    LLAMA,
    LOCAL,
    Attention,
    Heads,
    by_head,
    by_kind,
    everywhere,
    gated,
    kinds_of,
    text_decoder,
    turned,
)
from deploykit.frontends.huggingface.folder import Config
from deploykit.frontends.huggingface.registry import Text
from deploykit.frontends.huggingface.rotary import rotary, settings_of
from deploykit.frontends.huggingface.tensors import Module, Tensor

GELU = "gelu_pytorch_tanh"
GEMMA = {**LLAMA, "hidden_act": GELU, "head_dim": 256, "tie_word_embeddings": True}
LATER = {
    **GEMMA,
    "hidden_activation": GELU,
    "query_pre_attn_scalar": 256,
    "sliding_window": 4096,
    "layer_types": None,
    "final_logit_softcapping": None,
}
ONE_SIDED = {"use_bidirectional_attention": False}


@text_decoder({"gemma": "Gemma"}, defaults=GEMMA, fixed=ONE_SIDED, harmless=("hidden_activation",))
def gemma(m: Module, c: Config, text: Text) -> Tensor:
    attend = Attention(c, text, turned(c, text), everywhere(c), (c.attention_bias, c.attention_bias))
    x = embedded(m, c, text)
    for number, layer in enumerate(m.layers("layers", c.num_hidden_layers)):
        x = x + attend(layer["self_attn"], norm(layer, "input_layernorm", c, x), number)
        y = norm(layer, "post_attention_layernorm", c, x)
        x = x + gated(layer["mlp"], c, y, activation=GELU if c.hidden_act == "gelu" else c.hidden_act)
    return norm(m, "norm", c, x)


@text_decoder(
    {"gemma2": "Gemma2"},
    defaults={**LATER, "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0},
    fixed=ONE_SIDED,
    harmless=("sliding_window_size",),
)
def gemma2(m: Module, c: Config, text: Text) -> Tensor:
    kinds = kinds_of(c, lambda number: number % 2 == 0)
    attend = Attention(
        c,
        text,
        turned(c, text),
        by_kind(c, kinds),
        (c.attention_bias, c.attention_bias),
        scale=c.query_pre_attn_scalar**-0.5,
        softcap=c.attn_logit_softcapping,
    )
    return between_norms(m, c, text, attend)


@text_decoder(
    {"gemma3_text": "Gemma3"},
    states="TextModel",
    aliases={"_sliding_window_pattern": "sliding_window_pattern"},
    defaults={**LATER, "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0, "sliding_window_pattern": 6},
    fixed={**ONE_SIDED, "attn_logit_softcapping": None},
)
def gemma3(m: Module, c: Config, text: Text) -> Tensor:
    kinds = kinds_of(c, lambda number: (number + 1) % c.sliding_window_pattern != 0)
    size = Heads.of(c).size
    turns = {
        FULL: rotary(c, text, size, settings_of(c, FULL)),
        LOCAL: rotary(c, text, size, settings_of(c, LOCAL, "rope_local_base_freq", scaled=False)),
    }
    attend = Attention(
        c,
        text,
        [turns[kind] for kind in kinds],
        by_kind(c, kinds),
        (c.attention_bias, c.attention_bias),
        norm=by_head(c, offset=1.0),
        scale=c.query_pre_attn_scalar**-0.5,
    )
    return between_norms(m, c, text, attend)


def embedded(m: Module, c: Config, text: Text) -> Tensor:
    return m.embedding("embed_tokens", text.ids, c.vocab_size) * float(c.hidden_size**0.5)


def norm(m: Module, name: str, c: Config, x: Tensor) -> Tensor:
    return m.rms_norm(name, x, c.rms_norm_eps, offset=1.0)


def between_norms(m: Module, c: Config, text: Text, attend: Attention) -> Tensor:
    """Layers whose parts have a normalisation in front and one behind."""
    x = embedded(m, c, text)
    for number, layer in enumerate(m.layers("layers", c.num_hidden_layers)):
        y = attend(layer["self_attn"], norm(layer, "input_layernorm", c, x), number)
        x = x + norm(layer, "post_attention_layernorm", c, y)
        y = norm(layer, "pre_feedforward_layernorm", c, x)
        y = gated(layer["mlp"], c, y, activation=c.hidden_activation)
        x = x + norm(layer, "post_feedforward_layernorm", c, y)
    return norm(m, "norm", c, x)

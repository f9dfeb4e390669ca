"""LFM2: short convolutions between two gates, and attention in a few layers.

    x = x + out(c * conv(b * a))    with b, c, a = in(norm(x))

(Source: Liquid AI, "LFM2 Technical Report", 2025.)
"""

from __future__ import annotations

from deploykit.errors import UnsupportedModelError, UsageError
from deploykit.frontends.huggingface.decoders import (
    FULL,
    LLAMA,
    Attention,
    Heads,
    by_head,
    everywhere,
    text_decoder,
    turned,
)
from deploykit.frontends.huggingface.folder import Config
from deploykit.frontends.huggingface.recurrences import short_convolution
from deploykit.frontends.huggingface.registry import Text
from deploykit.frontends.huggingface.tensors import Module, Tensor
from deploykit.frontends.memory import Cached, Carried, Memory, cache_name, taps_name

CONV = "conv"
"""The name of layers with a convolution, in `layer_types`."""


def kinds_of(c: Config) -> list[str]:
    """The kind of each layer. Raises `UnsupportedModelError` for another kind, and `UsageError` for another number of
    layers."""
    numbers = range(c.num_hidden_layers)
    attending = numbers if c.full_attn_idxs is None else c.full_attn_idxs
    given: list[str] = c.layer_types or [FULL if number in attending else CONV for number in numbers]
    if other := sorted({*given} - {FULL, CONV}):
        raise UnsupportedModelError(f"'layer_types' in {c.path} has '{other[0]:.40}'; there are {FULL} and {CONV}")
    if len(given) != c.num_hidden_layers:
        raise UsageError(f"'layer_types' in {c.path} has {len(given)} entries for {c.num_hidden_layers} layers")
    return given


def remembers(c: Config) -> Memory:
    heads, found = Heads.of(c), dict[str, Cached | Carried]()
    for number, kind in enumerate(kinds_of(c)):
        if kind == FULL:
            found[cache_name(number)] = Cached(heads.keys, heads.size)
        else:
            found[taps_name(number)] = Carried(c.conv_L_cache - 1, c.hidden_size)
    return found


@text_decoder(
    {"lfm2": "Lfm2"},
    defaults={
        **LLAMA,
        "rms_norm_eps": 1e-5,
        "rope_theta": 1000000.0,
        "max_position_embeddings": 128000,
        "tie_word_embeddings": True,
        "layer_types": None,
        "full_attn_idxs": None,
        "conv_L_cache": 3,
        "conv_bias": False,
        "block_auto_adjust_ff_dim": True,
        "block_ffn_dim_multiplier": 1.0,
        "block_multiple_of": 256,
    },
    aliases={
        "norm_eps": "rms_norm_eps",
        "block_ff_dim": "intermediate_size",
        "tie_embedding": "tie_word_embeddings",
        "conv_dim": "conv_dim_in",
    },
    fixed={"block_use_swiglu": True, "use_pos_enc": True},
    harmless=(
        *("block_dim", "block_norm_eps", "block_mlp_init_scale", "block_out_init_scale", "block_use_xavier_init"),
        *("conv_dim_in", "conv_dim_out", "conv_use_xavier_init", "num_heads"),
    ),
    remembers=remembers,
)
def lfm2(m: Module, c: Config, text: Text) -> Tensor:
    def norm(layer: Module, name: str, x: Tensor) -> Tensor:
        return by_head(c)(layer, name.replace("_norm", "_layernorm"), x)

    attend = Attention(c, text, turned(c, text), everywhere(c), out="out_proj", norm=norm)
    x = m.embedding("embed_tokens", text.ids, c.vocab_size)
    kinds = kinds_of(c)
    for number, layer in enumerate(m.layers("layers", c.num_hidden_layers)):
        y = layer.rms_norm("operator_norm", x, c.rms_norm_eps)
        x = x + (attend(layer["self_attn"], y, number) if kinds[number] == FULL else conv(layer, c, text, y, number))
        x = x + feed_forward(layer["feed_forward"], c, layer.rms_norm("ffn_norm", x, c.rms_norm_eps))
    return m.rms_norm("embedding_norm", x, c.rms_norm_eps)


def conv(layer: Module, c: Config, text: Text, x: Tensor, number: int) -> Tensor:
    m, width = layer["conv"], c.hidden_size
    first, second, x = m.linear("in_proj", text.counting(x), 3 * width, bias=c.conv_bias).split(2, *[width] * 3)
    y = short_convolution(m, "conv", text, number, first * x, c.conv_L_cache, bias=c.conv_bias)
    return m.linear("out_proj", second * y, width, bias=c.conv_bias)


def feed_forward(m: Module, c: Config, x: Tensor) -> Tensor:
    width = inner(c)
    y = m.linear("w1", x, width, bias=False).activation("silu") * m.linear("w3", x, width, bias=False)
    return m.linear("w2", y, c.hidden_size, bias=False)


def inner(c: Config) -> int:
    """The width of the network: with `block_auto_adjust_ff_dim`, two thirds of what the configuration says, times a
    factor, up to a whole number of blocks."""
    width = int(c.intermediate_size)
    if not c.block_auto_adjust_ff_dim:
        return width
    width = int(2 * width / 3)
    if c.block_ffn_dim_multiplier is None:
        return width
    block = int(c.block_multiple_of)
    return -(-int(c.block_ffn_dim_multiplier * width) // block) * block

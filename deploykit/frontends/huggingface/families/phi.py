"""Phi-3 and Phi-4: Llama with one layer for queries, keys and values, and one for both inputs of the gated network.

With frequencies for long texts, texts are limited to the length that the model was first trained for. (Source: Abdin et
al., "Phi-3 Technical Report", 2024.)
"""

from __future__ import annotations

from deploykit.frontends.huggingface.decoders import LLAMA, Attention, Heads, everywhere, stack, text_decoder, window_of
from deploykit.frontends.huggingface.folder import Config
from deploykit.frontends.huggingface.registry import Text
from deploykit.frontends.huggingface.rotary import rotary, settings_of
from deploykit.frontends.huggingface.tensors import Module, Tensor


def positions(c: Config) -> int:
    """Frequencies of longer texts would be others, for the whole text."""
    scaling = c.get("rope_parameters") or c.get("rope_scaling") or {}
    scaled = scaling.get("rope_type", scaling.get("type", "default")) != "default"
    trained = c.get("original_max_position_embeddings") or c.max_position_embeddings
    return int(trained if scaled else c.max_position_embeddings)


@text_decoder(
    {"phi3": "Phi3"},
    positions=positions,
    defaults={**LLAMA, "rms_norm_eps": 1e-5, "sliding_window": None},
    fixed={"attention_bias": False, "mlp_bias": False, "lm_head_bias": False},
    harmless=("original_max_position_embeddings", "full_attn_mod", "interpolate_factor"),
)
def phi3(m: Module, c: Config, text: Text) -> Tensor:
    settings = settings_of(c)
    if settings.get("rope_type", settings.get("type")) == "yarn":  # the name of longrope in older configurations
        settings = {**settings, "rope_type": "longrope"}
    turns = [rotary(c, text, Heads.of(c).size, settings)] * c.num_hidden_layers
    attend = Attention(c, text, turns, everywhere(c, window_of(c)), fused="qkv_proj")
    return stack(m, c, text, attend, lambda layer, x, _: mlp(layer["mlp"], c, x))


def mlp(m: Module, c: Config, x: Tensor) -> Tensor:
    width = c.intermediate_size
    a, b = m.linear("gate_up_proj", x, 2 * width, bias=False).split(2, width, width)
    return m.linear("down_proj", a.activation(c.hidden_act) * b, c.hidden_size, bias=False)

"""Qwen 2 and 3: Llama with biases of queries, keys and values, or with normalised queries and keys.

(Sources: Yang et al., "Qwen2 Technical Report", 2024; "Qwen3 Technical Report", 2025.)
"""

from __future__ import annotations

from deploykit.frontends.huggingface.decoders import (
    LLAMA,
    Attention,
    by_head,
    by_kind,
    everywhere,
    kinds_of,
    stack,
    text_decoder,
    turned,
)
from deploykit.frontends.huggingface.folder import Config
from deploykit.frontends.huggingface.registry import Text
from deploykit.frontends.huggingface.tensors import Module, Tensor

QWEN = {**LLAMA, "use_sliding_window": False, "sliding_window": 4096, "max_window_layers": 28, "layer_types": None}


@text_decoder({"qwen2": "Qwen2"}, defaults=QWEN, fixed={"use_mrope": False})
def qwen2(m: Module, c: Config, text: Text) -> Tensor:
    return stack(m, c, text, Attention(c, text, turned(c, text), windows(c), (True, False)))


@text_decoder({"qwen3": "Qwen3"}, defaults={**QWEN, "head_dim": 128})
def qwen3(m: Module, c: Config, text: Text) -> Tensor:
    bias = (c.attention_bias, c.attention_bias)
    return stack(m, c, text, Attention(c, text, turned(c, text), windows(c), bias, norm=by_head(c)))


def windows(c: Config) -> list[int | None]:
    """Layers from `max_window_layers` on have a window, unless `layer_types` says which have."""
    if not c.use_sliding_window:
        return everywhere(c)
    return by_kind(c, kinds_of(c, lambda number: number >= c.max_window_layers))

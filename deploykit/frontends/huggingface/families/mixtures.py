"""Mixtral and the mixtures of Qwen 2 and 3: networks that are chosen for each token take the place of one.

All of them are computed (`experts.py`), so these are right, not fast. (Sources: Jiang et al., "Mixtral of Experts",
2024; "Qwen2 Technical Report", 2024; "Qwen3 Technical Report", 2025.)
"""

from __future__ import annotations

from deploykit.compiler.operators.elementwise import sigmoid
from deploykit.frontends.huggingface.decoders import (
    LLAMA,
    Attention,
    by_head,
    by_kind,
    everywhere,
    gated,
    kinds_of,
    stack,
    text_decoder,
    turned,
    window_of,
)
from deploykit.frontends.huggingface.experts import mixture
from deploykit.frontends.huggingface.families.qwen import QWEN
from deploykit.frontends.huggingface.folder import Config
from deploykit.frontends.huggingface.registry import Text
from deploykit.frontends.huggingface.tensors import Module, Tensor

ROUTER = ("output_router_logits", "router_aux_loss_coef", "router_jitter_noise")
"""Entries that change the training of a router."""

SPARSE = {**QWEN, "decoder_sparse_step": 1, "mlp_only_layers": None, "norm_topk_prob": False}


@text_decoder(
    {"mixtral": "Mixtral"},
    defaults={**LLAMA, "rms_norm_eps": 1e-5, "rope_theta": 1000000.0, "sliding_window": None},
    aliases={"num_experts": "num_local_experts"},
    harmless=ROUTER,
)
def mixtral(m: Module, c: Config, text: Text) -> Tensor:
    def mix(layer: Module, x: Tensor, _: int) -> Tensor:
        return mixture(layer["block_sparse_moe"], c, x, c.num_local_experts, c.intermediate_size, shared=True)

    return stack(m, c, text, Attention(c, text, turned(c, text), everywhere(c, window_of(c))), mix)


@text_decoder(
    {"qwen2_moe": "Qwen2Moe"},
    defaults={**SPARSE, "qkv_bias": True},
    harmless=(*ROUTER, "intermediate_size"),
)
def qwen2_moe(m: Module, c: Config, text: Text) -> Tensor:
    """A network that all tokens share is added, weighted by a gate."""

    def mix(layer: Module, x: Tensor, number: int) -> Tensor:
        part = layer["mlp"]
        if not is_sparse(c, number):
            return gated(part, c, x)
        y = mixture(part, c, x, c.num_experts, c.moe_intermediate_size, shared=c.norm_topk_prob)
        gate = part.linear("shared_expert_gate", x, 1, bias=False).elementwise("sigmoid", sigmoid)
        return y + gated(part["shared_expert"], c, x, c.shared_expert_intermediate_size) * gate

    kinds = kinds_of(c, lambda number: number % 2 == 0 and number < c.max_window_layers)
    windows = by_kind(c, kinds) if c.use_sliding_window else everywhere(c)
    return stack(m, c, text, Attention(c, text, turned(c, text), windows, (c.qkv_bias, False)), mix)


@text_decoder(
    {"qwen3_moe": "Qwen3Moe"},
    defaults=SPARSE,
    aliases={"num_local_experts": "num_experts"},
    harmless=(*ROUTER, "intermediate_size"),
)
def qwen3_moe(m: Module, c: Config, text: Text) -> Tensor:
    def mix(layer: Module, x: Tensor, number: int) -> Tensor:
        if not is_sparse(c, number):
            return gated(layer["mlp"], c, x)
        return mixture(layer["mlp"], c, x, c.num_experts, c.moe_intermediate_size, shared=c.norm_topk_prob)

    windows = everywhere(c, window_of(c) if c.use_sliding_window else None)
    bias = (c.attention_bias, c.attention_bias)
    return stack(m, c, text, Attention(c, text, turned(c, text), windows, bias, norm=by_head(c)), mix)


def is_sparse(c: Config, number: int) -> bool:
    """Whether a layer has experts."""
    return number not in (c.mlp_only_layers or ()) and (number + 1) % c.decoder_sparse_step == 0

"""MPT: GPT-2 without biases, with positions that are added to scores.

The entry `attn_config` has entries of its own. Its `alibi_bias_max` counts, as in the code that came with the models;
transformers takes 8 in its place. (Source: MosaicML, "Introducing MPT-7B", 2023.)
"""

from __future__ import annotations

from tvm import tirx

from deploykit.errors import UnsupportedModelError
from deploykit.frontends.huggingface.alibi import biases, slopes
from deploykit.frontends.huggingface.complete import is_harmless
from deploykit.frontends.huggingface.decoders import Attention, Heads, everywhere, text_decoder
from deploykit.frontends.huggingface.entries import POSITIVE, check_settings
from deploykit.frontends.huggingface.folder import Config
from deploykit.frontends.huggingface.registry import Text
from deploykit.frontends.huggingface.tensors import Module, Tensor

FIXED = {
    "attn_type": "multihead_attention",
    "prefix_lm": False,
    "qk_ln": False,
    "attn_uses_sequence_id": False,
    "alibi": True,
}
"""Entries of `attn_config` with the values that are computed."""

NUMBERS = dict.fromkeys(("clip_qkv", "softmax_scale", "alibi_bias_max"), POSITIVE)


@text_decoder(
    {"mpt": "Mpt"},
    base="transformer",
    table="wte.weight",
    defaults={
        "layer_norm_epsilon": 1e-5,
        "max_position_embeddings": 2048,
        "tie_word_embeddings": True,
        "attn_config": {},
    },
    aliases={
        "d_model": "hidden_size",
        "n_heads": "num_attention_heads",
        "n_layers": "num_hidden_layers",
        "max_seq_len": "max_position_embeddings",
    },
    fixed={"no_bias": True, "expansion_ratio": 4, "logit_scale": None},
    harmless=("learned_pos_emb", "init_device", "embedding_fraction", "norm_type", "init_config", "verbose"),
)
def mpt(m: Module, c: Config, text: Text) -> Tensor:
    given = settings_of(c)
    x = m.embedding("wte", text.ids, c.vocab_size)
    heads, count = Heads.of(c), c.num_hidden_layers
    table = biases(text, slopes(heads.queries, given.get("alibi_bias_max") or 8))
    attend = Attention(c, text, [None] * count, everywhere(c), scale=given.get("softmax_scale"), biases=table)
    for number, layer in enumerate(m.layers("blocks", count)):
        q, k, v = projected(layer["attn"], c, norm(layer, "norm_1", c, x), given.get("clip_qkv"))
        y = attend.attended(q, k, v, heads, number)
        x = x + layer["attn"].linear("out_proj", y, c.hidden_size, bias=False)
        x = x + mlp(layer["ffn"], c, norm(layer, "norm_2", c, x))
    return norm(m, "norm_f", c, x)


def settings_of(c: Config) -> Config:
    """The entries of `attn_config`. Raises `UnsupportedModelError` for one that changes results otherwise, and
    `UsageError` for one of another type."""
    given = c.part("attn_config")
    check_settings(c.path, given.entries, NUMBERS)
    for name, value in given.items():
        if name in FIXED and value != FIXED[name]:
            reason = f"computes only {FIXED[name]!r}"
        elif value and name not in FIXED and name not in NUMBERS and not is_harmless(name):
            reason = "does not know this entry; delete it if it does not change results"
        else:
            continue
        where = f"'{name}' of 'attn_config' is {value!r} in {c.path}"
        raise UnsupportedModelError(f"{where}; the importer of models of type 'mpt' {reason}")
    return given


def norm(m: Module, name: str, c: Config, x: Tensor) -> Tensor:
    return m.layer_norm(name, x, c.layer_norm_epsilon, bias=False)


def projected(m: Module, c: Config, x: Tensor, clip: float | None) -> list[Tensor]:
    """Queries, keys and values, whose numbers have at most the magnitude `clip`; None: any."""
    y = m.linear("Wqkv", x, 3 * c.hidden_size, bias=False)
    if clip is not None:
        low, high = tirx.const(-clip, "float32"), tirx.const(clip, "float32")
        y = y.elementwise("clip", lambda v: tirx.max(tirx.min(v, high), low))
    return y.split(2, *[c.hidden_size] * 3)


def mlp(m: Module, c: Config, x: Tensor) -> Tensor:
    y = m.linear("up_proj", x, 4 * c.hidden_size, bias=False).activation("gelu")
    return m.linear("down_proj", y, c.hidden_size, bias=False)

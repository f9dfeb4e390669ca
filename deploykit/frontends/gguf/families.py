"""What a GGUF file calls a configuration and weights, in the terms of a Hugging Face folder.

`general.architecture` names a family; most entries of its configuration have names that begin with it. Weights have
names by their place, `blk.3.attn_q.weight`. Some were changed when the file was made, which is undone here: the rows
of queries and keys of Llama are in the order of pairs of channels that are next to each other, and the weights of
Gemma's normalisations are increased by 1. (Source: the conversion of llama.cpp, `convert_hf_to_gguf.py`.)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from deploykit.errors import UnsupportedModelError, UsageError
from deploykit.frontends.gguf.reader import Gguf

Entries = Mapping[str, Any]
"""The metadata that begins with the name of the architecture, without that."""

OUTSIDE: Mapping[str, str] = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}

INSIDE: Mapping[str, str] = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
"""Names of the parts of a layer."""

AROUND: Mapping[str, str] = {
    "ffn_norm": "pre_feedforward_layernorm",
    "post_attention_norm": "post_attention_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
"""Those of layers with normalisations in front of their parts and behind them."""

FACTORS = ("rope_freqs.weight", "rope_factors_short.weight", "rope_factors_long.weight")
"""Tensors of what the frequencies of rotary positions are divided by: in texts of any length, in those as long as the
texts of the training, in longer ones."""

Change = Callable[[Entries, str, np.ndarray], np.ndarray]
"""A weight, by its name, as a folder has it."""


def unchanged(_entries: Entries, _name: str, array: np.ndarray) -> np.ndarray:
    return array


def split_halves(entries: Entries, name: str, array: np.ndarray) -> np.ndarray:
    """The rows of queries and keys in the order of two halves."""
    place = re.fullmatch(r"blk\.\d+\.attn_([qk])\.(weight|bias)", name)
    if place is None:
        return array
    heads = entries["attention.head_count"]
    if place[1] == "k":
        heads = entries.get("attention.head_count_kv", heads)
    if array.shape[0] % (2 * heads):
        raise UsageError(f"'{name}' has {array.shape[0]} rows, which {heads} heads cannot share: the file is damaged")
    pairs = array.reshape(heads, array.shape[0] // heads // 2, 2, *array.shape[1:])
    return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(array.shape)


def lowered_norms(_entries: Entries, name: str, array: np.ndarray) -> np.ndarray:
    return array - np.float32(1) if name.endswith("norm.weight") else array


def nothing(_entries: Entries) -> dict[str, Any]:
    return {}


@dataclass(frozen=True)
class GgufFamily:
    """`model_type` and `architecture` are those of a folder, `names` those of parts of a layer, `more` gives entries
    that other families do not have."""

    model_type: str
    architecture: str
    names: Mapping[str, str] = field(default_factory=lambda: INSIDE)
    change: Change = unchanged
    more: Callable[[Entries], dict[str, Any]] = nothing


def _phi3(entries: Entries) -> dict[str, Any]:
    return {"sliding_window": entries.get("attention.sliding_window") or None}


def _gemma(entries: Entries, large: int) -> dict[str, Any]:
    """`large` is the number of layers of the model whose queries are scaled by their share of the channels."""
    heads, size = entries["attention.head_count"], entries["attention.key_length"]
    scale = entries["embedding_length"] // heads if entries["block_count"] == large else size
    return {
        "query_pre_attn_scalar": scale,
        "hidden_activation": "gelu_pytorch_tanh",
        "sliding_window": entries.get("attention.sliding_window"),
    }


def _gemma2(entries: Entries) -> dict[str, Any]:
    return _gemma(entries, 46) | {
        "attn_logit_softcapping": entries.get("attn_logit_softcapping", 50.0),
        "final_logit_softcapping": entries.get("final_logit_softcapping", 30.0),
    }


def _gemma3(entries: Entries) -> dict[str, Any]:
    return _gemma(entries, 62) | {"final_logit_softcapping": entries.get("final_logit_softcapping")}


FAMILIES: Mapping[str, GgufFamily] = {
    "llama": GgufFamily("llama", "LlamaForCausalLM", change=split_halves),
    "qwen2": GgufFamily("qwen2", "Qwen2ForCausalLM"),
    "qwen3": GgufFamily("qwen3", "Qwen3ForCausalLM"),
    "gemma2": GgufFamily("gemma2", "Gemma2ForCausalLM", {**INSIDE, **AROUND}, lowered_norms, _gemma2),
    "gemma3": GgufFamily("gemma3_text", "Gemma3ForCausalLM", {**INSIDE, **AROUND}, lowered_norms, _gemma3),
    "phi3": GgufFamily(
        "phi3",
        "Phi3ForCausalLM",
        {**INSIDE, "attn_qkv": "self_attn.qkv_proj", "ffn_up": "mlp.gate_up_proj"},
        more=_phi3,
    ),
}
"""By `general.architecture`."""


def family_of(file: Gguf) -> GgufFamily:
    """Raises `UnsupportedModelError` for an architecture without a family, and for a mixture of experts."""
    name = file.metadata.get("general.architecture")
    if not isinstance(name, str) or name not in FAMILIES:
        raise UnsupportedModelError(f"{file.path} has the architecture {name!r:.60}; there are {', '.join(FAMILIES)}")
    if entries_of(file).get("expert_count"):
        raise UnsupportedModelError(f"{file.path} is a mixture of experts, which is not supported in GGUF files")
    return FAMILIES[name]


def entries_of(file: Gguf) -> dict[str, Any]:
    prefix = f"{file.metadata['general.architecture']}."
    return {name.removeprefix(prefix): value for name, value in file.metadata.items() if name.startswith(prefix)}


def config_of(file: Gguf, words: int, factors: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The configuration. `words` is the number of words, `factors` are those of `FACTORS` that the file has.

    Raises `UsageError` for an entry that is missing or of another type."""
    family, entries = family_of(file), entries_of(file)

    def number(name: str, kind: type = int) -> Any:
        found: Any = entries.get(name)
        if isinstance(found, bool) or not isinstance(found, kind) or found <= 0:  # type: ignore[operator]
            raise UsageError(
                f"'{file.metadata['general.architecture']}.{name}' in {file.path} is {found!r:.60}; it must be positive"
            )
        return found

    heads, longest = number("attention.head_count"), number("context_length")
    config: dict[str, Any] = {
        "model_type": family.model_type,
        "architectures": [family.architecture],
        "hidden_size": number("embedding_length"),
        "intermediate_size": number("feed_forward_length"),
        "num_hidden_layers": number("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": number("attention.head_count_kv") if "attention.head_count_kv" in entries else heads,
        "rms_norm_eps": number("attention.layer_norm_rms_epsilon", float),
        "rope_theta": entries.get("rope.freq_base", 10000.0),
        "max_position_embeddings": longest,
        "vocab_size": words,
        "tie_word_embeddings": "output.weight" not in file.tensors,
    }
    if "attention.key_length" in entries:
        config["head_dim"] = number("attention.key_length")
    entries.setdefault("attention.key_length", config["hidden_size"] // heads)
    channels = entries.get("rope.dimension_count", entries["attention.key_length"])
    if channels != entries["attention.key_length"]:
        config["partial_rotary_factor"] = channels / entries["attention.key_length"]
    if (scaling := _scaling(entries, longest, factors)) is not None:
        config["rope_scaling"] = scaling
    return config | family.more(entries)


def _scaling(entries: Entries, longest: int, factors: Mapping[str, np.ndarray]) -> dict[str, Any] | None:
    """The settings of rotary positions that are not as usual."""
    trained = entries.get("rope.scaling.original_context_length")
    if factors:
        always = factors.get(FACTORS[0])
        short, long = (factors.get(name) if always is None else always for name in FACTORS[1:])
        found = {
            "rope_type": "longrope",
            "short_factor": None if short is None else short.tolist(),
            "long_factor": None if long is None else long.tolist(),
            "attention_factor": float(entries.get("rope.scaling.attn_factor", 1.0)),
        }
        return found | {"original_max_position_embeddings": trained if always is None and trained else longest}
    kind = entries.get("rope.scaling.type", "none")
    if kind == "none":
        return None
    settings = {"rope_type": kind, "factor": entries.get("rope.scaling.factor")}
    return settings if trained is None else settings | {"original_max_position_embeddings": trained}


def name_in_folder(family: GgufFamily, name: str) -> str | None:
    """The name that a folder gives a tensor; None for one that it does not have."""
    part, _, ending = name.rpartition(".")
    if part in OUTSIDE:
        return f"{OUTSIDE[part]}.{ending}"
    place = re.fullmatch(r"blk\.(\d+)\.(\w+)", part)
    if place is None or place[2] not in family.names:
        return None
    return f"model.layers.{place[1]}.{family.names[place[2]]}.{ending}"

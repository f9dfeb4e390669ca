"""GGUF files of small models, written as llama.cpp's conversion of a Hugging Face folder writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Format
from gguf import GGUFWriter

from tests.frontends.huggingface.seeds import Shapes, weight

ARCHITECTURES = {
    "llama": gguf.MODEL_ARCH.LLAMA,
    "qwen2": gguf.MODEL_ARCH.QWEN2,
    "qwen3": gguf.MODEL_ARCH.QWEN3,
    "gemma2": gguf.MODEL_ARCH.GEMMA2,
    "gemma3_text": gguf.MODEL_ARCH.GEMMA3,
    "phi3": gguf.MODEL_ARCH.PHI3,
}
"""By the type of a folder."""


def rows_for_pairs(array: np.ndarray, heads: int) -> np.ndarray:
    """The rows of queries or keys, with the two channels of a pair next to each other."""
    halves = array.reshape(heads, 2, array.shape[0] // heads // 2, *array.shape[1:])
    return np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(array.shape)


def stored(name: str, array: np.ndarray, config: Mapping[str, Any]) -> np.ndarray:
    """A weight of a folder as the file holds it."""
    kind = config["model_type"]
    if kind == "llama" and ("q_proj" in name or "k_proj" in name):
        return rows_for_pairs(array, config["num_attention_heads" if "q_proj" in name else "num_key_value_heads"])
    return array + np.float32(1) if kind.startswith("gemma") and name.endswith("norm.weight") else array


def write_model(
    path: Path,
    config: Mapping[str, Any],
    shapes: Shapes,
    form: Format = Format.F32,
    words: Sequence[str] | None = None,
    **more: Any,
) -> dict[str, np.ndarray]:
    """Write a model with weights from seeds; matrices have the format `form` where it fits. `more` are entries of
    metadata. Returns the weights of a folder that the file holds."""
    arch = ARCHITECTURES[config["model_type"]]
    writer = GGUFWriter(path, gguf.MODEL_ARCH_NAMES[arch])
    name = gguf.MODEL_ARCH_NAMES[arch]
    size = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_key_length(size)
    writer.add_value_length(size)
    rope = config["rope_parameters"]
    writer.add_rope_freq_base(float(rope.get("full_attention", rope)["rope_theta"]))
    if config.get("attn_logit_softcapping"):
        writer.add_attn_logit_softcapping(config["attn_logit_softcapping"])
    if config.get("final_logit_softcapping"):
        writer.add_final_logit_softcapping(config["final_logit_softcapping"])
    if config.get("sliding_window"):
        writer.add_sliding_window(config["sliding_window"])
    for key, value in more.items():
        writer.add_key_value(key.format(arch=name), value, _type_of(value))
    tokens = list(words or (f"w{index}" for index in range(config["vocab_size"])))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.NORMAL] * len(tokens))
    writer.add_token_merges(["w 1"])
    names = gguf.get_tensor_name_map(arch, config["num_hidden_layers"])
    found = {}
    for part, shape in shapes.items():
        array = weight(part, shape)
        kept = stored(part, array, config)
        elements, _ = gguf.GGML_QUANT_SIZES[form]
        if kept.ndim == 2 and kept.shape[1] % elements == 0 and form != Format.F32:
            data = gguf.quants.quantize(kept, form)
            writer.add_tensor(_named(names, part), data, raw_dtype=form)
            kept = gguf.quants.dequantize(data, form)
            heads = config["num_attention_heads" if "q_proj" in part else "num_key_value_heads"]
            turned = config["model_type"] == "llama" and ("q_proj" in part or "k_proj" in part)
            array = _rows_for_halves(kept, heads) if turned else kept
        else:
            writer.add_tensor(_named(names, part), kept)
        found[part] = array
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return found


def _rows_for_halves(array: np.ndarray, heads: int) -> np.ndarray:
    """What `rows_for_pairs` was given."""
    order = rows_for_pairs(np.arange(array.shape[0]), heads)
    found = np.empty_like(array)
    found[order] = array
    return found


def _named(names: gguf.TensorNameMap, part: str) -> str:
    found = names.get_name(part, (".weight", ".bias"))
    assert found is not None, part
    return str(found)


def _type_of(value: object) -> gguf.GGUFValueType:
    return gguf.GGUFValueType.get_type(value)

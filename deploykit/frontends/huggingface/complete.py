"""Checks that a family has read all of a folder that changes results.

* An entry of the configuration is one that the family reads or has a default for, has the value that the family is
  made for (`Family.fixed`), or is harmless (`HARMLESS`, `Family.harmless`, and all names that begin with `_`, which
  tools write for themselves). Any other is refused by name: it may stand
  for a computation that the family does not know.
* A weight is read by the family or its head, or is one that no result needs: buffers that are computed here
  (`BUFFERS`), those that the family names (`Family.unread`), and, where a model has no head or another one, heads.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from deploykit.errors import UnsupportedModelError, UsageError
from deploykit.frontends.huggingface.folder import Config, Folder
from deploykit.frontends.huggingface.sentences import MODULES

if TYPE_CHECKING:
    from deploykit.frontends.huggingface.registry import Family
    from deploykit.frontends.huggingface.tensors import Weights

HARMLESS = frozenset(
    (
        *("architectures", "model_type", "transformers_version", "name_or_path", "dtype"),
        *("torch_dtype", "auto_map", "id2label", "label2id", "num_labels", "problem_type", "finetuning_task"),
        *("task_specific_params", "language", "languages", "tokenizer_class", "model_max_length", "vocab_size"),
        *("tie_word_embeddings", "tie_encoder_decoder", "use_cache", "return_dict", "output_attentions"),
        *("output_hidden_states", "output_past", "gradient_checkpointing", "attn_implementation"),
        *("cache_implementation", "use_flash_attention_2", "reference_compile", "deterministic_flash_attn"),
        "pretraining_tp",
        *("chunk_size_feed_forward", "initializer_range", "initializer_factor", "initializer_cutoff_factor"),
        *("init_std", "max_length", "min_length", "do_sample", "num_beams", "temperature", "top_k", "top_p"),
        *("repetition_penalty", "length_penalty", "no_repeat_ngram_size", "early_stopping", "generation"),
        *("unsloth_version", "unsloth_fixed", "is_llama_config", "transformers.js_config", "max_sequence_length"),
        *("prefix", "force_bos_token_to_be_generated", "attn_impl"),
    )
)
"""Entries that say how a model is trained, stored or used to generate, or what its labels are called."""

HARMLESS_PARTS = re.compile(r"dropout|drop_rate|pdrop|layerdrop|_token_id$")
"""Parts of names of such entries."""

BUFFERS = re.compile(r"(^|\.)(position_ids|token_type_ids|inv_freq|masked_bias|(attn|attention)\.bias)$")
"""Names of tensors that old files hold although they follow from the configuration."""


def is_harmless(name: str) -> bool:
    """Whether an entry changes no results of any model."""
    return name in HARMLESS or HARMLESS_PARTS.search(name) is not None or name.startswith("_")


def check_fixed(family: Family, config: Config) -> None:
    """Raises `UnsupportedModelError` if the configuration asks for what the family does not compute."""
    for name, value in family.fixed.items():
        if name in config and config[name] != value and (config[name] is not None or value):
            raise UnsupportedModelError(
                f"'{name}' is {config[name]!r} in {config.path}; the importer of models of type '{family.name}' "
                f"computes only {value!r}"
            )


def check_read(family: Family, folder: Folder, weights: Weights) -> None:
    """Raises `UnsupportedModelError` for an entry of the configuration, and `UsageError` for a weight, that changes the
    results and was not read."""
    config = folder.config
    known = {*config.read, *family.defaults, *family.fixed, *family.harmless}
    if unread := sorted(name for name in config.entries.keys() - known if not is_harmless(name)):
        raise UnsupportedModelError(
            f"'{unread[0]}' is {config[unread[0]]!r} in {config.path}, and the importer of models of type "
            f"'{family.name}' does not know this entry; delete it if it does not change results"
        )
    for name in sorted(folder.weights.keys() - weights.used):
        if not BUFFERS.search(name) and not _may_be_unread(family, folder, name):
            raise UsageError(
                f"{folder.path} has weights '{name}', which a model of type '{family.name}' with this configuration "
                "does not have: they do not belong to it"
            )


def _may_be_unread(family: Family, folder: Folder, name: str) -> bool:
    base = f"{family.base}." if any(key.startswith(f"{family.base}.") for key in folder.weights) else ""
    architecture = (folder.config.get("architectures") or ["Model"])[0]
    headless = architecture in (f"{family.prefix}Model", f"{family.prefix}TextModel") or folder.has(MODULES)
    if headless and not name.startswith(base):
        return True
    return name.removeprefix(base).startswith(family.unread)

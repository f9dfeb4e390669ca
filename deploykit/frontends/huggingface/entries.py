"""What the entries of configurations may be: their types and ranges, by the names that transformers gives them.

A family's own names of entries (`Family.aliases`) count as the usual ones. An entry whose default is a list is a list
of what it is otherwise. An entry may be null if its default is null, if it is a flag, or if it is in `NULLABLE`; that
is checked when a family reads it, because configurations have null for what their family does not read. Entries that
are not listed here are checked by the family.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from deploykit.errors import UsageError


@dataclass(frozen=True, eq=False)
class Kind:
    """Values of a `type`, which pydantic checks without conversions. `text` is what an error calls them."""

    type: Any
    text: str
    _adapter: TypeAdapter[Any] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_adapter", TypeAdapter(self.type, config=ConfigDict(strict=True)))

    def holds(self, value: object) -> bool:
        try:
            self._adapter.validate_python(value)
        except ValidationError:
            return False
        return True


_Size = Annotated[int, Field(gt=0)]
_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]

SIZE = Kind(_Size, "a positive integer")
SIZES = Kind(list[_Size], "a list of positive integers")
SIDES = Kind(_Size | Annotated[list[_Size], Field(min_length=2, max_length=2)], "a positive integer, or two")
INTEGER = Kind(int, "an integer")
INTEGERS = Kind(list[int], "a list of integers")
IDS = Kind(int | list[int], "an integer, or a list of integers")
NATURAL = Kind(Annotated[int, Field(ge=0)], "an integer from 0 on")
FROM_MINUS_ONE = Kind(Annotated[int, Field(ge=-1)], "an integer from -1 on")
POSITIVE = Kind(_Positive, "a positive number")
POSITIVES = Kind(list[_Positive], "a list of positive numbers")
NONNEGATIVE = Kind(Annotated[float, Field(ge=0, allow_inf_nan=False)], "a number from 0 on")
FLAG = Kind(bool, "true or false")
NAME = Kind(str, "a text")
NAMES = Kind(list[str], "a list of texts")
NAME_OR_NAMES = Kind(str | list[str], "a text, or a list of texts")
OBJECT = Kind(dict[str, Any], "a JSON object")
OBJECTS = Kind(list[dict[str, Any]], "a list of JSON objects")

LISTS = {SIZE: SIZES, POSITIVE: POSITIVES}
"""What an entry must be whose default is a list."""

_KINDS: Mapping[Kind, tuple[str, ...]] = {
    SIZE: (
        *("hidden_size", "d_model", "embed_dim", "embedding_size", "intermediate_size", "n_inner", "d_ff", "d_kv"),
        *("vocab_size", "max_position_embeddings", "original_max_position_embeddings", "max_source_positions"),
        *("num_hidden_layers", "num_layers", "encoder_layers", "decoder_layers", "num_hidden_groups"),
        *("inner_group_num", "num_attention_heads", "num_heads", "encoder_attention_heads", "num_kv_heads"),
        *("decoder_attention_heads", "num_key_value_heads", "head_dim", "encoder_ffn_dim", "decoder_ffn_dim"),
        *("ffn_hidden_size", "moe_intermediate_size", "shared_expert_intermediate_size", "num_experts"),
        *("num_experts_per_tok", "num_local_experts", "decoder_sparse_step", "local_attention"),
        *("sliding_window_pattern", "global_attn_every_n_layers", "no_rope_layer_interval", "projection_dim"),
        *("projection_size", "word_embed_proj_dim", "decoder_hidden_size", "classifier_proj_size"),
        *("pooler_output_size", "num_channels", "num_mel_bins", "num_queries", "num_stages", "num_encoder_blocks"),
        *("window_size", "num_conv_pos_embeddings", "num_conv_pos_embedding_groups", "num_ln_in_parallel_attn"),
        *("relative_attention_num_buckets", "relative_attention_max_distance", "attention_head_size", "conv_groups"),
        *("state_size", "conv_L_cache", "block_multiple_of"),
    ),
    SIZES: (
        *("depths", "hidden_sizes", "patch_sizes", "strides", "sr_ratios"),
        *("conv_dim", "conv_kernel", "conv_stride"),
    ),
    SIDES: ("image_size", "patch_size"),
    INTEGER: ("pad_token_id",),
    INTEGERS: ("mlp_only_layers", "no_rope_layers", "full_attn_idxs"),
    IDS: ("eos_token_id",),
    NATURAL: ("type_vocab_size", "max_window_layers", "sliding_window", "conv_kernel_size"),
    FROM_MINUS_ONE: ("position_buckets", "max_relative_positions"),
    POSITIVE: (
        *("layer_norm_eps", "layer_norm_epsilon", "rms_norm_eps", "norm_eps", "mlp_ratio", "query_pre_attn_scalar"),
        *("rope_theta", "global_rope_theta", "local_rope_theta", "rope_local_base_freq", "partial_rotary_factor"),
        *("attn_logit_softcapping", "final_logit_softcapping", "mixer_rms_eps", "expand", "block_ffn_dim_multiplier"),
    ),
    POSITIVES: ("mlp_ratios",),
    NONNEGATIVE: ("layer_scale_init_value",),
    FLAG: (
        *("attention_bias", "mlp_bias", "qkv_bias", "conv_bias", "norm_bias", "classifier_bias", "decoder_bias"),
        *("bias", "enable_bias", "tie_word_embeddings", "use_sliding_window", "use_swiglu_ffn", "share_att_key"),
        *("use_parallel_residual", "use_absolute_embeddings", "scale_embedding", "scale_attn_weights"),
        *("scale_attn_by_inverse_layer_idx", "position_biased_input", "parallel_attn", "new_decoder_architecture"),
        *("multi_query", "norm_topk_prob", "do_layer_norm_before", "do_stable_layer_norm", "vision_use_head"),
        *("downsample_in_first_stage", "downsample_in_bottleneck", "legacy"),
        *("alibi", "use_bias", "use_conv_bias", "block_auto_adjust_ff_dim"),
    ),
    NAME: (
        *("hidden_act", "hidden_activation", "activation_function", "activation", "classifier_activation"),
        *("feat_extract_activation", "feat_extract_norm", "pooler_act", "pooler_hidden_act", "layer_type"),
        *("feed_forward_proj", "classifier_pooling", "norm_rel_ebd", "backbone", "conv_act"),
    ),
    NAMES: ("layer_types",),
    NAME_OR_NAMES: ("pos_att_type",),
    OBJECT: (
        *("vision_config", "text_config", "vision_config_dict", "text_config_dict", "backbone_config"),
        *("attn_config", "backbone_kwargs", "rope_parameters", "rope_scaling", "id2label"),
    ),
}

KINDS: Mapping[str, Kind] = {name: kind for kind, names in _KINDS.items() for name in names}

NULLABLE = frozenset(
    ("sliding_window", "attn_logit_softcapping", "final_logit_softcapping", "layer_types", "pos_att_type")
)
"""Entries for which null means something else than the default."""


ROTARY: Mapping[str, Kind] = {
    "rope_type": NAME,
    "type": NAME,
    "rope_theta": POSITIVE,
    "partial_rotary_factor": POSITIVE,
    "original_max_position_embeddings": SIZE,
    "truncate": FLAG,
    **dict.fromkeys(("factor", "low_freq_factor", "high_freq_factor", "attention_factor"), POSITIVE),
    **dict.fromkeys(("beta_fast", "beta_slow"), POSITIVE),
    **dict.fromkeys(("mscale", "mscale_all_dim"), NONNEGATIVE),
    **dict.fromkeys(("short_factor", "long_factor"), POSITIVES),
}
"""Entries of the settings of rotary positions."""


PICTURES: Mapping[str, Kind] = {
    **dict.fromkeys(("do_resize", "do_rescale", "do_normalize", "do_center_crop", "do_flip_channel_order"), FLAG),
    **dict.fromkeys(("rescale_factor", "crop_pct"), POSITIVE),
    **dict.fromkeys(("image_processor_type", "feature_extractor_type"), NAME),
    "resample": NATURAL,
    "max_size": SIZE,
}
"""Entries of how pictures are prepared. Those of sizes and channels have forms of their own."""

SOUNDS: Mapping[str, Kind] = {
    "feature_extractor_type": NAME,
    "do_normalize": FLAG,
    **dict.fromkeys(("feature_size", "sampling_rate", "hop_length", "chunk_length", "n_fft"), SIZE),
}
"""Entries of how sounds are prepared."""

LETTERS: Mapping[str, Kind] = {
    **dict.fromkeys(("tokenizer_class", "word_delimiter_token", "replace_word_delimiter_char", "target_lang"), NAME),
    **dict.fromkeys(("do_lower_case", "clean_up_tokenization_spaces"), FLAG),
    "added_tokens_decoder": Kind(dict[str, dict[str, Any]], "an object of objects"),
}
"""Entries of the settings of a tokenizer of letters."""

NUMBERED = Kind(dict[str, int], "an object of tokens with their numbers")

SENTENCES: Mapping[str, Kind] = {
    "max_seq_length": SIZE,
    "type": NAME,
    "path": NAME,
    "pooling_mode": NAME_OR_NAMES,
    "activation_function": NAME,
    "bias": FLAG,
}
"""Entries of the files of sentence-transformers."""


def check_settings(path: Path, settings: Mapping[str, Any], kinds: Mapping[str, Kind]) -> None:
    """Raises `UsageError` for a setting of another type or out of its range, unless it is null."""
    for name, value in settings.items():
        if value is not None and name in kinds and not kinds[name].holds(value):
            raise UsageError(f"'{name}' is {value!r} in {path}; it must be {kinds[name].text}")


def check_entries(
    path: Path, entries: Mapping[str, Any], defaults: Mapping[str, Any], aliases: Mapping[str, str]
) -> None:
    """Raises `UsageError` for an entry of a configuration of another type or out of its range, unless it is null."""
    for own, value in entries.items():
        name = aliases.get(own, own)
        kind = KINDS.get(name)
        if kind is not None and isinstance(defaults.get(name), list):
            kind = LISTS.get(kind, kind)
        if kind is not None and value is not None and not kind.holds(value):
            raise UsageError(f"'{own}' is {value!r} in {path}; it must be {kind.text}")


def null_is_wrong(name: str, defaults: Mapping[str, Any]) -> str | None:
    """What an entry must be if it must not be null; None if it may be."""
    kind = KINDS.get(name)
    if kind is None or kind is FLAG or name in NULLABLE or defaults.get(name, 0) is None:
        return None
    return kind.text

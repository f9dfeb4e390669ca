"""A folder with a part that changes results and that no family reads is refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from deploykit.errors import UnsupportedModelError, UsageError
from deploykit.frontends.huggingface.folder import Config
from deploykit.frontends.huggingface.importer import load_folder
from deploykit.frontends.huggingface.registry import FAMILIES, find_family
from tests.frontends.huggingface.seeds import write_folder
from tests.frontends.huggingface.test_families import golden

WEIGHTS = "model.safetensors"


def folder(path: Path, case: str, **entries: Any) -> Path:
    """The folder of a case, with other entries in its configuration. None removes an entry."""
    stored = golden(case)
    config = {name: value for name, value in {**stored.config, **entries}.items() if value is not None}
    write_folder(path, config, stored.shapes)
    return path


def add(path: Path, **weights: np.ndarray) -> Path:
    save_file({**load_file(path / WEIGHTS), **weights}, path / WEIGHTS)
    return path


def test_an_entry_that_no_family_knows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModelError, match=r"'rescale_states' is 0\.5 .* does not know this entry; delete it"):
        load_folder(folder(tmp_path, "bert", rescale_states=0.5))


@pytest.mark.parametrize(
    ("case", "entry", "value"),
    [
        ("bert", "position_embedding_type", "relative_key"),
        ("bert", "is_decoder", True),
        ("bart", "normalize_before", True),
        ("falcon", "apply_residual_connection_post_layernorm", True),
        ("gemma2", "use_bidirectional_attention", True),
        ("gemma3", "attn_logit_softcapping", 50.0),
        ("qwen2", "use_mrope", True),
    ],
)
def test_an_entry_with_a_value_that_is_not_computed_is_refused(
    tmp_path: Path, case: str, entry: str, value: object
) -> None:
    with pytest.raises(UnsupportedModelError, match=f"'{entry}' is {value!r} .* computes only"):
        load_folder(folder(tmp_path, case, **{entry: value}))


@pytest.mark.parametrize(
    ("case", "entries", "message"),
    [
        ("deberta", {"conv_kernel_size": 4}, "'conv_kernel_size' is 4 .* only an odd one"),
        ("deberta", {"attention_head_size": 6}, "'attention_head_size' is 6 .* computes only with 8"),
        ("deberta", {"num_attention_heads": 1 << 31}, "2147483648 heads do not divide 24 channels"),
        (
            "deberta",
            {"max_relative_positions": 1 << 31},
            "distances of up to 2147483648 in 8 buckets: .* from 1 to",
        ),
        ("gpt2", {"n_head": 1 << 31}, "2147483648 heads do not divide 24 channels"),
        ("modernbert", {"num_attention_heads": 5}, "5 heads do not divide 24 channels"),
        ("llama", {"head_dim": 1 << 31}, "heads of 2147483648 channels, .*; the most are 65536"),
        ("qwen2", {"hidden_size": 1 << 33}, "heads of 2147483648 channels, .*; the most are 65536"),
        ("t5", {"relative_attention_max_distance": 1 << 31}, "distances of up to 2147483648 .* from 3 to 1048576"),
        ("t5", {"relative_attention_max_distance": 2}, "distances of up to 2 in 8 buckets: it must be from 3"),
    ],
)
def test_sizes_that_are_not_computed_are_refused(
    tmp_path: Path, case: str, entries: dict[str, int], message: str
) -> None:
    with pytest.raises(UnsupportedModelError, match=message):
        load_folder(folder(tmp_path, case, **entries))


def test_a_convolution_without_weights_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"has no weights 'encoder\.conv\.conv\.weight'"):
        load_folder(folder(tmp_path, "deberta", conv_kernel_size=3))


def test_an_unknown_activation_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModelError, match="the activation 'snake' is unknown"):
        load_folder(folder(tmp_path, "bert", hidden_act="snake"))


@pytest.mark.parametrize("name", ["BertLMHeadModel", "BertForPreTraining", "RobertaModel"])
def test_an_architecture_whose_head_is_unknown_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UnsupportedModelError, match=f"names the architecture {name}, .* there are BertModel"):
        load_folder(folder(tmp_path, "bert", architectures=[name]))


def test_rotary_positions_of_an_unknown_type_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModelError, match=r"the type 'mrope' of rotary positions .* is unknown; there are"):
        load_folder(folder(tmp_path, "llama", rope_parameters={"rope_type": "mrope", "rope_theta": 1e4}))


def test_texts_that_would_turn_in_another_way_are_refused(tmp_path: Path) -> None:
    scaling = {"rope_type": "longrope", "short_factor": [2.0] * 4, "long_factor": [3.0] * 4, "rope_theta": 1e4}
    scaling["original_max_position_embeddings"] = 20
    path = folder(tmp_path, "llama", rope_parameters=scaling)
    with pytest.raises(UnsupportedModelError, match=r"'longrope', .* from 21 tokens on: .* --dim seq=1\.\.20"):
        load_folder(path)
    load_folder(path, {"seq": (1, 20)})


@pytest.mark.parametrize("count", [1, 3, 5])
def test_factors_of_positions_are_one_for_each_pair(tmp_path: Path, count: int) -> None:
    """One factor would do for all pairs without a word."""
    scaling = {"rope_type": "longrope", "short_factor": [2.0] * count, "long_factor": [3.0] * 4, "rope_theta": 1e4}
    scaling["original_max_position_embeddings"] = 20
    with pytest.raises(UsageError, match=f"'short_factor' in .* has {count} numbers; it must have 4"):
        load_folder(folder(tmp_path, "llama", rope_parameters=scaling), {"seq": (1, 20)})


def test_a_text_longer_than_the_positions_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'seq' is at most 38 in this model"):
        load_folder(folder(tmp_path, "roberta"), {"seq": 39})


def test_entries_of_training_are_harmless(tmp_path: Path) -> None:
    load_folder(folder(tmp_path, "bert", hidden_dropout_prob=0.7, initializer_range=1.0, sep_token_id=3))


def test_entries_that_tools_write_for_themselves_are_harmless(tmp_path: Path) -> None:
    load_folder(
        folder(tmp_path, "bert", _model_name_or_path="there", _from_model_config=True, _attn_implementation="x")
    )


def test_entries_have_the_defaults_of_their_family(tmp_path: Path) -> None:
    assert "layer_norm_eps" in golden("bert").config
    load_folder(folder(tmp_path, "bert", layer_norm_eps=None, hidden_act=None))


def test_a_weight_that_no_result_needs_is_refused_unless_it_is_known(tmp_path: Path) -> None:
    path = add(folder(tmp_path, "bert"), **{"embeddings.position_ids": np.arange(40)[None]})
    load_folder(path)
    add(path, **{"encoder.layer.0.attention.gate": np.ones(3, np.float32)})
    with pytest.raises(UsageError, match=r"has weights 'encoder\.layer\.0\.attention\.gate', which a model of type"):
        load_folder(path)


def test_a_missing_bias_is_an_error(tmp_path: Path) -> None:
    path = folder(tmp_path, "bert")
    name = "encoder.layer.1.output.dense.bias"
    save_file({key: value for key, value in load_file(path / WEIGHTS).items() if key != name}, path / WEIGHTS)
    with pytest.raises(UsageError, match=f"has no weights '{name}'"):
        load_folder(path)


def test_a_table_of_another_size_than_the_vocabulary_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"embed_tokens\.weight' in .* has 50 rows, but the configuration needs 60"):
        load_folder(folder(tmp_path, "llama", vocab_size=60))


def test_scales_and_shifts_may_have_the_names_of_tensorflow(tmp_path: Path) -> None:
    path = folder(tmp_path, "bert")
    old = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    weights = {
        name.replace(n, o): value
        for name, value in load_file(path / WEIGHTS).items()
        for n, o in old.items()
        if n in name
    }
    others = {name: value for name, value in load_file(path / WEIGHTS).items() if "LayerNorm" not in name}
    save_file({**others, **weights}, path / WEIGHTS)
    load_folder(path)


def test_a_head_that_is_not_read_may_be_there(tmp_path: Path) -> None:
    load_folder(folder(tmp_path / "headless", "bert-words", architectures=["BertModel"]))
    path = add(folder(tmp_path / "other", "bert-classes"), **{"scorer.weight": np.ones(3, np.float32)})
    with pytest.raises(UsageError, match=r"'scorer\.weight'"):
        load_folder(path)


def test_tied_weights_may_be_there_twice_if_they_are_equal(tmp_path: Path) -> None:
    path = folder(tmp_path, "bert-words")
    table = load_file(path / WEIGHTS)["bert.embeddings.word_embeddings.weight"]
    load_folder(add(path, **{"cls.predictions.decoder.weight": table}))
    add(path, **{"cls.predictions.decoder.weight": table + 1})
    with pytest.raises(UsageError, match=r"ties 'cls\.predictions\.decoder\.weight' to .*'tie_word_embeddings'"):
        load_folder(path)


def test_no_entry_that_changes_results_is_harmless() -> None:
    find_family(Config(Path("config.json"), {"model_type": "bert"}))
    for family in FAMILIES.values():
        assert not set(family.harmless) & (family.defaults.keys() | family.fixed.keys()), family.name


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_short_weights_are_computed_with_as_float32(tmp_path: Path, dtype: type) -> None:
    path = folder(tmp_path, "llama")
    weights = {name: value.astype(dtype) for name, value in load_file(path / WEIGHTS).items()}
    save_file(weights, path / WEIGHTS)
    assert "float16" not in str(load_folder(path).module)


def test_the_decoder_of_a_whole_t5_is_left_out(tmp_path: Path) -> None:
    path = folder(tmp_path, "t5")
    table = load_file(path / WEIGHTS)["shared.weight"]
    decoder = {"decoder.embed_tokens.weight": table, "decoder.final_layer_norm.weight": np.ones(24, np.float32)}
    load_folder(add(path, **{"encoder.embed_tokens.weight": table, "lm_head.weight": table}, **decoder))


def test_the_decoder_of_a_whole_bart_is_left_out(tmp_path: Path) -> None:
    path = folder(tmp_path, "bart")
    weights = {f"model.encoder.{name}": value for name, value in load_file(path / WEIGHTS).items()}
    weights["model.shared.weight"] = weights.pop("model.encoder.embed_tokens.weight")
    weights["model.decoder.layernorm_embedding.weight"] = np.ones(24, np.float32)
    save_file(weights, path / WEIGHTS)
    load_folder(path)

"""GGUF files give the models of the folders that they were made from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Format
from safetensors.numpy import save_file

import deploykit
from deploykit.errors import UnsupportedModelError, UsageError
from deploykit.frontends.gguf.importer import read_model
from tests.frontends.gguf.files import write_model
from tests.frontends.huggingface.seeds import GOLDENS, Shapes

CASES: Mapping[str, Mapping[str, Any]] = {
    "llama": {},
    "qwen2": {},
    "qwen3": {},
    "gemma2": {"query_pre_attn_scalar": 12, "layer_types": None},
    "gemma3": {"query_pre_attn_scalar": 12, "layer_types": None, "sliding_window_pattern": 6},
    "phi3": {},
}
"""Golden folders by their names, and entries that files do not hold, with the values that follow from others."""

BLOCKS = (Format.Q4_0, Format.Q4_1, Format.Q5_0, Format.Q5_1, Format.Q8_0, Format.F16, Format.BF16)


def folder_of(name: str, **more: Any) -> tuple[dict[str, Any], Shapes]:
    facts = json.loads((GOLDENS / f"{name}.json").read_text())
    config = facts["config"] | CASES.get(name, {}) | more
    config.pop("_sliding_window_pattern", None)
    return config, facts["shapes"]


def logits(model: Path, output: Path, dims: Mapping[str, Any] | None = None) -> np.ndarray:
    given = {"batch": 1, "seq": (1, 24)} if dims is None else dims
    deploykit.build(model, output=output, dims=given, generate=False)
    ids = np.random.default_rng(0).integers(0, 50, (1, 17))
    with deploykit.open(output) as session:
        return np.asarray(session(input_ids=ids, attention_mask=np.ones_like(ids))["logits"])


def same(tmp_path: Path, config: dict[str, Any], weights: dict[str, np.ndarray], tolerance: float = 1e-5) -> None:
    """The file `model.gguf` computes what a folder with this configuration and these weights computes."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    save_file(weights, folder / "model.safetensors")
    expected = logits(folder, tmp_path / "a")
    found = logits(tmp_path / "model.gguf", tmp_path / "b")
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * np.abs(expected).max())


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_families(tmp_path: Path, name: str) -> None:
    config, shapes = folder_of(name)
    same(tmp_path, config, write_model(tmp_path / "model.gguf", config, shapes))


@pytest.mark.slow
@pytest.mark.parametrize("form", BLOCKS, ids=lambda form: form.name)
def test_formats(tmp_path: Path, form: Format) -> None:
    config, shapes = folder_of("llama")
    weights = write_model(tmp_path / "model.gguf", config, shapes, form)
    same(tmp_path, config, weights)
    folder = read_model(tmp_path / "model.gguf")
    assert folder.weights.keys() == weights.keys()


@pytest.mark.slow
def test_positions_of_llama3(tmp_path: Path) -> None:
    """The file holds what each frequency is divided by."""
    config, shapes = folder_of("llama3")
    rope = config["rope_parameters"]
    powers = np.float32(rope["rope_theta"]) ** (np.arange(0, 8, 2, dtype=np.float32) / 8)
    turns = rope["original_max_position_embeddings"] / powers / (2 * np.pi)
    share = np.clip((turns - rope["low_freq_factor"]) / (rope["high_freq_factor"] - rope["low_freq_factor"]), 0, 1)
    factors = 1 / (share + (1 - share) / rope["factor"])
    weights = write_model(tmp_path / "plain.gguf", config, shapes)
    reader = gguf.GGUFReader(tmp_path / "plain.gguf")
    writer = gguf.GGUFWriter(tmp_path / "model.gguf", "llama")
    for field in reader.fields.values():
        if not field.name.startswith(("GGUF.", "general.architecture")):
            kind = field.types[0]
            writer.add_key_value(field.name, field.contents(), kind, field.types[-1] if len(field.types) > 1 else None)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    writer.add_tensor("rope_freqs.weight", factors.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    same(tmp_path, config, weights)


def test_what_is_noted_and_described(tmp_path: Path) -> None:
    config, shapes = folder_of("llama")
    write_model(tmp_path / "model.gguf", config, shapes, Format.Q8_0)
    model = deploykit.load(tmp_path / "model.gguf", {"batch": 1, "seq": (1, 8)}, generate=False)
    assert [port.name for port in model.inputs] == ["input_ids", "attention_mask"]
    (note,) = [note for note in model.notes if "blocks" in note]
    assert "in Q8_0" in note
    with pytest.raises(UsageError, match="a GGUF file cannot be checked"):
        deploykit.build(tmp_path / "model.gguf", output=tmp_path / "dist", check=True)


def test_other_architectures_are_named(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "model.gguf", "mamba")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(UnsupportedModelError, match="has the architecture 'mamba'; there are llama, qwen2"):
        deploykit.load(tmp_path / "model.gguf")


@pytest.mark.parametrize(
    ("entry", "value", "message"),
    [
        ("{arch}.block_count", 0, "'llama.block_count' in .* is 0; it must be positive"),
        ("{arch}.attention.layer_norm_rms_epsilon", "small", "epsilon' in .* is 'small'"),
        ("{arch}.expert_count", 4, "is a mixture of experts"),
        ("tokenizer.ggml.model", "unigram", "a tokenizer of the kind 'unigram'; there are gpt2 and llama"),
        ("tokenizer.ggml.pre", "other", "cuts texts as 'other' does, which is unknown"),
    ],
)
def test_entries_that_do_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: str, value: Any, message: str
) -> None:
    config, shapes = folder_of("llama")
    monkeypatch.setattr(gguf.GGUFWriter, "add_key_value", _overriding(entry.format(arch="llama"), value))
    more = {} if entry.format(arch="llama") != "llama.expert_count" else {entry: value}
    write_model(tmp_path / "model.gguf", config, shapes, **more)
    with pytest.raises((UsageError, UnsupportedModelError), match=message):
        deploykit.load(tmp_path / "model.gguf")


def test_more_words_than_the_table_has(tmp_path: Path) -> None:
    config, shapes = folder_of("llama")
    words = [f"w{index}" for index in range(config["vocab_size"] + 1)]
    write_model(tmp_path / "model.gguf", config, shapes, words=words)
    with pytest.raises(UsageError, match=r"'model.embed_tokens.weight' .* has 50 rows, but the configuration needs 51"):
        deploykit.load(tmp_path / "model.gguf")


def _overriding(entry: str, value: Any) -> Any:
    """`add_key_value` that writes another value for an entry."""
    add = gguf.GGUFWriter.add_key_value

    def added(self: gguf.GGUFWriter, key: str, given: Any, kind: Any, *rest: Any) -> None:
        if key == entry:
            add(self, key, value, gguf.GGUFValueType.get_type(value))
        else:
            add(self, key, given, kind, *rest)

    return added

"""Folders that are damaged, incomplete or do not fit their configuration: each gets a message that names the part."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import deploykit
from deploykit.errors import UnsupportedModelError, UsageError
from deploykit.frontends.huggingface.folder import read_folder
from deploykit.frontends.huggingface.importer import load_folder
from tests.frontends.huggingface.seeds import write_folder
from tests.frontends.huggingface.test_families import golden


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    stored = golden("bert")
    write_folder(tmp_path / "model", stored.config, stored.shapes)
    return tmp_path / "model"


def weights(folder: Path, change: Callable[[dict[str, np.ndarray]], object]) -> None:
    arrays = load_file(folder / "model.safetensors")
    change(arrays)
    save_file(arrays, folder / "model.safetensors")


def settings(folder: Path, **changes: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changes))


def shards(folder: Path) -> Path:
    """The folder with its weights in two files; returns the second one."""
    arrays = load_file(folder / "model.safetensors")
    names = sorted(arrays)
    halves = {"model-1.safetensors": names[::2], "model-2.safetensors": names[1::2]}
    for file, part in halves.items():
        save_file({name: arrays[name] for name in part}, folder / file)
    index = {"weight_map": {name: file for file, part in halves.items() for name in part}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "model.safetensors").unlink()
    return folder / "model-2.safetensors"


def test_shards_hold_what_one_file_holds(folder: Path) -> None:
    whole = {name: array.copy() for name, array in read_folder(folder).weights.items()}
    shards(folder)
    found = read_folder(folder).weights
    assert found.keys() == whole.keys()
    assert all(np.array_equal(found[name], whole[name]) for name in whole)


def test_a_shard_that_is_missing(folder: Path) -> None:
    shards(folder).unlink()
    with pytest.raises(UsageError, match=r"lacks model-2.safetensors, a part of the weights: download"):
        load_folder(folder)


def test_a_shard_that_is_cut_off(folder: Path) -> None:
    path = shards(folder)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(UsageError, match=r"model-2.safetensors is cut off: '.*' ends at byte"):
        load_folder(folder)


def test_a_shard_without_a_tensor_of_the_index(folder: Path) -> None:
    path = shards(folder)
    arrays = load_file(path)
    del arrays[max(arrays)]
    save_file(arrays, path)
    with pytest.raises(UsageError, match=r"model-2.safetensors lacks '"):
        load_folder(folder)


@pytest.mark.parametrize("data", [b"", b"\x00" * 7, b"\xff" * 16, (5).to_bytes(8, "little") + b"[1,2]"])
def test_a_file_of_weights_that_is_damaged(folder: Path, data: bytes) -> None:
    (folder / "model.safetensors").write_bytes(data)
    with pytest.raises(UsageError, match=r"model\.safetensors is (damaged|cut off)"):
        load_folder(folder)


def test_a_header_whose_sizes_disagree(folder: Path) -> None:
    header = json.dumps({"a": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}}).encode()
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(8))
    with pytest.raises(UsageError, match=r"'a' has 8 bytes for the shape \[3\] of F32"):
        load_folder(folder)


def test_a_tensor_that_is_missing(folder: Path) -> None:
    weights(folder, lambda arrays: arrays.pop("encoder.layer.1.output.dense.weight"))
    with pytest.raises(UsageError, match=r"has no weights 'encoder.layer.1.output.dense.weight'"):
        load_folder(folder)


def test_a_tensor_of_another_shape(folder: Path) -> None:
    settings(folder, intermediate_size=32)
    with pytest.raises(
        UsageError, match=r"intermediate.dense.weight' in .* has the shape \[40, 24\], but .* \[32, 24\]"
    ):
        load_folder(folder)


def test_a_configuration_without_an_entry(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    del config["num_attention_heads"]
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(
        UsageError, match=r"config.json has no 'num_attention_heads', which a model of type 'bert' needs"
    ):
        load_folder(folder)


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"hidden_size": 3}'])
def test_a_configuration_that_is_none(folder: Path, text: str) -> None:
    (folder / "config.json").write_text(text)
    with pytest.raises(UsageError, match=r"config\.json"):
        load_folder(folder)


def test_an_unknown_type(folder: Path) -> None:
    settings(folder, model_type="mystery")
    with pytest.raises(UnsupportedModelError, match=r"models of type 'mystery' have no importer of their own"):
        load_folder(folder)


def test_an_unknown_head(folder: Path) -> None:
    settings(folder, architectures=["BertForPoetry"])
    with pytest.raises(UnsupportedModelError, match=r"names the architecture BertForPoetry, which is unknown"):
        load_folder(folder)


def test_pickled_weights(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(
        UsageError, match=r"pytorch_model.bin, which can run any code when it is read.*\n.*save_pretrained"
    ):
        load_folder(folder)


def test_no_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    with pytest.raises(UsageError, match=r"has no weights: neither model.safetensors nor"):
        load_folder(folder)


def test_a_link_out_of_the_folder(folder: Path, tmp_path: Path) -> None:
    (folder / "model.safetensors").rename(tmp_path / "elsewhere.safetensors")
    (folder / "model.safetensors").symlink_to(tmp_path / "elsewhere.safetensors")
    with pytest.raises(UsageError, match=r"leads out of the folder"):
        load_folder(folder)


def test_a_link_to_nothing(folder: Path, tmp_path: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").symlink_to(tmp_path / "nowhere")
    with pytest.raises(UsageError, match=r"model.safetensors is a link to .*nowhere, which is not there: download"):
        load_folder(folder)


def test_an_interrupted_download(folder: Path) -> None:
    part = folder / ".cache" / "huggingface" / "download" / "1.incomplete"
    part.parent.mkdir(parents=True)
    (folder / "model.safetensors").rename(part)
    with pytest.raises(UsageError, match=r"its download was interrupted; run it again"):
        load_folder(folder)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64"])
@pytest.mark.parametrize("name", ["embeddings.word_embeddings.weight", "embeddings.LayerNorm.weight"])
def test_weights_that_are_no_floats(folder: Path, name: str, dtype: str) -> None:
    weights(folder, lambda arrays: arrays.update({name: np.ones(arrays[name].shape, dtype)}))
    with pytest.raises(UsageError, match=rf"'{name}' in .* has the dtype {dtype}, but models have weights of floats"):
        load_folder(folder)


@pytest.mark.parametrize("change", [(-1, 0), (0, 1), (1, -1)])
def test_scores_of_other_words(tmp_path: Path, change: tuple[int, int]) -> None:
    stored = golden("llama")
    rows, columns = stored.shapes["lm_head.weight"]
    write_folder(tmp_path, stored.config, stored.shapes)
    other = np.ones((rows + change[0], columns + change[1]), np.float32)
    weights(tmp_path, lambda arrays: arrays.update({"lm_head.weight": other}))
    with pytest.raises(UsageError, match=rf"'lm_head.weight' in .*, but the configuration needs \[{rows}, {columns}\]"):
        load_folder(tmp_path)


def test_links_to_the_blobs_of_a_cache(folder: Path, tmp_path: Path) -> None:
    snapshot, blobs = tmp_path / "cache" / "snapshots" / "1", tmp_path / "cache" / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    for index, file in enumerate(sorted(folder.iterdir())):
        file.rename(blobs / str(index))
        (snapshot / file.name).symlink_to(blobs / str(index))
    assert load_folder(snapshot).outputs[0].name == "last_hidden_state"


def test_nothing_is_left_behind(folder: Path, tmp_path: Path) -> None:
    weights(folder, lambda arrays: arrays.pop("embeddings.LayerNorm.weight"))
    with pytest.raises(UsageError, match=r"has no weights"):
        deploykit.build(folder, output=tmp_path / "dist")
    assert not (tmp_path / "dist").exists()


def test_more_positions_than_the_model_has(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"'seq' is at most 40 in this model"):
        load_folder(folder, {"seq": (1, 41)})
    assert [dim.maximum for dim in load_folder(folder, {"seq": (1, 8)}).dims] == [None, 8]


def test_an_unknown_dim(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"the model has no dim 'tokens'; it has batch, seq"):
        load_folder(folder, {"tokens": 8})


def test_what_needs_an_onnx_file(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"a Hugging Face folder cannot be checked"):
        deploykit.build(folder, output=tmp_path / "dist", check=True)
    assert not (tmp_path / "dist").exists()
    deploykit.build(folder, output=tmp_path / "dist")
    for model in (None, folder):
        with pytest.raises(UsageError, match=r"Hugging Face folder: export it to ONNX"):
            deploykit.verify(tmp_path / "dist", model)


def test_sizes_that_do_not_fit_each_other(tmp_path: Path) -> None:
    stored = golden("gpt2")
    write_folder(tmp_path / "model", stored.config | {"num_key_value_heads": 1}, stored.shapes)
    with pytest.raises(UnsupportedModelError, match=r"model, of type 'gpt2', cannot be built: .* differ"):
        load_folder(tmp_path / "model")

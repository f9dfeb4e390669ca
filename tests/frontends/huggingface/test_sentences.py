"""The modules of sentence-transformers, computed again in NumPy from the states of tokens that transformers gives."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

import deploykit
from deploykit.errors import UnsupportedModelError, UsageError
from deploykit.frontends.huggingface.importer import load_folder
from tests.frontends.huggingface.seeds import weight, write_folder
from tests.frontends.huggingface.test_families import golden

POOLINGS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "cls": lambda x, _: x[:, 0],
    "max": lambda x, mask: np.where(mask, x, -np.inf).max(1),
    "mean": lambda x, mask: (x * mask).sum(1) / mask.sum(1),
    "mean_sqrt_len_tokens": lambda x, mask: (x * mask).sum(1) / np.sqrt(mask.sum(1)),
}
SETTINGS = [
    ({"pooling_mode": "cls"}, ["cls"]),
    ({"pooling_mode": "mean"}, ["mean"]),
    ({"pooling_mode": ["max", "cls"]}, ["max", "cls"]),
    ({"pooling_mode": "mean_sqrt_len_tokens", "include_prompt": True}, ["mean_sqrt_len_tokens"]),
    ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, ["cls"]),
    ({"pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": True}, ["max", "mean"]),
    ({"pooling_mode_mean_sqrt_len_tokens": True}, ["mean_sqrt_len_tokens"]),
    ({}, ["mean"]),
]


def folder_of(path: Path, *modules: tuple[str, dict[str, Any]]) -> Path:
    """BERT's golden with these modules behind it, each with its configuration."""
    stored = golden("bert")
    write_folder(path, stored.config, stored.shapes)
    entries = [{"type": "sentence_transformers.models.Transformer", "path": ""}]
    for number, (kind, settings) in enumerate(modules, 1):
        place = path / f"{number}_{kind}"
        place.mkdir()
        (place / "config.json").write_text(json.dumps(settings))
        entries.append({"type": f"sentence_transformers.models.{kind}", "path": place.name})
    (path / "modules.json").write_text(json.dumps(entries))
    return path


def check(folder: Path, dist: Path, expected: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> None:
    deploykit.build(load_folder(folder), output=dist)
    with deploykit.open(dist) as session:
        for inputs, results in golden("bert").runs():
            mask = inputs["attention_mask"].astype(bool)[:, :, None]
            wanted = expected(results["last_hidden_state"], mask)
            np.testing.assert_allclose(session(**inputs)["sentence_embedding"], wanted, rtol=0, atol=1e-5)


def pooled(modes: Sequence[str], x: np.ndarray, mask: np.ndarray) -> np.ndarray:
    return np.concatenate([POOLINGS[mode](x, mask) for mode in modes], axis=1)


@pytest.mark.slow
@pytest.mark.parametrize(("settings", "modes"), SETTINGS, ids=lambda value: "-".join(map(str, value)))
def test_pooling(tmp_path: Path, settings: dict[str, Any], modes: list[str]) -> None:
    folder = folder_of(tmp_path / "model", ("Pooling", settings))
    check(folder, tmp_path / "dist", lambda x, mask: pooled(modes, x, mask))


def test_dense_layers_and_normalisation(tmp_path: Path) -> None:
    dense = {"in_features": 24, "out_features": 7, "bias": True, "activation_function": "torch.nn.Tanh"}
    folder = folder_of(tmp_path / "model", ("Pooling", {"pooling_mode": "cls"}), ("Dense", dense), ("Normalize", {}))
    arrays = {"linear.weight": weight("dense.weight", [7, 24]), "linear.bias": weight("dense.bias", [7])}
    save_file(arrays, folder / "2_Dense" / "model.safetensors")

    def expected(x: np.ndarray, _: np.ndarray) -> np.ndarray:
        y = np.tanh(x[:, 0] @ arrays["linear.weight"].T + arrays["linear.bias"])
        return np.asarray(y / np.linalg.norm(y, axis=1, keepdims=True))

    check(folder, tmp_path / "dist", expected)


@pytest.mark.parametrize(
    ("modules", "message"),
    [
        ([("Pooling", {"pooling_mode": "lasttoken"})], "the pooling 'lasttoken' is unknown"),
        ([("Pooling", {"pooling_mode_weightedmean_tokens": True})], "the pooling 'weightedmean_tokens' is unknown"),
        ([("Pooling", {}), ("Dense", {"use_residual": True})], "says use_residual=True, which is not supported"),
        ([("Pooling", {}), ("Dense", {"module_input_name": "x"})], "says module_input_name='x', which is not"),
        ([("Pooling", {}), ("Router", {})], "has a module that is unknown: sentence_transformers.models.Router"),
    ],
)
def test_modules_that_are_unknown(tmp_path: Path, modules: list[tuple[str, dict[str, Any]]], message: str) -> None:
    with pytest.raises(UnsupportedModelError, match=message):
        load_folder(folder_of(tmp_path / "model", *modules))


def test_modules_without_pooling(tmp_path: Path) -> None:
    for modules in ([], [("Normalize", {})]):
        with pytest.raises(UsageError, match="Pooling"):
            load_folder(folder_of(tmp_path / str(len(modules)), *modules))


@pytest.mark.parametrize(
    ("file", "entry", "value"),
    [
        ("sentence_bert_config.json", "do_lower_case", True),
        ("config_sentence_transformers.json", "default_prompt_name", "query"),
    ],
)
def test_texts_that_would_be_changed(tmp_path: Path, file: str, entry: str, value: object) -> None:
    folder = folder_of(tmp_path / "model", ("Pooling", {}))
    (folder / file).write_text(json.dumps({entry: value}))
    with pytest.raises(UnsupportedModelError, match=f"says {entry}={value!r}, which changes texts"):
        load_folder(folder)
    (folder / file).write_text(json.dumps({entry: None}))
    assert load_folder(folder).outputs[0].name == "sentence_embedding"

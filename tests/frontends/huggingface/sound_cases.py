"""Sounds, and vocabularies of transcripts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

from tests.frontends.huggingface import seeds
from tests.frontends.huggingface.seeds import Shapes

VOCABULARY = {"<pad>": 0, "<s>": 1, "</s>": 2, "<unk>": 3, "|": 4, "A": 5, "B": 6, "C": 7, "Σ": 8, "ab": 9}
"""Two numbers fewer than the model has outputs."""

TOKENIZERS: Mapping[str, Mapping[str, Any]] = {
    "usual": {},
    "lower": {"do_lower_case": True},
    "other": {"pad_token": "A", "word_delimiter_token": "B", "unk_token": "C", "replace_word_delimiter_char": "_"},
}
"""Arguments of a Wav2Vec2CTCTokenizer."""

LENGTHS = (20, 333, 4000)


def write_folder(folder: Path, config: dict[str, Any], shapes: Shapes) -> None:
    """A folder whose model hears different letters: over time, all are about as probable."""
    seeds.write_folder(folder, config, shapes)
    weights = load_file(folder / "model.safetensors")
    with np.load(seeds.GOLDENS / "wav2vec2-letters.npz") as stored:
        weights["lm_head.bias"] -= stored["1/out/logits"].mean(axis=(0, 1))
    save_file(weights, folder / "model.safetensors")
    (folder / "vocab.json").write_text(json.dumps(VOCABULARY))


def sound(length: int) -> np.ndarray:
    """Samples of noise whose mean is not 0."""
    return (np.random.default_rng(length).standard_normal(length) * 0.2 + 0.1).astype(np.float32)


def numbers() -> list[list[int]]:
    """Letters at several times, many of them as often as not."""
    random = np.random.default_rng(0)
    found = [np.repeat(random.integers(0, 12, 30), random.integers(1, 4, 30)).tolist() for _ in range(6)]
    return [*found, [0, 0], [4, 8, 8, 4], [5, 5, 0, 5, 8]]

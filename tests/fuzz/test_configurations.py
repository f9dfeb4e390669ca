"""Edited files of Hugging Face folders: each gives a model, or an error that is meant."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import deploykit
from deploykit.errors import DeploykitError, InternalError
from deploykit.frontends.huggingface.importer import load_folder
from tests.frontends.huggingface import sound_cases, test_picture_answers, test_texts
from tests.frontends.huggingface.answer_cases import ANSWER_CASES
from tests.frontends.huggingface.seeds import GOLDENS
from tests.frontends.huggingface.test_entries import NAMES, config_of
from tests.fuzz.configurations import edited
from tests.fuzz.test_fuzz import chunks

CONFIGURATIONS, OTHERS = range(2000), range(2000)
INDEX = "model.safetensors.index.json"


def fault(load: Callable[[Path], object], folder: Path, file: Path, seed: int) -> str | None:
    """The error that is not meant for one that an edit of a file of the folder causes."""
    before = file.read_text()
    file.write_text(json.dumps(edited({"file": json.loads(before)}, seed).get("file")))
    try:
        load(folder)
    except InternalError as error:
        return f"{seed}: {file.name}: {error}"
    except DeploykitError:
        pass
    except Exception as error:  # noqa: BLE001  any other exception is a fault
        return f"{seed}: {file.name}: {type(error).__name__}: {error}"
    finally:
        file.write_text(before)
    return None


@pytest.mark.slow
@pytest.mark.sampled(part=40)
@chunks(CONFIGURATIONS, 50)
def test_edited_configurations(tmp_path: Path, seeds: range) -> None:
    found = []
    for seed in seeds:
        folder = tmp_path / NAMES[seed % len(NAMES)]
        config_of(folder.name, folder)
        found.append(fault(load_folder, folder, folder / "config.json", seed))
    assert not [each for each in found if each is not None]


def folders(path: Path) -> list[Path]:
    """Folders of sentences, texts, pictures and sounds, and one with several files of weights."""
    sentences = test_texts.sentences_of(path / "sentences")
    texts = [test_texts.folder_of(path / name, name) for name in ("bert-classes", "albert-answers")]
    pictures = [test_picture_answers.folder_of(path / name, name) for name in list(ANSWER_CASES)[:6]]
    facts: dict[str, Any] = json.loads((GOLDENS / "wav2vec2-letters.json").read_text())
    sound_cases.write_folder(path / "sounds", facts["config"], facts["shapes"])
    parts = path / "parts"
    config_of("bert-classes", parts)
    (parts / "model.safetensors").rename(parts / "part.safetensors")
    weights = json.loads((GOLDENS / "bert-classes.json").read_text())["shapes"]
    (parts / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": dict.fromkeys(weights, "part.safetensors")}))
    return [sentences, *texts, *pictures, path / "sounds", parts]


@pytest.mark.slow
@pytest.mark.sampled(part=40)
@chunks(OTHERS, 50)
def test_other_edited_files(tmp_path: Path, seeds: range) -> None:
    files = [(folder, file) for folder in folders(tmp_path) for file in sorted(folder.rglob("*.json"))]
    others = [(folder, file) for folder, file in files if file != folder / "config.json"]
    found = [fault(deploykit.load, *random.Random(seed).choice(others), seed) for seed in seeds]
    assert not [each for each in found if each is not None]

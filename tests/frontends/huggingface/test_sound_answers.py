"""Sessions of models of sound say what transformers' pipelines say."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deploykit
from deploykit.artifact.tasks import SoundEntry
from deploykit.errors import UsageError
from deploykit.sessions.tasks.labels import softmax
from deploykit.sessions.tasks.sounds import Sounds
from tests.bench.commands import ran
from tests.frontends.huggingface.seeds import GOLDENS
from tests.frontends.huggingface.sound_cases import (
    LENGTHS,
    TOKENIZERS,
    VOCABULARY,
    numbers,
    sound,
    write_folder,
)
from tests.frontends.huggingface.test_arrays import golden
from tests.tasks.test_sound_sources import write

SOUNDS = json.loads((GOLDENS / "sounds.json").read_text())
EXTRACTOR = {"feature_extractor_type": "Wav2Vec2FeatureExtractor", "sampling_rate": 16000, "do_normalize": True}


def folder_of(path: Path, **files: Any) -> Path:
    """A folder of a model that transcribes; `files` are JSON files by their names without the ending."""
    stored = golden("wav2vec2-letters")
    write_folder(path, stored.config, stored.shapes)
    for name, content in {"preprocessor_config": EXTRACTOR, **files}.items():
        (path / f"{name}.json").write_text(json.dumps(content))
    return path


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[deploykit.Session]:
    place = tmp_path_factory.mktemp("sound")
    deploykit.build(folder_of(place / "model"), output=place / "dist")
    with deploykit.open(place / "dist") as opened:
        yield opened


def test_transcripts(session: deploykit.Session) -> None:
    sounds = [sound(length) for length in LENGTHS]
    assert session.transcribe(sounds, 16000) == SOUNDS["heard"]
    assert session.transcribe(sounds[1], 16000) == SOUNDS["heard"][1]
    assert session.transcribe([]) == []
    with pytest.raises(UsageError, match="give the rate"):
        session.transcribe(sounds[0])
    with pytest.raises(UsageError, match="does not classify: its session has the method 'transcribe'"):
        session.classify(sounds[0], 16000)
    with pytest.raises(UsageError, match="takes sound, not pictures"):
        session.detect(sounds[0])


def test_files(session: deploykit.Session, tmp_path: Path) -> None:
    samples = np.round(sound(LENGTHS[1]) * 32768)
    path = write(tmp_path / "a.wav", samples, 1, 2)
    expected = session.transcribe((samples / 32768).astype(np.float32), 16000)
    assert session.transcribe(path) == expected
    shown = ran("deploykit", "run", session.folder, "--sound", path, "--json").stdout
    assert json.loads(shown) == {"transcripts": [expected]}


@pytest.mark.parametrize("name", TOKENIZERS)
def test_letters(tmp_path: Path, name: str) -> None:
    task = deploykit.load(folder_of(tmp_path, tokenizer_config=dict(TOKENIZERS[name]))).task
    assert isinstance(task, SoundEntry)
    for given, expected in zip(numbers(), SOUNDS[name], strict=True):
        logits = np.eye(12, dtype=np.float32)[given]
        found = Sounds(task, lambda _, logits=logits: {"logits": logits[None]})
        assert found.transcribe([np.ones(9)], 16000) == [expected]


def test_vocabularies_of_several_languages_and_added_letters(tmp_path: Path) -> None:
    files = {
        "vocab": {"deu": {"x": 0}, "eng": VOCABULARY},
        "tokenizer_config": {"target_lang": "eng", "added_tokens_decoder": {"10": {"content": "[more]"}}},
        "special_tokens_map": {"unk_token": {"content": "?"}},
        "added_tokens": {"!": 11},
    }
    task = deploykit.load(folder_of(tmp_path, **files)).task
    assert isinstance(task, SoundEntry)
    assert task.letters == ("<pad>", "<s>", "</s>", "<unk>", " ", "A", "B", "C", "Σ", "ab", "[more]", "!")


NOTES: Mapping[str, dict[str, Any]] = {
    "names the feature extractor SpeechT5FeatureExtractor": {
        "preprocessor_config": {"feature_extractor_type": "SpeechT5FeatureExtractor"}
    },
    "says tokenizer_class='Wav2Vec2PhonemeCTCTokenizer'": {
        "tokenizer_config": {"tokenizer_class": "Wav2Vec2PhonemeCTCTokenizer"}
    },
    "clean_up_tokenization_spaces=True": {"tokenizer_config": {"clean_up_tokenization_spaces": True}},
}


@pytest.mark.parametrize("note", NOTES)
def test_sound_that_cannot_be_prepared(tmp_path: Path, note: str) -> None:
    model = deploykit.load(folder_of(tmp_path, **NOTES[note]))
    assert model.task is None
    assert note in model.notes[-1]


def test_vocabularies_that_make_no_sense(tmp_path: Path) -> None:
    for number, (vocabulary, message) in enumerate(
        [
            ({"a": 12}, "the vocabulary belongs to another model"),
            ({"eng": {"a": 0}}, "has no numbers of letters"),
            ([], "has no numbers of letters"),
        ]
    ):
        with pytest.raises(UsageError, match=message):
            deploykit.load(folder_of(tmp_path / str(number), vocab=vocabulary))


@pytest.mark.slow
def test_classes(tmp_path: Path) -> None:
    stored = golden("wav2vec2-classes")
    config = stored.config | {"id2label": {"0": "yes", "1": "no"}}
    write_classes = write_folder_of_classes(tmp_path / "model", config, stored.shapes)
    deploykit.build(write_classes, output=tmp_path / "dist")
    samples = sound(333)
    with deploykit.open(tmp_path / "dist") as session:
        normal = (samples - samples.mean()) / samples.std()
        expected = softmax(session(input_values=normal[None])["logits"])[0]
        found = {label.name: label.score for label in session.classify(samples, 16000)}
    np.testing.assert_allclose([found["yes"], found["no"]], expected, rtol=1e-4)


def test_classes_by_a_spectrum(tmp_path: Path) -> None:
    """Whisper computes the spectrum itself, so it takes samples as they are."""
    stored = golden("whisper-classes")
    folder = write_folder_of_classes(tmp_path, stored.config, stored.shapes)
    spectrum = {"feature_size": 8, "chunk_length": 1, "sampling_rate": 4800}
    text = json.dumps({"feature_extractor_type": "WhisperFeatureExtractor", **spectrum})
    (folder / "preprocessor_config.json").write_text(text)
    task = deploykit.load(folder).task
    assert isinstance(task, SoundEntry)
    assert (task.kind, task.samples, task.rate, task.normal) == ("classify", "samples", 4800, False)


def write_folder_of_classes(path: Path, config: dict[str, Any], shapes: Any) -> Path:
    from tests.frontends.huggingface import seeds

    seeds.write_folder(path, config, shapes)
    (path / "preprocessor_config.json").write_text(json.dumps(EXTRACTOR))
    return path

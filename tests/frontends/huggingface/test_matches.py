"""Sessions say how well texts fit pictures as transformers' pipeline does."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deploykit
from deploykit.artifact.tasks import PairEntry
from deploykit.errors import UsageError
from tests.bench.commands import ran
from tests.frontends.huggingface.answer_cases import write_pictures
from tests.frontends.huggingface.seeds import GOLDENS, write_folder
from tests.frontends.huggingface.test_arrays import golden

pytest.importorskip("tokenizers")

from tests.frontends.huggingface.mask_cases import pieces
from tests.frontends.huggingface.match_cases import SETTINGS, TEXTS, ending

MATCHES = json.loads((GOLDENS / "matches.json").read_text())


def folder_of(path: Path, name: str, **settings: Any) -> Path:
    """The folder of a case; `settings` are changes of those of its tokenizer."""
    stored = golden(name)
    write_folder(path, ending(stored.config), stored.shapes)
    pieces().save(str(path / "tokenizer.json"))
    (path / "tokenizer_config.json").write_text(json.dumps(SETTINGS | settings))
    (path / "preprocessor_config.json").write_text(json.dumps(MATCHES[name]["preprocessor"]))
    return path


def require_matches(name: str, found: Sequence[tuple[str, float]]) -> None:
    """Check the texts with their scores for the first picture."""
    texts, scores = zip(*MATCHES[name]["answer"], strict=True)
    assert [text for text, _ in found] == list(texts)
    np.testing.assert_allclose([score for _, score in found], scores, rtol=2e-5)


@pytest.mark.parametrize("name", ["clip", pytest.param("siglip", marks=pytest.mark.slow)])
def test_texts_that_fit(tmp_path: Path, name: str) -> None:
    deploykit.build(folder_of(tmp_path / "model", name), output=tmp_path / "dist")
    picture, *_ = write_pictures(tmp_path)
    with deploykit.open(tmp_path / "dist") as session:
        found = session.match(picture, TEXTS)
        require_matches(name, [(label.name, label.score) for label in found])
        assert session.match([picture], TEXTS) == [found]
        (alone,) = session.match(picture, ["the"])
        fits = {label.name: label.score for label in found}["the"]
        assert alone.score == pytest.approx(1 if name == "clip" else fits, rel=1e-5)
        for texts in ("a cat", []):
            with pytest.raises(UsageError, match="give a list of texts"):
                session.match(picture, texts)
        with pytest.raises(UsageError, match="takes pictures with texts, not pictures: its"):
            session.embed("a cat")
        options = [word for text in TEXTS for word in ("--text", text)]
        shown = ran("deploykit", "run", session.folder, "--image", picture, *options, "--json").stdout
        (classes,) = json.loads(shown)["classes"]
        assert [each["name"] for each in classes] == [label.name for label in found]


def test_texts_that_cannot_be_padded(tmp_path: Path) -> None:
    model = deploykit.load(folder_of(tmp_path, "siglip", pad_token=None))
    assert model.task is None
    assert any("does not say how texts are padded, which counts here" in note for note in model.notes)


def test_what_is_known_of_texts(tmp_path: Path) -> None:
    clip, siglip = (deploykit.load(folder_of(tmp_path / name, name)).task for name in ("clip", "siglip"))
    assert isinstance(clip, PairEntry)
    assert isinstance(siglip, PairEntry)
    assert (clip.mask, clip.padding, clip.most_tokens, clip.scores) == ("attention_mask", None, 20, "softmax")
    assert (siglip.mask, siglip.padding, siglip.most_tokens, siglip.scores) == (None, 0, 20, "sigmoid")


def test_a_folder_without_a_tokenizer(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "clip")
    (folder / "tokenizer.json").unlink()
    assert deploykit.load(folder).task is None

"""Sessions fill masks with what transformers' pipeline fills in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deploykit
from deploykit.artifact.tasks import TextEntry
from deploykit.errors import UsageError
from deploykit.quantization import MEASURES, TEXTS
from tests.bench.commands import ran
from tests.frontends.huggingface.seeds import GOLDENS, write_folder
from tests.frontends.huggingface.test_families import golden

pytest.importorskip("tokenizers")

from tests.frontends.huggingface.mask_cases import COUNT, MASK_CASES

MASKS = json.loads((GOLDENS / "masks.json").read_text())


def folder_of(path: Path, name: str, settings: object = None) -> Path:
    """The folder of a case; `settings` are those of its tokenizer, by default with its mask."""
    stored, case = golden(name), MASK_CASES[name]
    write_folder(path, stored.config, stored.shapes)
    case.tokenizer().save(str(path / "tokenizer.json"))
    text = json.dumps({"mask_token": case.mask} if settings is None else settings)
    (path / "tokenizer_config.json").write_text(text)
    return path


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[deploykit.Session]:
    place = tmp_path_factory.mktemp("masks")
    deploykit.build(folder_of(place / "model", "bert-words"), output=place / "dist")
    with deploykit.open(place / "dist") as opened:
        yield opened


def require_tokens(name: str, found: Any) -> None:
    """Check the tokens, as pairs of text and score, for each mask of each text. Several tokens have no text."""
    for masks, expected_masks in zip(found, MASKS[name], strict=True):
        for tokens, expected in zip(masks, expected_masks, strict=True):
            texts, scores = zip(*expected, strict=True)
            assert [text for text, _ in tokens] == list(texts)
            np.testing.assert_allclose([score for _, score in tokens], scores, rtol=2e-5)


def pairs(found: Any) -> Any:
    return [[[(label.name, label.score) for label in labels] for labels in masks] for masks in found]


def test_tokens(session: deploykit.Session) -> None:
    texts = MASK_CASES["bert-words"].texts
    require_tokens("bert-words", pairs(session.fill(texts, COUNT)))
    (alone,) = session.fill(texts[0])
    assert [label.name for label in alone] == [text for text, _ in MASKS["bert-words"][0][0][:5]]
    assert session.fill([]) == []


@pytest.mark.slow
def test_tokens_with_spaces(tmp_path: Path) -> None:
    deploykit.build(folder_of(tmp_path / "model", "roberta-words"), output=tmp_path / "dist")
    with deploykit.open(tmp_path / "dist") as opened:
        found = pairs(opened.fill(MASK_CASES["roberta-words"].texts, COUNT))
    require_tokens("roberta-words", found)
    assert " c" in dict(found[0][0])


def test_texts_that_cannot_be_filled(session: deploykit.Session) -> None:
    with pytest.raises(UsageError, match=r"the text has no \[MASK\], which stands for what is to be filled in"):
        session.fill(["a [MASK]", "the cat"])
    with pytest.raises(UsageError, match=r"the text has no \[MASK\] in its first 40 tokens, which stands"):
        session.fill("cat " * 40 + "[MASK]")
    with pytest.raises(UsageError, match="count must be at least 1"):
        session.fill("[MASK]", 0)
    with pytest.raises(UsageError, match="does not classify: its session has the method 'fill'"):
        session.classify("a")


def test_the_change_by_quantised_weights(session: deploykit.Session) -> None:
    note = MEASURES["fill"](session, session, TEXTS)
    assert note == f"the best token for {len(TEXTS)} masks: {len(TEXTS)} are those of float32"


@pytest.mark.parametrize("settings", [{"mask_token": {"content": "[MASK]"}}, {}])
def test_the_mask_of_a_tokenizer(tmp_path: Path, settings: object) -> None:
    task = deploykit.load(folder_of(tmp_path, "bert-words", settings)).task
    assert isinstance(task, TextEntry)
    assert (task.kind, task.mask, task.mask_id) == ("fill", "[MASK]", 4)


def test_a_tokenizer_without_a_mask(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "bert-words")
    path = folder / "tokenizer.json"
    path.write_text(path.read_text().replace('"[MASK]"', '"[HOLE]"'))
    model = deploykit.load(folder)
    assert model.task is None
    assert any("has no token for what is masked" in note for note in model.notes)


def test_the_command_line(session: deploykit.Session) -> None:
    text = "The [MASK] sat."
    ((label, *_),) = session.fill(text)
    shown = ran("deploykit", "run", session.folder, "--text", text, "--json").stdout
    ((tokens,),) = json.loads(shown)["masks"]
    assert tokens[0] == {"name": label.name, "score": pytest.approx(label.score, rel=1e-5)}
    assert label.name in ran("deploykit", "run", session.folder, "--text", text).stdout

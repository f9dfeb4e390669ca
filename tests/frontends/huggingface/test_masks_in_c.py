"""Models that fill masks in C: the functions of `model_texts.h` give the words that sessions in Python give."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import deploykit
from deploykit.engines.native.sanitized import SANITIZERS
from deploykit.folders.texts import with_text_task
from deploykit.frontends.huggingface.importer import import_folder
from tests.conftest import Golden

pytest.importorskip("tokenizers")

from tests.frontends.huggingface.mask_cases import COUNT, MASK_CASES
from tests.frontends.huggingface.test_masks import folder_of, pairs
from tests.frontends.huggingface.texts_in_c import Program, words_of

ROOMS = [(4096, 8, 400), (4096, 1, 40), (300, 3, 41)]
"""Bytes of a text, texts and tokens at once."""


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("masks")
    deploykit.build(folder_of(place / "model", "bert-words"), output=place / "dist")
    return place / "dist"


def require_words(dist: Path, program: Program, texts: Sequence[str], room: Sequence[int], count: int) -> None:
    """The same words, in the same order, with the same scores."""
    with deploykit.open(dist) as session:
        expected = pairs(session.fill(texts, count))
    for masks, expected_masks in zip(words_of(program(texts, room=room)), expected, strict=True):
        for words, wanted in zip(masks, expected_masks, strict=True):
            assert [text for text, _ in words] == [text for text, _ in wanted]
            np.testing.assert_allclose([score for _, score in words], [score for _, score in wanted], rtol=0, atol=1e-6)


def test_words(dist: Path, tmp_path: Path) -> None:
    """Of texts that run together, alone and in parts."""
    texts = [*MASK_CASES["bert-words"].texts, *(f"[MASK] {'a ' * (n % 7)}\U0001f600 [MASK]" for n in range(20))]
    program = Program(dist, tmp_path / "app", *SANITIZERS, best=COUNT)
    for room in ROOMS:
        require_words(dist, program, texts, room, COUNT)
    assert program([]) == []


@pytest.mark.slow
@pytest.mark.parametrize(("case", "padded"), [("bert-words", True), ("roberta-words", False)])
def test_words_of_other_models(tmp_path: Path, case: str, padded: bool) -> None:
    folder = folder_of(tmp_path / "model", case)
    model = with_text_task(import_folder(folder, {})) if padded else folder
    deploykit.build(model, output=tmp_path / "dist")
    program = Program(tmp_path / "dist", tmp_path / "app", *SANITIZERS, best=COUNT)
    require_words(tmp_path / "dist", program, MASK_CASES[case].texts, (4096, 1, 40), COUNT)


@pytest.mark.parametrize("room", [0, 9])
def test_more_words_than_room(dist: Path, tmp_path: Path, room: int) -> None:
    program = Program(dist, tmp_path / "app", *SANITIZERS, room=room)
    texts = ["[MASK]", "a [MASK] [MASK]"]
    for runs in ROOMS:
        assert program(texts, room=runs) == [
            f"error 5 15 the masks of the texts have 15 words, and there is room for {room}"
        ]


def test_texts_that_cannot_be_filled(dist: Path, tmp_path: Path) -> None:
    program = Program(dist, tmp_path / "app", *SANITIZERS)
    for text in ("the cat", "cat " * 40 + "[MASK]"):
        for room in ROOMS:
            (line,) = program(["a [MASK]", text], room=room)
            assert line == (
                "error 8 0 text 1: it has no [MASK], or is cut off before it: put it where a token is to be filled in"
            )


@pytest.mark.parametrize("best", [0, 1000])
def test_more_words_than_the_vocabulary(dist: Path, tmp_path: Path, best: int) -> None:
    (vocabulary,) = re.findall(r"_VOCABULARY (\d+)", (dist / "model_texts.h").read_text())
    program = Program(dist, tmp_path / "app", *SANITIZERS, best=best)
    assert program(["[MASK]"]) == [f"error 8 0 a mask has from 1 to {vocabulary} words; asked for {best}"]


def test_generated_texts(dist: Path, golden: Golden) -> None:
    header, readme = ((dist / name).read_text() for name in ("model_texts.h", "README.md"))
    header = re.sub(r"deploykit \d[\w.+]*", "deploykit VERSION", header)
    golden(header + re.findall(r"^## Texts\n.*?(?=^## )", readme, re.MULTILINE | re.DOTALL)[0], "bert-words.txt")


@pytest.mark.slow
def test_example_for_microcontrollers(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "model", "bert-words")
    deploykit.build(folder, "embedded", {"batch": (1, 2), "tokens": (1, 80)}, tmp_path / "dist")
    make = ["make", "-s", "-C", str(tmp_path / "dist"), "CFLAGS=-O1 -Werror -Wconversion -Wshadow", "run"]
    lines = subprocess.run(make, check=True, capture_output=True, text=True).stdout.splitlines()
    with deploykit.open(tmp_path / "dist") as session:
        (expected,) = session.fill("The [MASK] sat on the mat.")
    assert lines == [f"{label.score:.4f} {label.name}" for label in expected]

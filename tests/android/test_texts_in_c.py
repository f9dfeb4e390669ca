"""Models of texts in C on Android: the functions of each ABI's library give what a session in Python gives."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

import deploykit
from deploykit.basics.toolchain import find_cross_compiler
from deploykit.engines.native.bionic import can_run, without_needed
from deploykit.targets.android import AndroidTarget
from deploykit.targets.android.abis import ABIS
from tests.android.natives import SYSTEMS
from tests.frontends.huggingface.mask_cases import MASK_CASES
from tests.frontends.huggingface.test_masks import folder_of as masks_folder_of
from tests.frontends.huggingface.test_masks import pairs
from tests.frontends.huggingface.test_texts import TEXTS, folder_of
from tests.frontends.huggingface.texts_in_c import STRICT, Program, spans_of, words_of

pytestmark = pytest.mark.slow

MANY = [*TEXTS, "\U0001f600 the cat", "e\u0301a b\u00fc"]


class OnAbi(Program):
    """The program for an artifact of the format `so`, with the library for an ABI, which is changed to run on Linux."""

    def __init__(self, dist: Path, place: Path, abi: str) -> None:
        self._abi = abi
        self.launcher = SYSTEMS[abi][2]
        super().__init__(dist, place)

    def build(self, place: Path, *options: str) -> None:
        (shipped,) = (self.dist / self._abi).iterdir()
        library = place / shipped.name
        library.write_bytes(without_needed(shipped.read_bytes()))
        compiler = find_cross_compiler(*SYSTEMS[self._abi][:2])
        call = [*compiler.command, *STRICT, *options, f"-I{self.dist / 'include'}", str(place / "app.c"), str(library)]
        links = ["-Wl,--no-as-needed", "-lm", f"-Wl,-rpath,{library.parent}", "-Wl,--allow-shlib-undefined", "-pthread"]
        subprocess.run([*call, *links, "-o", str(self.program)], check=True)


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("texts")
    deploykit.build(folder_of(place / "model", "bert-tokens"), AndroidTarget(), output=place / "dist", format="so")
    return place / "dist"


@pytest.mark.parametrize("abi", ABIS)
def test_tokens(dist: Path, tmp_path: Path, abi: str) -> None:
    if not can_run(SYSTEMS[abi][0]):
        pytest.skip(f"cannot run {abi} here")
    with deploykit.open(dist) as session:
        expected = session.tokens(MANY)
    for text, line, spans in zip(MANY, OnAbi(dist, tmp_path, abi)(MANY), expected, strict=True):
        found, scores = spans_of(line)
        assert [label for label, *_ in found] == [span.label for span in spans]
        assert [text.encode()[begin:end].decode() for _, begin, end in found] == [span.text for span in spans]
        np.testing.assert_allclose(scores, [span.score for span in spans], rtol=1e-5)


def test_masks(tmp_path: Path) -> None:
    texts, dist = MASK_CASES["bert-words"].texts, tmp_path / "dist"
    folder = masks_folder_of(tmp_path / "model", "bert-words")
    deploykit.build(folder, AndroidTarget(["x86_64"]), output=dist, format="so")
    with deploykit.open(dist) as session:
        expected = pairs(session.fill(texts))
    for masks, expected_masks in zip(words_of(OnAbi(dist, tmp_path, "x86_64")(texts)), expected, strict=True):
        for words, wanted in zip(masks, expected_masks, strict=True):
            assert [text for text, _ in words] == [text for text, _ in wanted]
            np.testing.assert_allclose([score for _, score in words], [score for _, score in wanted], rtol=0, atol=1e-6)

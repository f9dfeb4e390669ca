"""The README of a package: it begins with what the model is for, and its first program runs in node."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import deploykit
from tests.frontends.huggingface import test_masks, test_matches, test_picture_answers, test_sound_answers, test_texts
from tests.web.tools import run

PROGRAM = re.compile(r"^```js\n(.*?)^```", re.MULTILINE | re.DOTALL)

Maker = Callable[[Path], Path]
MODELS: dict[str, tuple[Maker, str]] = {
    "classes of texts": (lambda path: test_texts.folder_of(path, "bert-classes"), "label:"),
    "classes of tokens": (lambda path: test_texts.folder_of(path, "bert-tokens"), "end:"),
    "answers": (lambda path: test_texts.folder_of(path, "bert-answers"), "text:"),
    "masks": (lambda path: test_masks.folder_of(path, "bert-words"), "label:"),
    "vectors of texts": (test_texts.sentences_of, "Float32Array"),
    "classes of pictures": (lambda path: test_picture_answers.folder_of(path, "classify"), "label: 'cat'"),
    "objects": (lambda path: test_picture_answers.folder_of(path, "detect"), "["),
    "segments": (lambda path: test_picture_answers.folder_of(path, "segment"), "labels:"),
    "sound": (test_sound_answers.folder_of, "\n"),
    "pictures and texts": (lambda path: test_matches.folder_of(path, "clip"), "label: 'a "),
}
"""By what they are for: how a folder of the model is made, and a part of what the program prints."""


@pytest.mark.slow
@pytest.mark.parametrize("kind", MODELS)
def test_the_first_program(tmp_path: Path, kind: str) -> None:
    make, printed = MODELS[kind]
    artifact = deploykit.build(make(tmp_path / "folder" / "model"), "webgpu", output=tmp_path / "web")
    assert artifact is not None
    readme = (tmp_path / "web" / "README.md").read_text()
    assert readme.index("```js") < readme.index("## Prerequisites")
    (tmp_path / artifact.manifest.prefix).symlink_to(tmp_path / "web")
    (tmp_path / "app.mjs").write_text(PROGRAM.findall(readme)[0])
    result = run("node", "app.mjs", folder=tmp_path)
    assert result.returncode == 0, result.stderr
    assert printed in result.stdout

"""Sessions of models of pictures say what transformers' pipelines say."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import deploykit
from deploykit.errors import UsageError
from tests.bench.commands import ran
from tests.frontends.huggingface.answer_cases import ANSWER_CASES, write_pictures
from tests.frontends.huggingface.picture_cases import pixels
from tests.frontends.huggingface.seeds import GOLDENS, write_folder
from tests.frontends.huggingface.test_arrays import golden

ANSWERS = json.loads((GOLDENS / "answers.json").read_text())


def folder_of(path: Path, name: str, **entries: Any) -> Path:
    """The folder of a case; `entries` are changes of how pictures are prepared."""
    case = ANSWER_CASES[name]
    stored = golden(case.golden)
    write_folder(path, stored.config | dict(case.settings), stored.shapes)
    preprocessor = ANSWERS[name]["preprocessor"] | entries
    (path / "preprocessor_config.json").write_text(json.dumps(preprocessor))
    return path


Opened = Callable[[str], deploykit.Session]


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    """The session of a case."""
    sessions: dict[str, deploykit.Session] = {}

    def opened(name: str) -> deploykit.Session:
        if name not in sessions:
            place = tmp_path_factory.mktemp(name)
            deploykit.build(folder_of(place / "model", name), output=place / "dist")
            sessions[name] = deploykit.open(place / "dist")
        return sessions[name]

    yield opened
    for session in sessions.values():
        session.close()


@pytest.mark.parametrize("name", ["classify", "classify-several"])
def test_classes(opened: Opened, tmp_path: Path, name: str) -> None:
    paths, session = write_pictures(tmp_path), opened(name)
    answers = session.classify(paths)
    for labels, expected in zip(answers, ANSWERS[name]["answers"], strict=True):
        assert [label.name for label in labels] == [each["label"] for each in expected]
        np.testing.assert_allclose([x.score for x in labels], [x["score"] for x in expected], rtol=1e-5)
    plain = [paths[0], str(paths[0]), Image.open(paths[0]), pixels(0)]
    assert [session.classify(picture) for picture in plain] == [answers[0]] * 4
    assert session.classify(Image.open(paths[1])) == answers[1]
    assert session.classify([]) == []


def test_vectors(opened: Opened, tmp_path: Path) -> None:
    paths, session = write_pictures(tmp_path), opened("embed")
    found = session.embed(paths)
    np.testing.assert_allclose(found, ANSWERS["embed"]["answers"], rtol=0, atol=1e-4)
    np.testing.assert_array_equal(session.embed(paths[0]), found[0])
    assert session.embed([]).shape == (0, found.shape[1])


def test_methods_for_other_models(opened: Opened) -> None:
    session = opened("classify")
    with pytest.raises(UsageError, match="does not embed: its session has the method 'classify'"):
        session.embed(pixels(0))
    with pytest.raises(UsageError, match="takes pictures, not texts: its session has the method 'classify'"):
        session.tokens("a")
    with pytest.raises(UsageError, match="a cat cannot be read as a picture"):
        session.classify("a cat")


@pytest.mark.parametrize(
    ("entries", "note"),
    [
        ({"size": {"height": 8, "width": 8}}, "makes them 8x8 points large, but the model takes 12x8"),
        ({"resample": 1}, "says resample=1"),
    ],
)
def test_pictures_that_cannot_be_prepared(tmp_path: Path, entries: dict[str, Any], note: str) -> None:
    model = deploykit.load(folder_of(tmp_path, "classify", **entries))
    assert model.task is None
    (found,) = model.notes
    assert found.startswith("the model takes tensors instead of pictures: ")
    assert note in found


def test_a_batch_of_several(tmp_path: Path) -> None:
    model = deploykit.load(folder_of(tmp_path, "classify"), {"batch": (2, None)})
    assert "they run one after another, but a batch has 2 or more" in model.notes[0]


def test_a_folder_that_says_nothing(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "classify")
    (folder / "preprocessor_config.json").unlink()
    assert deploykit.load(folder).task is None


def test_the_command_line(opened: Opened, tmp_path: Path) -> None:
    folder = opened("classify").folder
    paths = write_pictures(tmp_path)
    images = [word for path in paths for word in ("--image", path)]
    found = json.loads(ran("deploykit", "run", folder, *images, "--json").stdout)["classes"]
    assert [[label["name"] for label in labels] for labels in found] == [["cat", "dog"]] * 3
    shown = ran("deploykit", "run", folder, "--image", paths[0]).stdout
    assert "cat" in shown
    assert "0.570" in shown

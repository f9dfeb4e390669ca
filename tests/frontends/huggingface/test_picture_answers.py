"""Sessions of models of pictures say what transformers' pipelines say."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import deploykit
from deploykit.artifact.tasks import PictureEntry
from deploykit.cli.pictures import run_pictures
from deploykit.errors import UsageError
from deploykit.pictures import Picture
from deploykit.sessions.tasks.pictures import Detection, Pictures
from deploykit.sessions.tasks.segments import best_classes
from tests.bench.commands import ran
from tests.frontends.huggingface.answer_cases import ANSWER_CASES, LEAST_SCORE, MAP_SIZES, maps, objects, write_pictures
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


@pytest.mark.parametrize("name", ["classify", pytest.param("classify-several", marks=pytest.mark.slow)])
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


@pytest.mark.slow
def test_vectors(opened: Opened, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths, session = write_pictures(tmp_path), opened("embed")
    found = session.embed(paths)
    np.testing.assert_allclose(found, ANSWERS["embed"]["answers"], rtol=0, atol=1e-4)
    np.testing.assert_array_equal(session.embed(paths[0]), found[0])
    assert session.embed([]).shape == (0, found.shape[1])
    assert "similarity to the first" in printed(capsys, session, paths, output=tmp_path / "vectors.npz")
    with np.load(tmp_path / "vectors.npz") as vectors:
        np.testing.assert_array_equal(vectors["pooler_output"], found)
    with pytest.raises(UsageError, match="--least goes with a model that detects"):
        printed(capsys, session, paths, least=0.5)


def printed(
    capsys: pytest.CaptureFixture[str],
    session: deploykit.Session,
    paths: list[Path],
    *,
    least: float | None = None,
    output: Path | None = None,
    json_output: bool = False,
) -> str:
    """What `deploykit run --image` prints."""
    run_pictures(session, paths, least, output, json_output=json_output)
    return capsys.readouterr().out


def test_objects(opened: Opened, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session, paths = opened("detect"), write_pictures(tmp_path)
    answers = session.detect(paths, LEAST_SCORE)
    for found, expected in zip(answers, ANSWERS["detect"]["answers"], strict=True):
        require_detections(found, expected)
    shown = json.loads(printed(capsys, session, paths[:1], least=LEAST_SCORE, json_output=True))["objects"]
    assert shown == [[vars(one) for one in answers[0]]]
    assert "LABEL_0" in printed(capsys, session, paths, least=LEAST_SCORE)
    assert "LABEL_0" not in printed(capsys, session, paths, least=0.99)
    with pytest.raises(UsageError, match="--output takes vectors and classes of points"):
        printed(capsys, session, paths, output=tmp_path / "objects.npz")


def require_detections(found: list[Detection], expected: dict[str, Any]) -> None:
    """They are those of transformers, the best first."""
    order = np.argsort(-np.array(expected["scores"]), kind="stable")
    np.testing.assert_allclose([one.score for one in found], np.array(expected["scores"])[order], rtol=1e-5)
    assert sorted(one.label for one in found) == sorted(f"LABEL_{number}" for number in expected["labels"])
    boxes = [(one.left, one.top, one.right, one.bottom) for one in found]
    np.testing.assert_allclose(np.sort(boxes, axis=0), np.sort(expected["boxes"], axis=0), rtol=0, atol=1e-3)


def test_objects_of_random_outputs() -> None:
    """What follows from the tensors, for objects that differ."""
    logits, places = objects()
    task = PictureEntry(
        kind="detect",
        pixels="x",
        picture=Picture(),
        outputs=("logits", "boxes"),
        labels=("LABEL_0", "LABEL_1"),
    )
    pictures = Pictures((), task, lambda _: {"logits": logits, "boxes": places})
    blank = np.zeros((30, 40, 3), np.uint8)
    (found,) = pictures.detect([blank], LEAST_SCORE)
    expected = ANSWERS["objects"]
    require_detections(found, expected)
    best = int(np.argmax(expected["scores"]))
    assert found[0].label == f"LABEL_{expected['labels'][best]}"
    np.testing.assert_allclose(found[0].top, expected["boxes"][best][1], rtol=1e-5)
    (fewer,) = pictures.detect([blank], LEAST_SCORE, overlap=0.1)
    assert 0 < len(fewer) < len(found)
    assert set(fewer) < set(found)
    assert pictures.detect([blank], LEAST_SCORE, overlap=1.0) == [found]


@pytest.mark.slow
def test_segments(opened: Opened, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session, paths = opened("segment"), write_pictures(tmp_path)
    for found, expected in zip(session.segment(paths), ANSWERS["segment"]["answers"], strict=True):
        np.testing.assert_array_equal(found.classes, expected)
        assert sum(found.shares.values()) == pytest.approx(1)
    assert printed(capsys, session, paths, output=tmp_path / "maps.npz").count("%") >= 3
    with np.load(tmp_path / "maps.npz") as maps:
        np.testing.assert_array_equal(maps["classes_1"], ANSWERS["segment"]["answers"][1])
    shares = json.loads(printed(capsys, session, paths[:1], json_output=True))["shares"]
    assert shares == [session.segment(paths[0]).shares]


@pytest.mark.parametrize("number", range(len(MAP_SIZES)))
def test_segments_of_random_scores(number: int) -> None:
    np.testing.assert_array_equal(best_classes(maps()[0], MAP_SIZES[number]), ANSWERS["maps"][number])


def test_methods_for_other_models(opened: Opened) -> None:
    session = opened("classify")
    with pytest.raises(UsageError, match="does not embed: its session has the method 'classify'"):
        session.embed(pixels(0))
    with pytest.raises(UsageError, match="takes pictures, not texts: its session has the method 'classify'"):
        session.tokens("a")
    with pytest.raises(UsageError, match="a rate goes with sound"):
        session.classify(pixels(0), 16000)
    with pytest.raises(UsageError, match="a cat cannot be read as a picture"):
        session.classify("a cat")


@pytest.mark.parametrize(
    ("entries", "note"),
    [
        ({"size": {"height": 8, "width": 8}}, "makes pictures 8x8 points large, but the model takes 12x8"),
        ({"resample": 1}, "says resample=1"),
    ],
)
def test_pictures_that_cannot_be_prepared(tmp_path: Path, entries: dict[str, Any], note: str) -> None:
    model = deploykit.load(folder_of(tmp_path, "classify", **entries))
    assert model.task is None
    (found,) = model.notes
    assert found.startswith("the model takes tensors only: ")
    assert note in found


def test_methods_of_a_model_that_takes_tensors(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "model", "classify")
    (folder / "preprocessor_config.json").unlink()
    deploykit.build(folder, output=tmp_path / "dist")
    why = "'model' takes tensors only: the folder has no preprocessor_config.json, which says how pictures are prepared"
    with deploykit.open(tmp_path / "dist") as session:
        for method in (session.classify, session.embed, partial(session.classify, rate=16000), session.transcribe):
            with pytest.raises(UsageError, match=why):
                method(pixels(0))


def test_models_that_answer_nothing_take_tensors(tmp_path: Path) -> None:
    stored = golden("segformer")
    write_folder(tmp_path, stored.config, stored.shapes)
    (note,) = deploykit.load(tmp_path).notes
    assert (
        note
        == "the model takes tensors only: sessions have no method for what SegformerModel gives (last_hidden_state)"
    )


@pytest.mark.parametrize(
    ("dims", "taken"),
    [({"height": (21, None)}, "21..x5.."), ({"width": (5, 27)}, "5..x5..27"), ({"height": 9}, "9x5..")],
)
def test_pictures_beyond_the_bounds_of_dims(tmp_path: Path, dims: dict[str, Any], taken: str) -> None:
    folder = folder_of(tmp_path, "segment")
    (note,) = deploykit.load(folder, dims).notes
    assert note.endswith(f"makes pictures 20x28 points large, but the model takes {taken}")
    assert deploykit.load(folder, {"height": (20, 20), "width": (5, 28)}).task is not None


def test_a_batch_of_several(tmp_path: Path) -> None:
    model = deploykit.load(folder_of(tmp_path, "classify"), {"batch": (2, None)})
    assert "run one after another, but a batch has 2 or more" in model.notes[0]


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

"""Models of pictures in C: what the functions of `model_pictures.h` give is what sessions in Python give."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import deploykit
from deploykit.basics.toolchain import find_c_compiler
from deploykit.engines.native.sanitized import SANITIZERS
from tests.answers.pictures_in_c import Program, program_of, request_of
from tests.conftest import Golden
from tests.frontends.huggingface.answer_cases import LEAST_SCORE
from tests.frontends.huggingface.test_picture_answers import folder_of

SHAPES = [(31, 22, 4), (12, 19, 3), (23, 10, 1), (1, 1, 3), (200, 3, 4), (5, 90, 3)]


def given(shapes: list[tuple[int, int, int]] = SHAPES) -> list[np.ndarray]:
    random = np.random.default_rng(3)
    return [random.integers(0, 256, shape, dtype=np.uint8) for shape in shapes]


Built = Callable[..., tuple[Path, Program]]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """A case as an artifact, and the program for it under sanitizers."""

    @cache
    def make(kind: str) -> tuple[Path, Program]:
        place = tmp_path_factory.mktemp(kind)
        deploykit.build(folder_of(place / "model", kind), output=place / "dist")
        return place / "dist", program_of(place / "dist", place / "app", *SANITIZERS, least=LEAST_SCORE)

    return make


def numbers(lines: list[str]) -> np.ndarray:
    return np.array([[float(word) for word in line.split()] for line in lines], np.float32)


def request(pictures: list[np.ndarray]) -> bytes:
    strides = [0, 19 * 3 + 7]
    return b"".join(request_of(each, stride=strides[n == 1]) for n, each in enumerate(pictures))


@pytest.mark.parametrize("kind", ["classify", pytest.param("classify-several", marks=pytest.mark.slow)])
def test_classes(built: Built, kind: str) -> None:
    dist, program = built(kind)
    with deploykit.open(dist) as session:
        expected = [
            [{x.name: x.score for x in row}[name] for name in ("cat", "dog")] for row in session.classify(given())
        ]
    np.testing.assert_allclose(numbers(program(request(given()))), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.slow
def test_vectors(built: Built) -> None:
    dist, program = built("embed")
    with deploykit.open(dist) as session:
        expected = session.embed(given())
    np.testing.assert_array_equal(numbers(program(request(given()))), expected)


@pytest.mark.slow
def test_objects(built: Built, tmp_path: Path) -> None:
    dist, program = built("detect")
    pictures = given([shape for shape in SHAPES if shape[0] < 100])
    with deploykit.open(dist) as session:
        expected = session.detect(pictures, LEAST_SCORE)
    for line, objects in zip(program(request(pictures)), expected, strict=True):
        words = line.split()
        assert words[::6] == [one.label for one in objects]
        found = [float(word) for n, word in enumerate(words) if n % 6]
        wanted = [x for one in objects for x in (one.score, one.left, one.top, one.right, one.bottom)]
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)
    few = program_of(dist, tmp_path / "few", room=1, least=0.0)
    count = len(objects)
    assert few(request(pictures[:1])) == [
        f"error 5 {count} the picture has {count} objects, and there is room for 1",
        "no objects",
    ]
    wrong = program_of(dist, tmp_path / "wrong", overlap=1.5)
    assert wrong(request(pictures[:1]))[0] == "error 8 0 boxes overlap by a part of 0 to 1; 1 drops none"


@pytest.mark.slow
def test_segments(built: Built) -> None:
    dist, program = built("segment")
    with deploykit.open(dist) as session:
        expected = session.segment(given())
    for line, found in zip(program(request(given())), expected, strict=True):
        assert [int(word) for word in line.split()] == found.classes.reshape(-1).tolist()


def test_what_has_no_room_or_makes_no_sense_is_refused(built: Built) -> None:
    _, program = built("classify")
    (one,) = given([(31, 22, 3)])
    cases = [
        (
            request_of(one, room=64),
            r"error 4 0 the workspace is misaligned or too small: this picture needs \d+ bytes, f",
        ),
        (request_of(one, stride=65), "error 8 0 the stride is less than the bytes of a row"),
        (request_of(one, points=2), "error 8 0 the points of a picture are DK_GREY, "),
        (request_of(one[:, :0]), "error 8 0 the picture is NULL"),
    ]
    lines = program(b"".join(each for each, _ in cases))
    for line, (_, message) in zip(lines, cases, strict=True):
        assert re.match(message, line), line


@pytest.mark.slow
def test_a_picture_that_the_model_does_not_take(built: Built) -> None:
    _, program = built("detect")
    (line, _) = program(request(given([(2, 300, 3)])))
    assert line.startswith("error 8 0 a picture of 2x300 points cannot become one that the model takes")


@pytest.mark.parametrize("kind", ["classify", pytest.param("detect", marks=pytest.mark.slow)])
def test_generated_texts(built: Built, golden: Golden, kind: str) -> None:
    dist, _ = built(kind)
    header, readme = ((dist / name).read_text() for name in ("model_pictures.h", "README.md"))
    header = re.sub(r"deploykit \d[\w.+]*", "deploykit VERSION", header)
    golden(header + re.findall(r"^## Pictures\n.*?(?=^## )", readme, re.MULTILINE | re.DOTALL)[0], f"{kind}.txt")


ARM = "arm-linux-gnueabi-gcc"
MACHINES = {
    "sanitized": (find_c_compiler().command, SANITIZERS, ()),
    "arm": ((ARM,), ("-static", "-march=armv7-a", "-Os"), ("qemu-arm",)),
}
"""Where artifacts for microcontrollers run: a compiler, its options, and what starts a program."""

BOUNDED = {"batch": 1, "height": (1, 40), "width": (1, 40)}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["classify", "detect"])
@pytest.mark.parametrize("machine", MACHINES)
def test_sources_for_microcontrollers(tmp_path: Path, kind: str, machine: str) -> None:
    """Static memory: what a macro says of it is enough."""
    command, options, launcher = MACHINES[machine]
    if not all(shutil.which(name) for name in (command[0], *launcher)):
        pytest.skip(f"needs {command[0]}, and {launcher}")
    dims = {"batch": 1} if kind == "classify" else BOUNDED
    deploykit.build(folder_of(tmp_path / "model", kind), "embedded", dims, tmp_path / "dist")
    program = program_of(tmp_path / "dist", tmp_path / "app", *options, command=command, launcher=launcher)
    pictures = given([shape for shape in SHAPES if shape[0] < 100])
    with deploykit.open(tmp_path / "dist") as session:
        for line, picture in zip(program(request(pictures)), pictures, strict=True):
            words = line.split()
            if kind == "detect":
                objects = session.detect(picture, LEAST_SCORE)
                assert words[::6] == [one.label for one in objects]
                np.testing.assert_allclose([float(x) for x in words[1::6]], [one.score for one in objects], rtol=1e-5)
            else:
                scores = {label.name: label.score for label in session.classify(picture)}
                np.testing.assert_allclose([float(x) for x in words], [scores["cat"], scores["dog"]], rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["classify", "embed", "detect", "segment"])
def test_example_for_microcontrollers(tmp_path: Path, kind: str) -> None:
    dims = {"batch": 1} if kind == "classify" else BOUNDED | {"height": (5, 40), "width": (5, 40)}
    deploykit.build(folder_of(tmp_path / "model", kind), "embedded", dims, tmp_path / "dist")
    make = ["make", "-s", "-C", str(tmp_path / "dist"), "CFLAGS=-O1 -Werror -Wconversion -Wshadow", "run"]
    lines = subprocess.run(make, check=True, capture_output=True, text=True).stdout.splitlines()
    form = {
        "classify": r"(cat|dog) 0\.\d{4}",
        "embed": r"-?\d\.\d{4}",
        "detect": r"LABEL_[01] 0\.\d{4} at .* to .*",
        "segment": r"LABEL_[012] \d\.\d{4}",
    }[kind]
    assert lines
    assert all(re.fullmatch(form, line) for line in lines)

"""Models of pictures and sound in Java: the methods of the classes give what a session in Python gives."""

from __future__ import annotations

import re
import struct
import subprocess
import zipfile
from pathlib import Path

import numpy as np
import pytest

import deploykit
from deploykit.artifact.manifest import read_manifest
from deploykit.artifact.tasks import PictureEntry, SoundEntry
from deploykit.basics.toolchain import find_c_compiler
from deploykit.engines.native.bionic import without_needed
from deploykit.pictures import Picture
from deploykit.sessions.tasks.pictures import Pictures
from deploykit.sessions.tasks.segments import best_classes
from deploykit.sessions.tasks.sound_sources import samples_of
from deploykit.sessions.tasks.sounds import Sounds
from deploykit.targets.android import AndroidTarget
from tests.android.conftest import Run, aar_of, needs_desktop, needs_java, on_desktop
from tests.android.natives import Natives
from tests.android.test_natives import each_abi
from tests.answers.in_c import STRICT
from tests.answers.pictures_in_c import COMMON, NUMBERS, PICTURES, replaced, request_of
from tests.conftest import Golden
from tests.frontends.huggingface.answer_cases import LEAST_SCORE, MAP_SIZES, maps, objects
from tests.frontends.huggingface.sound_cases import LENGTHS, sound
from tests.frontends.huggingface.sound_cases import numbers as letters
from tests.frontends.huggingface.test_picture_answers import folder_of
from tests.frontends.huggingface.test_sound_answers import SOUNDS
from tests.frontends.huggingface.test_sound_answers import folder_of as sound_folder_of

pytestmark = [needs_java, needs_desktop, pytest.mark.slow]

CLOSED = "ClosedException: the model is closed"
NOT_CONVERTED = "DeploykitException: the bitmap cannot be converted to ARGB_8888"


def built(folder: Path, test: str, *further: str) -> tuple[Path, Run]:
    """A model as an AAR, and the program that calls its classes."""
    place = folder.parent
    deploykit.build(folder, AndroidTarget(["x86_64"]), output=place / "dist")
    (place / "test").mkdir()
    return place / "dist", on_desktop(place / "dist", test, place / "test", further)


def source(dist: Path, name: str) -> str:
    path = aar_of(dist)
    with zipfile.ZipFile(path.with_name(f"{path.stem}-sources.jar")) as archive:
        return archive.read(f"org/deploykit/model/{name}.java").decode()


def pictures() -> list[np.ndarray]:
    random = np.random.default_rng(3)
    return [random.integers(0, 256, (*size, 4), dtype=np.uint8) for size in ((31, 22), (12, 19), (1, 1), (7, 60))]


def write(path: Path) -> list[np.ndarray]:
    """A file of pictures as `PictureAnswers` reads it, each with all kinds of transparency. Returns the picture of each
    line that it prints: of two configurations, of which one cannot be converted if there is one row."""
    parts, shown = [], []
    for picture in pictures():
        for alpha, multiplied in ((1, 1), (1, 0), (0, 0)):
            parts.append(struct.pack("<4i", *picture.shape[1::-1], alpha, multiplied) + picture.tobytes())
            shown += [picture if alpha else picture[:, :, :3]] * 2
    path.write_bytes(b"".join(parts))
    return shown


def numbers(line: str) -> list[float]:
    return [float(word) for word in re.findall(r"-?\d+\.\d+(?:E-?\d+)?", line)]


@pytest.mark.parametrize("kind", ["classify", "embed", "detect", "segment"])
def test_pictures(tmp_path: Path, golden: Golden, kind: str) -> None:
    dist, run = built(folder_of(tmp_path / "model", kind), "PictureAnswers", "Bitmap")
    golden(source(dist, "Pictures"), f"{kind}.java")
    shown = write(tmp_path / "pictures")
    *lines, closed = run(kind, tmp_path / "pictures", *([LEAST_SCORE] if kind == "detect" else []))
    assert closed == CLOSED
    with deploykit.open(dist) as session:
        for index, (line, picture) in enumerate(zip(lines, shown, strict=True)):
            if index % 2 and len(picture) == 1:
                assert line == NOT_CONVERTED
            elif kind == "classify":
                labels = session.classify(picture)
                assert re.findall("cat|dog", line) == [label.name for label in labels]
                np.testing.assert_allclose(numbers(line), [label.score for label in labels], rtol=1e-6)
            elif kind == "embed":
                np.testing.assert_array_equal(np.array(numbers(line), np.float32), session.embed(picture))
            elif kind == "detect":
                objects = session.detect(picture, LEAST_SCORE)
                assert re.findall(r"LABEL_\d", line) == [one.label for one in objects]
                expected = [x for one in objects for x in (one.score, one.left, one.top, one.right, one.bottom)]
                np.testing.assert_allclose(numbers(line), expected, rtol=1e-5, atol=1e-5)
            else:
                segments = session.segment(picture)
                classes, rest = line.split("] ")
                assert [int(word) for word in classes[1:].split(", ")] == segments.classes.reshape(-1).tolist()
                assert rest.startswith(segments.labels[segments.classes[0, -1]])
                assert re.findall(r"(LABEL_\d)=", rest) == list(segments.shares)
                np.testing.assert_allclose(numbers(rest), list(segments.shares.values()), rtol=1e-6)


def sound_bytes(samples: np.ndarray, rate: int, channels: int = 1) -> bytes:
    whole = samples.dtype == np.int16
    return struct.pack("<4i", whole, channels, rate, samples.size) + samples.tobytes()


def test_sound(tmp_path: Path, golden: Golden) -> None:
    dist, run = built(sound_folder_of(tmp_path / "model"), "SoundAnswers")
    golden(source(dist, "Sounds"), "transcribe.java")
    given = [sound(length) for length in LENGTHS]
    whole = np.round(np.stack([given[2], given[2][::-1]], axis=1) * 8000).astype(np.int16)
    broken = given[1].copy()
    broken[7] = np.inf
    refused = [
        (sound_bytes(given[1], 0), "DeploykitException: a rate is a positive integer, in samples per second; found 0"),
        (sound_bytes(given[1], 16000, 2), "DeploykitException: a sound has samples, as many for each of 2 channels; f"),
        (
            sound_bytes(given[1][:0], 16000),
            "DeploykitException: a sound has samples, as many for each of 1 channels; f",
        ),
        (sound_bytes(broken, 16000), "DataException: samples must be finite"),
        (sound_bytes(given[0][:3], 16000), "ShapeException: input 'input_values' axis 1 (dim 'samples'): expected"),
    ]
    cases = [sound_bytes(each, 16000) for each in given]
    cases += [sound_bytes(given[2], 44100), sound_bytes(whole, 8000, 2), sound_bytes(whole[:, 0].copy(), 16000)]
    (tmp_path / "sounds").write_bytes(b"".join([*cases, *(each for each, _ in refused)]))
    with deploykit.open(dist) as session:
        expected = [session.transcribe(given[2], 44100), session.transcribe(whole.T, 8000)]
        expected.append(session.transcribe(whole[:, 0], 16000))
    lines = run("all", tmp_path / "sounds")
    assert lines[: len(cases)] == [*SOUNDS["heard"], *expected]
    for line, (_, message) in zip(lines[len(cases) :], refused, strict=True):
        assert line.startswith(message), line


def test_libraries_for_c(tmp_path: Path) -> None:
    """A program that is linked with a library gets the answers of Python."""
    dist, library = tmp_path / "dist", tmp_path / "libmodel.so"
    deploykit.build(folder_of(tmp_path / "model", "classify"), AndroidTarget(["x86_64"]), output=dist, format="so")
    library.write_bytes(without_needed((dist / "x86_64" / library.name).read_bytes()))
    text = replaced(COMMON + PICTURES + NUMBERS, read_manifest(dist), KINDS="pictures")
    (tmp_path / "app.c").write_text(text)
    call = [*find_c_compiler().command, "-std=c99", *STRICT, "-D_POSIX_C_SOURCE=200809L", f"-I{dist / 'include'}"]
    links = ["-Wl,--no-as-needed", "-lm", f"-Wl,-rpath,{tmp_path}", "-Wl,--allow-shlib-undefined", "-pthread"]
    app = tmp_path / "app"
    subprocess.run([*call, str(tmp_path / "app.c"), str(library), *links, "-o", str(app)], check=True)
    given = b"".join(map(request_of, pictures()))
    shown = subprocess.run([app, dist / "weights.bin"], input=given, capture_output=True, check=True).stdout
    with deploykit.open(dist) as session:
        for line, labels in zip(shown.decode().splitlines(), session.classify(pictures()), strict=True):
            scores = {label.name: label.score for label in labels}
            np.testing.assert_allclose(numbers(line), [scores["cat"], scores["dog"]], rtol=1e-6)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("pictures")
    deploykit.build(folder_of(place / "model", "classify"), AndroidTarget(), output=place / "dist")
    return place / "dist"


def require_places(natives: Natives) -> None:
    """Objects and segments are those of Python."""
    logits, boxes = objects()
    task = PictureEntry(kind="detect", pixels="x", picture=Picture(), outputs=("a", "b"), labels=("0", "1"))
    expected = Pictures((), task, lambda _: {"a": logits, "b": boxes}).detect(
        [np.zeros((30, 40, 3), np.uint8)], 0.3, 0.5
    )
    floats = np.array([0.3, 0.5], np.float32).view(np.int32)
    memory = [natives.buffer(array) for array in (logits, boxes, np.zeros(24 * logits.shape[1], np.uint8))]
    count = natives("objects", memory, np.array([*logits.shape[1:], 30, 40, *floats]))
    words = memory[2].array[: 24 * count].view(np.int32).reshape(count, 6)
    assert words[:, 0].tolist() == [int(one.label) for one in expected[0]]
    found = [[one.score, one.left, one.top, one.right, one.bottom] for one in expected[0]]
    np.testing.assert_allclose(words[:, 1:].copy().view(np.float32), found, rtol=1e-5, atol=1e-5)
    for height, width in MAP_SIZES:
        memory = [natives.buffer(maps()), natives.buffer(np.zeros((height, width), np.uint16))]
        natives("segments", memory, np.array([*maps().shape[1:], height, width]))
        np.testing.assert_array_equal(memory[1].array, best_classes(maps()[0], (height, width)))


@each_abi
def test_native_methods(package: Path, abi: str, tmp_path: Path) -> None:
    """Pictures have the bits of Python for each ABI, with a JVM that checks every call."""
    task = read_manifest(package).task
    assert isinstance(task, PictureEntry)
    picture = task.picture
    with Natives(package, abi, tmp_path) as natives:
        handle = natives("create", 1)
        size = np.zeros(2, np.int64)
        for pixels in pictures():
            height, width = pixels.shape[:2]
            assert natives("pictureSize", handle, height, width, size) == 0
            expected = picture.prepared(pixels)
            assert size.tolist() == list(expected.shape[1:])
            memory = [natives.buffer(pixels), natives.buffer(np.zeros_like(expected))]
            assert natives("preparePicture", handle, memory, np.array([height, width, 4 * width, 4])) == 0
            np.testing.assert_array_equal(memory[1].array, expected)
        require_places(natives)
        assert natives("preparePicture", handle, memory, np.array([height, width, 1, 4])) == 8
        assert natives("pictureSize", handle, 0, 4, size) == 8
        message = bytearray(256)
        natives("error", handle, message)
        assert message.startswith(b"a picture has 1 to 16777216 rows and columns")
        natives("close", handle)
        assert natives.end() == (0, "")


@pytest.mark.sampled(part=6)
@each_abi
def test_native_methods_of_sound(abi: str, tmp_path: Path) -> None:
    """Sounds are prepared as in Python for each ABI, and letters become the transcripts of Python."""
    package = tmp_path / "dist"
    deploykit.build(sound_folder_of(tmp_path / "model"), AndroidTarget([abi]), output=package)
    task = read_manifest(package).task
    assert isinstance(task, SoundEntry)
    with Natives(package, abi, tmp_path / "natives") as natives:
        handle = natives("create", 1)
        for samples, rate in ((sound(4000), 16000), (np.round(sound(4000) * 8000).astype(np.int16), 44100)):
            expected = samples_of(samples, rate, 16000)
            expected = (expected - expected.mean()) / np.sqrt(expected.var() + 1e-7)
            assert natives("soundCount", samples.size, rate) == expected.size
            memory = [natives.buffer(samples), natives.buffer(np.zeros_like(expected))]
            described = np.array([samples.size, 1, rate, samples.dtype == np.int16])
            assert natives("prepareSound", handle, memory, described) == 0
            np.testing.assert_allclose(memory[1].array, expected, rtol=0, atol=2e-6)
        for given in letters():
            scores = np.eye(12, dtype=np.float32)[given]
            memory = [natives.buffer(scores), natives.buffer(np.zeros(9 * len(given), np.uint8))]
            place = np.zeros(2, np.int64)
            natives("letters", memory, len(given), place)
            text = memory[1].array[place[0] : place.sum()].tobytes().decode()
            assert [text] == Sounds(task, lambda _, a=scores: {"logits": a[None]}).transcribe([np.ones(9)], 16000)
        natives("close", handle)
        assert natives.end() == (0, "")

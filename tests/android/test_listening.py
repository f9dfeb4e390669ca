"""Long sounds in Java: their parts are those that are documented, however samples come."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import deploykit
from deploykit.targets.android import AndroidTarget
from tests.android.conftest import Run, needs_desktop, needs_java, on_desktop
from tests.android.test_pictures_and_sound import sound_bytes
from tests.frontends.huggingface.sound_cases import sound
from tests.frontends.huggingface.test_sound_answers import folder_of

pytestmark = [needs_java, needs_desktop, pytest.mark.slow]

REFUSED = [
    "DataException: samples must be finite: these have infinities or values that are no numbers",
    "DeploykitException: a rate is 1 to 1789569 samples per second; found 0",
    "DeploykitException: the longest part has 1 to 600 seconds; found 0",
    "ClosedException: the model is closed",
    "ClosedException: the model is closed",
]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("listening")
    deploykit.build(folder_of(place / "model"), AndroidTarget(["x86_64"]), output=place / "dist")
    return place / "dist"


@pytest.fixture(scope="module")
def run(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return on_desktop(package, "Listens", tmp_path_factory.mktemp("listens"))


@pytest.fixture(scope="module")
def whole(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Transcribes sounds as they are."""
    return on_desktop(package, "SoundAnswers", tmp_path_factory.mktemp("whole"))


def parts(samples: np.ndarray, rate: int, seconds: int) -> list[np.ndarray]:
    """The parts of a sound: cut in the middle of the quietest tenth of a second in the second half of the longest part;
    the last one has silence up to a tenth of a second."""
    longest, tenth, found = rate * seconds, rate // 10, []
    while samples.size >= longest:
        tenths = range(longest // 2, longest - tenth + 1, tenth)
        quietest = min(tenths, key=lambda start: float(np.sum(samples[start : start + tenth].astype(np.float64) ** 2)))
        found.append(samples[: quietest + tenth // 2])
        samples = samples[quietest + tenth // 2 :]
    return [*found, np.pad(samples, (0, max(0, tenth - samples.size)))] if samples.size else found


def long_sound(count: int) -> np.ndarray:
    """Sound that gets louder and quieter."""
    return np.asarray(sound(count) * (1 + np.sin(np.arange(count) / 3000)) / 2, np.float32)


@pytest.mark.parametrize(
    ("rate", "seconds", "count", "most"),
    [
        (16000, 1, 40000, 700),
        (16000, 1, 40000, 50000),
        (16000, 2, 100001, 4000),
        (8000, 1, 20003, 1600),
        (16000, 1, 5, 3),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.int16])
def test_parts(
    run: Run, whole: Run, tmp_path: Path, rate: int, seconds: int, count: int, most: int, dtype: type
) -> None:
    """Pieces of up to `most` samples give the transcripts of the parts, twice."""
    given = long_sound(count)
    given = given if dtype is np.float32 else np.round(given * 20000).astype(np.int16)
    floats = given if dtype is np.float32 else given.astype(np.float32) / np.float32(32768)
    (tmp_path / "sound").write_bytes(sound_bytes(given, rate))
    lines = run("all", tmp_path / "sound", seconds, most)
    wanted = parts(floats, rate, seconds)
    (tmp_path / "parts").write_bytes(b"".join(sound_bytes(part, rate) for part in wanted))
    expected = whole("all", tmp_path / "parts")
    assert len(expected) == len(wanted)
    assert lines[-len(REFUSED) :] == REFUSED
    first, second, rest = "\n".join(lines[: -len(REFUSED)]).split("true true true")
    assert rest == ""
    for texts in (first, second):
        assert texts.split() == " ".join(expected).split()
    assert len(expected) > 1 or count < rate

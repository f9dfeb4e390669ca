"""Models of sound in C: sounds are prepared as in Python, and answers are those of sessions in Python."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import deploykit
from deploykit import runtime
from deploykit.engines.native.sanitized import SANITIZERS
from deploykit.sessions.tasks.sound_sources import samples_of
from tests.answers.in_c import library
from tests.answers.pictures_in_c import Program
from tests.answers.sounds_in_c import program_of, request_of
from tests.answers.test_picture_models import MACHINES
from tests.conftest import Golden
from tests.frontends.huggingface.sound_cases import LENGTHS, TOKENIZERS, numbers, sound
from tests.frontends.huggingface.test_sound_answers import SOUNDS, folder_of
from tests.tasks.test_sound_sources import RATES

RESAMPLE = runtime.SOUNDS_INCLUDE / "resample.c"

LEAST_VARIANCE = 1e-7


class Sound(ctypes.Structure):
    _fields_ = (
        ("floats", ctypes.c_void_p),
        ("integers", ctypes.c_void_p),
        ("count", ctypes.c_size_t),
        ("channels", ctypes.c_int32),
        ("rate", ctypes.c_int32),
    )


class Rates(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int64) for name in ("from", "to", "reach")),
        ("cutoff", ctypes.c_double),
    )


@pytest.fixture(scope="module")
def resample(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    loaded = library([RESAMPLE], tmp_path_factory.mktemp("resample"))
    loaded.dk_resampling_of.restype = Rates
    loaded.dk_resampled_count.restype = ctypes.c_int64
    loaded.dk_sound_scratch.restype = ctypes.c_uint64
    loaded.dk_prepare_sound.restype = ctypes.c_bool
    return loaded


def prepared(loaded: ctypes.CDLL, samples: np.ndarray, rate: int, wanted: int, *, normal: bool = False) -> np.ndarray:
    """What C makes of samples (samples,) or (channels, samples)."""
    rows = samples if samples.ndim == 2 else samples[None]
    data = np.ascontiguousarray(rows.T)
    rates = loaded.dk_resampling_of(rate, wanted)
    count = ctypes.c_uint64(rows.shape[1])
    made = np.full(loaded.dk_resampled_count(ctypes.byref(rates), count), np.nan, np.float32)
    scratch = np.zeros(loaded.dk_sound_scratch(ctypes.byref(rates), count), np.uint8)
    whole = data.dtype == np.int16
    given = Sound(None if whole else data.ctypes.data, data.ctypes.data if whole else None, *rows.shape[::-1], rate)
    memory = [ctypes.c_void_p(array.ctypes.data) for array in (made, scratch)]
    assert loaded.dk_prepare_sound(ctypes.byref(given), wanted, normal, *memory)
    return made


@pytest.mark.parametrize(("rate", "wanted", "count"), [*RATES, (16000, 16000, 90), (44101, 16000, 700)])
@pytest.mark.parametrize("channels", [1, 2, 3])
def test_sounds_are_prepared_as_in_python(
    resample: ctypes.CDLL, rate: int, wanted: int, count: int, channels: int
) -> None:
    """The same bits, where the sines of NumPy and of C agree."""
    random = np.random.default_rng(count)
    count = max(count, channels)
    floats = random.standard_normal((channels, count)).astype(np.float32)
    integers = random.integers(-32768, 32768, (channels, count), np.int16)
    for samples in (floats, integers):
        expected = samples_of(samples, rate, wanted)
        found = prepared(resample, samples, rate, wanted)
        assert (found == expected).mean() > 0.99
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)
        normal = (expected - expected.mean()) / np.sqrt(expected.var() + LEAST_VARIANCE)
        found = prepared(resample, samples, rate, wanted, normal=True)
        np.testing.assert_allclose(found, normal, rtol=0, atol=2e-6)


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("sound")
    deploykit.build(folder_of(place / "model"), output=place / "dist")
    return place / "dist"


@pytest.fixture(scope="module")
def program(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Program:
    return program_of(dist, tmp_path_factory.mktemp("sound") / "app", *SANITIZERS)


def test_transcripts(dist: Path, program: Program) -> None:
    given = [sound(length) for length in LENGTHS]
    assert program(b"".join(request_of(each, 16000) for each in given)) == SOUNDS["heard"]
    whole = np.round(np.stack([given[2], given[2][::-1]]) * 8000).astype(np.int16)
    cases = [(given[2], 44100), (whole, 8000), (whole[0], 22050)]
    with deploykit.open(dist) as session:
        expected = [session.transcribe(*case) for case in cases]
    assert program(b"".join(request_of(*case) for case in cases)) == expected


def test_what_has_no_room_or_makes_no_sense_is_refused(program: Program) -> None:
    given = sound(400)
    broken = given.copy()
    broken[300] = np.nan
    cases = [
        (
            request_of(given, 16000, room=64),
            r"error 4 0 the workspace is misaligned or too small: this sound needs \d+",
        ),
        (request_of(given, 0), "error 8 0 a rate is a positive integer, in samples per second"),
        (request_of(given, -8000), "error 8 0 a rate is a positive integer"),
        (request_of(given[:0], 16000, count=400), "error 8 0 a sound has samples that are floats or integers"),
        (request_of(given, 16000, count=0), "error 8 0 a sound has samples, and channels"),
        (request_of(broken, 16000), "error 7 0 samples must be finite"),
        (request_of(given[:3], 16000), r"error 1 0 input 'input_values' axis 1 \(dim 'samples'\): expected "),
    ]
    lines = program(b"".join(each for each, _ in cases))
    for line, (_, message) in zip(lines, cases, strict=True):
        assert re.match(message, line), line


def test_no_room_for_a_transcript(dist: Path, tmp_path: Path) -> None:
    (line,) = program_of(dist, tmp_path / "app", room=3)(request_of(sound(LENGTHS[2]), 16000))
    count = len(SOUNDS["heard"][2].encode()) + 1
    assert line == f"error 5 {count} the transcript has {count} bytes with its end, and there is room for 3"


LETTERS = r"""
#include "sounds.h"

#include <stdio.h>
#include <string.h>

extern const dk_sounds_task NAME_task;

int main(void) {
    static float scores[1000 * WIDTH];
    static char text[10000];
    unsigned char count, letter;
    while (fread(&count, 1, 1, stdin) == 1) {
        size_t begin, bytes;
        memset(scores, 0, sizeof scores);
        for (int i = 0; i < count && fread(&letter, 1, 1, stdin) == 1; ++i) {
            scores[i * WIDTH + letter] = 1;
        }
        bytes = dk_find_letters(&NAME_task, scores, count, text, &begin);
        printf("[%.*s]\n", (int)bytes, text + begin);
    }
    return 0;
}
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in TOKENIZERS if name != "lower"])
def test_letters(tmp_path: Path, name: str) -> None:
    deploykit.build(folder_of(tmp_path / "model", tokenizer_config=dict(TOKENIZERS[name])), output=tmp_path / "dist")
    text = LETTERS.replace("NAME", "model").replace("WIDTH", "12")
    program = Program(tmp_path / "dist", tmp_path / "app", text, *SANITIZERS)
    given = b"".join(bytes([len(each), *each]) for each in numbers())
    assert program(given) == [f"[{text}]" for text in SOUNDS[name]]


@pytest.mark.slow
def test_letters_whose_lower_case_depends_on_others(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "model", tokenizer_config=dict(TOKENIZERS["lower"]))
    deploykit.build(folder, output=tmp_path / "dist")
    assert not (tmp_path / "dist" / "model_sounds.h").exists()


def test_generated_texts(dist: Path, golden: Golden) -> None:
    header, readme = ((dist / name).read_text() for name in ("model_sounds.h", "README.md"))
    header = re.sub(r"deploykit \d[\w.+]*", "deploykit VERSION", header)
    golden(header + re.findall(r"^## Sound\n.*?(?=^## )", readme, re.MULTILINE | re.DOTALL)[0], "transcribe.txt")


@pytest.mark.slow
@pytest.mark.parametrize("machine", MACHINES)
def test_sources_for_microcontrollers(tmp_path: Path, machine: str) -> None:
    """Static memory: what a macro says of it is enough. The example runs, too."""
    command, options, launcher = MACHINES[machine]
    if not all(shutil.which(name) for name in (command[0], *launcher)):
        pytest.skip(f"needs {command[0]}, and {launcher}")
    dist = tmp_path / "dist"
    deploykit.build(folder_of(tmp_path / "model"), "embedded", {"batch": 1, "samples": (20, 4000)}, dist)
    program = program_of(dist, tmp_path / "app", *options, command=command, launcher=launcher)
    given = [sound(length) for length in LENGTHS]
    assert program(b"".join(request_of(each, 16000) for each in given)) == SOUNDS["heard"]
    if machine == "sanitized":
        make = ["make", "-s", "-C", str(dist), "CFLAGS=-O1 -Werror -Wconversion -Wshadow", "run"]
        (line,) = subprocess.run(make, check=True, capture_output=True, text=True).stdout.splitlines()
        assert re.fullmatch('".*"', line)

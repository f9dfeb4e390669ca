"""A C program that gives sounds to a model of sound, through the functions of `model_sounds.h`.

Standard input has sounds: whether samples are integers, channels and rate (32 bits each), samples of each channel, the
size of the workspace (64 bits each; 0: what the sound needs, which it takes exactly), and the bytes with their number.
It prints a line for each result, or an error.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from deploykit.artifact.manifest import read_manifest
from tests.answers.pictures_in_c import COMMON, Program, replaced

SOUNDS = r"""
static void answer(const dk_sound* sound);

int main(int words, char** word) {
    int32_t given[3];
    uint64_t numbers[3];
    open_session(words > 1 ? word[1] : "");
    while (next(given, sizeof given) && next(numbers, sizeof numbers)) {
        void* data = malloc(numbers[2] + !numbers[2]);
        const int has_data = next(data, numbers[2]) && numbers[2] > 0;
        void* const floats = has_data && !given[0] ? data : NULL;
        void* const integers = has_data && given[0] ? data : NULL;
        const dk_sound sound = {floats, integers, (size_t)numbers[0], given[1], given[2]};
        const size_t needed = NAME_workspace_bytes(&session, sound.count, sound.rate);
        const size_t size = numbers[1] != 0 ? (size_t)numbers[1] : needed == SIZE_MAX ? 64 : needed;
        void* workspace = aligned(size);
#ifdef CONSTANT
        if (needed != SIZE_MAX && sound.rate == MACRO_RATE && needed > (size_t)MACRO_WORKSPACE_BYTES) {
            puts("the size at compile time is smaller");
        }
#endif
        require(NAME_set_workspace(&session, workspace, size));
        answer(&sound);
        free(workspace);
        free(data);
    }
    return 0;
}
"""

CLASSIFY = r"""
static void answer(const dk_sound* sound) {
    float* scores = malloc(WIDTH * sizeof *scores);
    const dk_status status = NAME_classify(&session, sound, scores);
    require(status);
    for (size_t i = 0; i < WIDTH && status == DK_OK; ++i) {
        printf("%.9g%c", (double)scores[i], i + 1 < WIDTH ? ' ' : '\n');
    }
    free(scores);
}
"""

TRANSCRIBE = r"""
static void answer(const dk_sound* sound) {
    char* text = malloc(ROOM);
    const dk_status status = NAME_transcribe(&session, sound, text, ROOM);
    require(status);
    if (status == DK_OK) {
        puts(text);
    }
    free(text);
}
"""


def program_of(
    dist: Path, place: Path, *options: str, room: int = 4000, command: Sequence[str] = (), launcher: Sequence[str] = ()
) -> Program:
    """The program for a model of sound. `room`: how many bytes there are for a transcript."""
    manifest = read_manifest(dist)
    assert manifest.task is not None
    text = COMMON + SOUNDS + (TRANSCRIBE if manifest.task.kind == "transcribe" else CLASSIFY)
    words = {"KINDS": "sounds", "ROOM": room}
    return Program(dist, place, replaced(text, manifest, **words), *options, command=command, launcher=launcher)


def request_of(samples: np.ndarray, rate: int, *, room: int = 0, count: int | None = None) -> bytes:
    """A sound (samples,) or (channels, samples) as the program reads it."""
    rows = samples if samples.ndim == 2 else samples[None]
    whole = samples.dtype == np.int16
    data = np.ascontiguousarray(rows.T).astype(np.int16 if whole else np.float32).tobytes()
    numbers = (rows.shape[1] if count is None else count, room, len(data))
    return struct.pack("<3i3Q", whole, rows.shape[0], rate, *numbers) + data

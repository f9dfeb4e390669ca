"""A C program that gives pictures to a model of pictures, through the functions of `model_pictures.h`.

Standard input has pictures: width, height, points and stride (32 bits each), the size of the workspace (64 bits; 0:
what the picture needs, which it takes exactly), and the bytes with their number. It prints a line for each result, or
an error. With CONSTANT, weights are constants, and the workspace is one of the size that is known at compile time.
"""

from __future__ import annotations

import os
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from deploykit.artifact.manifest import Manifest, read_manifest
from deploykit.basics.toolchain import find_c_compiler
from tests.answers.in_c import STRICT

COMMON = r"""
#include "model_KINDS.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef CONSTANT
#include "weights.h"
#endif

static NAME_session session;

static int next(void* target, size_t bytes) {
    return fread(target, 1, bytes, stdin) == bytes;
}

static void* aligned(size_t bytes) {
    void* found = NULL;
    return posix_memalign(&found, 64, bytes + !bytes) == 0 ? found : NULL;
}

static void require(dk_status status) {
    if (status != DK_OK) {
        printf("error %d %ld %s\n", (int)status, (long)session.model.base.need.extent, NAME_session_error(&session));
    }
}

/* Open a session, or end. */
static void open_session(const char* path) {
#ifdef CONSTANT
    const void* weights = &NAME_weights;
    size_t bytes = sizeof NAME_weights;
    (void)path;
#else
    FILE* file = fopen(path, "rb");
    size_t bytes = (size_t)(fseek(file, 0, SEEK_END), ftell(file));
    void* weights = aligned(bytes);
    rewind(file);
    bytes = fread(weights, 1, bytes, file);
    fclose(file);
#endif
    if (NAME_open(NULL, weights, bytes) != DK_ERROR_USAGE || NAME_open(&session, weights, bytes - 1) == DK_OK ||
        NAME_set_workspace(&session, aligned(64), 64) != DK_ERROR_USAGE) {
        puts("a session without weights opens");
    }
    require(NAME_open(&session, weights, bytes));
}
"""

PICTURES = r"""
static void answer(const dk_picture* picture);

int main(int words, char** word) {
    int32_t given[4];
    uint64_t room, bytes;
    open_session(words > 1 ? word[1] : "");
    while (next(given, sizeof given) && next(&room, sizeof room) && next(&bytes, sizeof bytes)) {
        uint8_t* data = malloc(bytes + !bytes);
        const dk_picture picture = {
            next(data, bytes) && bytes > 0 ? data : NULL, given[0], given[1], (dk_points)given[2], (size_t)given[3]
        };
        const size_t needed = NAME_workspace_bytes(&session, picture.width, picture.height);
        const size_t size = room != 0 ? (size_t)room : needed == SIZE_MAX ? 64 : needed;
        void* workspace = aligned(size);
#ifdef CONSTANT
        if (needed != SIZE_MAX && needed > (size_t)MACRO_WORKSPACE_BYTES(picture.width, picture.height)) {
            puts("the size at compile time is smaller");
        }
#endif
        require(NAME_set_workspace(&session, workspace, size));
        answer(&picture);
        free(workspace);
        free(data);
    }
    return 0;
}
"""

NUMBERS = r"""
static void answer(const dk_picture* picture) {
    float* numbers = malloc(WIDTH * sizeof *numbers);
    const dk_status status = NAME_KIND(&session, picture, numbers);
    require(status);
    for (size_t i = 0; i < WIDTH && status == DK_OK; ++i) {
        printf("%.9g%c", (double)numbers[i], i + 1 < WIDTH ? ' ' : '\n');
    }
    free(numbers);
}
"""

DETECT = r"""
static void answer(const dk_picture* picture) {
    dk_object* objects = malloc(ROOM * sizeof *objects + 1);
    size_t count = 0;
    const dk_status status = NAME_detect(&session, picture, LEAST, OVERLAP, objects, ROOM, &count);
    require(status);
    for (size_t i = 0; i < count && status == DK_OK; ++i) {
        const dk_object* found = &objects[i];
        printf("%s %.9g %.9g %.9g %.9g %.9g ", NAME_labels[found->label], (double)found->score, (double)found->left,
               (double)found->top, (double)found->right, (double)found->bottom);
    }
    puts(status == DK_OK ? "" : "no objects");
    free(objects);
}
"""

SEGMENT = r"""
static void answer(const dk_picture* picture) {
    const size_t count = (size_t)picture->width * (size_t)picture->height;
    uint8_t* classes = malloc(count);
    const dk_status status = NAME_segment(&session, picture, classes);
    require(status);
    for (size_t i = 0; i < count && status == DK_OK; ++i) {
        printf("%d%c", classes[i], i + 1 < count ? ' ' : '\n');
    }
    free(classes);
}
"""


def replaced(text: str, manifest: Manifest, **words: object) -> str:
    """A program for a model."""
    assert manifest.task is not None
    prefix, kind = manifest.prefix, manifest.task.kind
    given = {"NAME_KIND": f"{prefix}_{kind}", "NAME": prefix, "MACRO": prefix.upper(), **words}
    given["WIDTH"] = f"{prefix.upper()}_{'WIDTH' if kind == 'embed' else 'CLASSES'}"
    for word, value in given.items():
        text = text.replace(word, str(value))
    return text


class Program:
    """The program `text` for an artifact of the target host or embedded. `command`: a compiler, if it is another one
    than that of this machine."""

    def __init__(
        self,
        dist: Path,
        place: Path,
        text: str,
        *options: str,
        command: Sequence[str] = (),
        launcher: Sequence[str] = (),
    ) -> None:
        self.program, self._launcher = place / "app", tuple(launcher)
        self._weights = dist / "weights.bin"
        place.mkdir(exist_ok=True)
        (place / "app.c").write_text(text)
        constant = not self._weights.exists()
        sources = [
            place / "app.c",
            *(path for path in dist.glob("*.c") if "on_gpu" not in path.stem),
        ]
        objects = [] if constant else [dist / "kernels.o"]
        call = [*(command or find_c_compiler().command), "-std=c99", "-D_POSIX_C_SOURCE=200809L", *STRICT]
        call += [*(["-DCONSTANT"] if constant else []), *options, f"-I{dist}"]
        subprocess.run([*call, *map(str, sources + objects), "-pthread", "-lm", "-o", str(self.program)], check=True)

    def __call__(self, given: bytes) -> list[str]:
        """The lines that it prints."""
        environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}
        call = [*self._launcher, str(self.program), str(self._weights)]
        done = subprocess.run(call, input=given, capture_output=True, check=False, env=environment)
        assert done.returncode == 0, done.stderr.decode()[-3000:]
        return done.stdout.decode().splitlines()


def program_of(
    dist: Path,
    place: Path,
    *options: str,
    room: int = 100,
    least: float = 0.3,
    overlap: float = 1,
    command: Sequence[str] = (),
    launcher: Sequence[str] = (),
) -> Program:
    """The program for a model of pictures. `room`: how many objects there is memory for."""
    manifest = read_manifest(dist)
    assert manifest.task is not None
    text = COMMON + PICTURES + {"detect": DETECT, "segment": SEGMENT}.get(manifest.task.kind, NUMBERS)
    words = {"KINDS": "pictures", "ROOM": room, "LEAST": f"{least:f}f", "OVERLAP": f"{overlap:f}f"}
    return Program(dist, place, replaced(text, manifest, **words), *options, command=command, launcher=launcher)


def request_of(pixels: np.ndarray, *, room: int = 0, points: int = 0, stride: int = 0) -> bytes:
    """A picture as the program reads it. Bytes between rows are there, but none behind the last one."""
    height, width = pixels.shape[:2]
    channels = pixels.shape[2] if pixels.ndim == 3 else 1
    data = (b"\xab" * max(stride - width * channels, 0)).join(row.tobytes() for row in pixels)
    return struct.pack("<4iQQ", width, height, points or channels, stride, room, len(data)) + data

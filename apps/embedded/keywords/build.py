"""Builds the keywords app for a board: `python -m apps.embedded.keywords.build [--board BOARD] [--format F] [-o DIR]`.

The network is quantised with random words, all but the energies of its bands, and compiled as a stream: a run takes the
newest samples alone. A recording made here takes the place of a microphone. `make -C DIR run` runs the app in the
emulator of the board's core. With `--format arduino` or `zephyr` it is the example of a library for Arduino, or the
sample of a module for Zephyr.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import deploykit
from apps.embedded.build import parser
from apps.embedded.keywords.network import HOP, STRIDES
from apps.embedded.keywords.sounds import CLASSES, OTHERS, RATE, WORDS, Recording, as_integers, recording
from apps.embedded.keywords.train import KINDS, window
from deploykit.quantization.static import quantize

HERE = Path(__file__).parent
MODEL = HERE / "keywords.onnx"
SAMPLES = 160
SEED = 5
NEW = HOP * STRIDES["second"]
"""Samples of a run."""

FLOATS = ("bank", "power", "bands", "floor", "log")
"""What is not quantised: loud and quiet sounds differ too much."""


def heard(seed: int) -> Recording:
    """A recording with each word twice, and as many others."""
    random = np.random.default_rng(seed)
    words = [*WORDS, *WORDS, *random.choice(OTHERS, len(WORDS), replace=False)]
    random.shuffle(words)
    return recording(words, random)


def header(found: Recording) -> str:
    """`recording.h`: the samples, and where each word ends."""
    numbers = as_integers(found.samples)[: len(found.samples) // NEW * NEW]
    rows = [",".join(map(str, numbers[at : at + 24])) for at in range(0, len(numbers), 24)]
    names = ", ".join(f'"{name}"' for name in CLASSES)
    words = [f"    {{{end}, {kind}}}," for end, kind in found.ends]
    return "\n".join(
        [
            "/* What the microphone hears. */",
            "#include <stdint.h>",
            "",
            f"#define RATE {RATE}",
            f"#define NEW {NEW} /* samples of a run */",
            f"#define SAMPLES {len(numbers)}",
            f"#define CLASSES {len(CLASSES)}",
            f"#define WORDS {len(words)}",
            "",
            f"static const char* const names[CLASSES] = {{{names}}};",
            "",
            "static const struct {",
            "    long end;  /* in samples */",
            "    int class; /* 0: none of the words to know */",
            "} words[WORDS] = {",
            *words,
            "};",
            "",
            "static const int16_t samples[SAMPLES] = {",
            *(f"    {row}," for row in rows),
            "};",
            "",
        ]
    )


PLACES = {"c": "example", "arduino": "examples/keywords", "zephyr": "samples/keywords/src"}
"""Where the app is in each form."""


def build(board: str, output: Path, seed: int = SEED, form: str = "c") -> None:
    """Make the project. Raises what `deploykit.build` raises."""
    random = np.random.default_rng(SEED)
    windows = np.stack([window(index % KINDS, random)[0] for index in range(SAMPLES)])
    with tempfile.TemporaryDirectory(prefix="deploykit-keywords-") as scratch:
        place = Path(scratch)
        np.savez(place / "samples.npz", samples=windows.astype(np.float32)[:, None])
        quantize(MODEL, [place / "samples.npz"], place / "keywords.onnx", keep=FLOATS)
        dims = {"batch": 1, "frames": NEW}
        source = place / "keywords.onnx"
        deploykit.build(source, "embedded", dims, output, board=board, stream="samples:2", format=form)
    app = output / PLACES[form]
    shutil.copyfile(HERE / "main.c", app / "main.c")
    if form == "arduino":
        shutil.copyfile(HERE / "keywords.ino", app / "keywords.ino")
    place = output if form == "c" else app
    (place / "recording.h").write_text(header(heard(seed)), encoding="ascii")


NEXT = {
    "c": "make -C {} run    listens in the emulator of the core",
    "arduino": "{}/examples/keywords is the sketch: put {} into libraries/ of the sketchbook",
    "zephyr": "west build -b BOARD {}/samples/keywords    builds the sample",
}
"""What is done next, for each form."""


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser(__doc__, "keywords")
    options.add_argument("--format", choices=tuple(PLACES), default="c", help="what build system the project is for")
    given = options.parse_args(arguments)
    build(given.board, given.output, form=given.format)
    print(NEXT[given.format].format(given.output, given.output))


if __name__ == "__main__":
    main()

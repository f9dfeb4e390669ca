"""Builds the digits app for a board: `python -m apps.embedded.build [--board BOARD] [-o DIR]`.

The model of the web app is quantised with random drawings, and compiled for the board; further drawings become pictures
in flash. `make -C DIR run` runs the app in the emulator of the board's core.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import deploykit
from apps.web.model.drawings import SIZE, draw, rasterise
from deploykit.quantization.static import quantize

HERE = Path(__file__).parent
MODEL = HERE.parent / "web" / "model" / "digits.onnx"
SAMPLES = 200
SEED = 3


def pictures(count: int, seed: int) -> np.ndarray:
    """Random drawings, as many of each digit: an array [count, 1, SIZE, SIZE] from 0 (paper) to 1 (ink)."""
    random = np.random.default_rng(seed)
    found = [rasterise(draw(index % 10, random)) for index in range(count)]
    return np.stack(found).astype(np.float32)[:, None]


def header(drawings: np.ndarray) -> str:
    """`drawings.h`: pictures as bytes, with the digits that they are of."""
    rows = []
    for index, drawing in enumerate(np.rint(drawings[:, 0] * 255).astype(np.uint8)):
        rows.append(f"    {{{index % 10}, {{{','.join(map(str, drawing.reshape(-1)))}}}}},")
    return "\n".join(
        [
            "/* Pictures of digits. */",
            f"#define SIDE {SIZE}",
            f"#define DRAWINGS {len(drawings)}",
            "#define DIGITS_CLASSES 10",
            "",
            "static const struct {",
            "    int digit;",
            "    unsigned char pixels[SIDE * SIDE];",
            "} drawings[] = {",
            *rows,
            "};",
            "",
        ]
    )


def build(board: str, output: Path) -> None:
    """Make the project. Raises what `deploykit.build` raises."""
    with tempfile.TemporaryDirectory(prefix="deploykit-digits-") as scratch:
        place = Path(scratch)
        np.savez(place / "samples.npz", picture=pictures(SAMPLES, SEED))
        quantize(MODEL, [place / "samples.npz"], place / "digits.onnx", ends="int8")
        deploykit.build(place / "digits.onnx", "embedded", {"batch": 1}, output, board=board)
    shutil.copyfile(HERE / "main.c", output / "example" / "main.c")
    (output / "drawings.h").write_text(header(pictures(10, SEED + 1)), encoding="ascii")


def parser(description: str | None, name: str) -> argparse.ArgumentParser:
    """The options of an app: its board, and the folder of its project, by default `name`."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--board", default="nrf52840dk", help="a name of `deploykit boards`, or the path of a .toml file")
    made.add_argument("-o", "--output", type=Path, default=Path(name))
    return made


def main(arguments: Sequence[str] | None = None) -> None:
    given = parser(__doc__, "digits").parse_args(arguments)
    build(given.board, given.output)
    print(f"make -C {given.output} run    draws the digits in the emulator of the core")


if __name__ == "__main__":
    main()

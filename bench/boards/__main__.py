"""`make bench-boards`: counts the instructions and bytes of models on microcontrollers next to their peers, under QEMU.

    python -m bench.boards [--board NAME] [--model NAME] [--dtype DTYPE] [--functions] [--cmsis-nn DIR]
                           [--onnx2c PROGRAM] [--emx PROGRAM] [--trained FILE] [--tflite-micro DIR] [--output DIR]

A line is a model in a dtype on the core of a board: `float`, `int8`, or `int16`, which is activations of 16 bits with
weights of 8. All sides are compiled by the same compiler with the same options (`bench/boards/image.py`) and run once
with the same input; a plugin of QEMU counts the instructions of the run. Results are compared with those of ONNX
Runtime. `ratio` is the peer's number divided by ours: above 1 we execute fewer. Instructions are no times. Peers are
left out unless they are given:

* `--cmsis-nn`: a clone of github.com/ARM-software/CMSIS-NN. Its kernels for integers (s8, s16) are called directly,
  layer by layer.
* `--onnx2c`, `--emx`: the programs of github.com/kraiskil/onnx2c and of PyPI's emx-onnx-cgen, in float.
* `--tflite-micro`: a folder with clones of github.com/tensorflow/tflite-micro, github.com/google/flatbuffers (tag
  v25.9.23), google/gemmlowp, google/ruy and ARM-software/CMSIS-NN. Arm's compiler needs a C++ library, such as Debian's
  libstdc++-arm-none-eabi-picolibc. It runs `.tflite` files only.

`--trained` gives the .tflite file of a trained model, such as those of MLPerf Tiny in github.com/mlcommons/tiny, which
takes the place of the models here. The same model in ONNX is beside it: `python -m tf2onnx.convert --tflite kws.tflite
--output kws.onnx --opset 17` of PyPI's tf2onnx writes it.

`--functions` lists the functions of each side with the most instructions. DIR (default `build/bench-boards`) receives
the models, all sources and images, and the table as `report.md`, `report.json` and `report.png`.

Exit code 1 if our results differ from those of ONNX Runtime, 4 if no core can be emulated.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from bench.boards import image
from bench.boards.cmsis_nn import CmsisNN
from bench.boards.generators import emx, onnx2c
from bench.boards.models import MODELS, quantized, sample
from bench.boards.ours import Ours
from bench.boards.report import OURS, Figures, Report, Row
from bench.boards.sides import Runner
from bench.boards.tflite_micro import TfliteMicro, coarse, trained
from bench.tables import show, write
from deploykit.checks import reference
from deploykit.checks.comparison import compare
from deploykit.cli.console import messages, results, table
from deploykit.errors import DeploykitError, UnsupportedModelError
from deploykit.targets.embedded.boards import Board, find_board
from deploykit.targets.embedded.boards.image import compiler_for, missing

USUAL = ("mps2-an385", "mps2-an386", "mps2-an500", "mps2-an505", "mps3-an547", "riscv32-virt", "riscv32-virt-v")
"""The boards without `--board`: Cortex-M3, M4, M7, M33 and M55, and RV32 with floats, without and with vectors."""
DTYPES = ("int8", "int16", "float")
SEED = 99
"""Of the input, which differs from those of the calibration."""
STEPS = {"int8": 2, "int16": 8}
"""How far integers may be from ONNX Runtime's, by dtype: libraries round a number twice where it is between two
integers. With int16 CMSIS-NN multiplies most sums with factors of 16 bits, and each layer adds an error."""
_SHOWN = 12


@dataclass(frozen=True)
class Case:
    """A model with an input, and what ONNX Runtime makes of it."""

    name: str
    dtype: str
    model: onnx.ModelProto
    given: np.ndarray
    expected: np.ndarray
    classes: bool = False
    """Whether a result is right if its greatest number is at the same place, whatever its size."""


def main() -> int:
    given = _arguments()
    boards = list(_present([find_board(name) for name in given.board or USUAL]))
    if not boards:
        return 4
    given.output.mkdir(parents=True, exist_ok=True)
    sides: dict[str, Runner] = {OURS: Ours()}
    try:
        sides |= _peers(given)
    except DeploykitError as error:
        results.print(str(error))
        return 2
    compilers = dict.fromkeys(compiler_for(board.core).version for board in boards)
    options = " ".join(option for option in image.OPTIONS if option.startswith("-O"))
    notes = [f"all sides compiled with {options} by {version}" for version in compilers]
    if given.trained:
        cases = list(_trained(given.trained, given.output))
    else:
        cases = list(prepared(given.model or tuple(MODELS), given.dtype or DTYPES, given.output))
    report = Report((), [name for name in sides if name != OURS], notes)
    for board in boards:
        for case in cases:
            messages.print(f"{board.core.name}: {case.name} {case.dtype}")
            row = measure(case, board, sides, given.output, functions=given.functions)
            report = Report((*report.rows, row), report.peers, notes)
            write(report, given.output)
    show(report)
    return 1 if report.wrong else 0


def prepared(names: Sequence[str], dtypes: Sequence[str], folder: Path) -> Iterator[Case]:
    """The models in each dtype; their files are written to `folder`."""
    for name in names:
        for dtype in dtypes:
            try:
                model = MODELS[name]() if dtype == "float" else quantized(MODELS[name](), dtype)
            except UnsupportedModelError as error:
                messages.print(f"without {name} in {dtype}: {error}")
                continue
            path = folder / f"{name}_{dtype}.onnx"
            onnx.save(model, path)
            value = sample(model, SEED)
            (expected,) = reference.load(path)({model.graph.input[0].name: value}).values()
            yield Case(name, dtype, model, value, expected)


def _trained(paths: Sequence[Path], folder: Path) -> Iterator[Case]:
    for path in paths:
        model = trained(path)
        place = folder / f"{path.stem}.onnx"
        onnx.save(model, place)
        value = coarse(model, SEED)
        (expected,) = reference.load(place)({model.graph.input[0].name: value}).values()
        dtype = "int8" if value.dtype == np.int8 else "float"
        # A step in front of a softmax is many behind it: libraries that round twice differ by up to 31 there.
        classes = any(node.op_type == "Softmax" for node in model.graph.node)
        yield Case(path.stem, dtype, model, value, expected, classes)


def measure(case: Case, board: Board, sides: Mapping[str, Runner], folder: Path, *, functions: bool = False) -> Row:
    """Build and run all sides of a model on a board."""
    row = Row(board.core.name, case.name, case.dtype)
    for name, runner in sides.items():
        reason = runner.missing(board, case.model)
        if reason is not None:
            row.without[name] = reason
            continue
        place = folder / board.core.name / f"{case.name}_{case.dtype}" / name
        place.mkdir(parents=True, exist_ok=True)
        try:
            side = runner.side(board, case.model, place)
            seen = image.measure(board, side, case.given, case.expected, place)
        except DeploykitError as error:
            row.without[name] = _reason(str(error))
            continue
        row.sides[name] = _figures(seen, case)
        if functions:
            _show_functions(f"{name}, {case.name} {case.dtype}, {board.core.title}", seen)
    return row


def _reason(message: str) -> str:
    """The line of a message, which may be that of a compiler or a linker, that says what is wrong."""
    lines = message.strip().splitlines()
    told = [line for line in lines if "will not fit" in line or "overflowed" in line or "error: " in line]
    return (told or lines[-1:])[0].strip().rpartition("/")[2]


def _figures(seen: image.Seen, case: Case) -> Figures:
    expected = case.expected
    difference = float(np.abs(seen.output.astype(np.float64) - expected.astype(np.float64)).max())
    integers = np.issubdtype(expected.dtype, np.integer)
    right = difference <= STEPS[case.dtype] if integers else compare("output", seen.output, expected, None).within
    right = right or (case.classes and seen.output.argmax() == expected.argmax())
    return Figures(seen.instructions, seen.code, seen.constants, seen.ram, seen.stack, difference, bool(right))


def _show_functions(title: str, seen: image.Seen) -> None:
    shown = table("function", ">instructions", ">share", title=title)
    for name, number in list(seen.counts.by_symbol().items())[:_SHOWN]:
        shown.add_row(name, f"{number:,}", f"{number / seen.instructions:.1%}")
    results.print(shown)


def _present(boards: Sequence[Board]) -> Iterator[Board]:
    for board in boards:
        reason = missing(board)
        if reason is None:
            yield board
        else:
            messages.print(f"without {board.name}: {reason}")


def _peers(given: argparse.Namespace) -> dict[str, Runner]:
    """The peers that were given; says which were not. Raises `DeploykitError` if one is not there."""
    found: dict[str, Runner] = {}
    if given.cmsis_nn is not None:
        found["CMSIS-NN"] = CmsisNN(given.cmsis_nn, given.output / "cmsis-nn")
    if given.tflite_micro is not None:
        models = {path.stem: path for path in given.trained or ()}
        found["TFLite-Micro"] = TfliteMicro(given.tflite_micro, models, given.output / "tflite-micro")
    if given.onnx2c is not None:
        found["onnx2c"] = onnx2c(given.onnx2c)
    if given.emx is not None:
        found["emx-onnx-cgen"] = emx(given.emx)
    for option in ("cmsis-nn", "tflite-micro", "onnx2c", "emx"):
        if getattr(given, option.replace("-", "_")) is None:
            messages.print(f"without {option}: give it with --{option}")
    return found


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.boards", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--board", action="append", metavar="NAME", help=f"default: {', '.join(USUAL)}")
    parser.add_argument("--model", action="append", choices=tuple(MODELS), help="default: all")
    parser.add_argument("--dtype", action="append", choices=DTYPES, help="default: all")
    parser.add_argument("--functions", action="store_true", help="list the functions with the most instructions")
    parser.add_argument("--cmsis-nn", type=Path, metavar="DIR", help="a clone of CMSIS-NN")
    parser.add_argument("--tflite-micro", type=Path, metavar="DIR", help="a folder of clones, see above")
    parser.add_argument("--trained", type=Path, action="append", metavar="FILE", help="a .tflite file, see above")
    parser.add_argument("--onnx2c", metavar="PROGRAM", help="the program onnx2c")
    parser.add_argument("--emx", metavar="PROGRAM", help="the program emx-onnx-cgen")
    parser.add_argument("--output", type=Path, default=Path("build/bench-boards"), metavar="DIR")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

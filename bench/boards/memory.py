"""What `--optimize memory` saves and costs.

    python -m bench.boards.memory [--board NAME] [--model NAME] [--dtype DTYPE]

Each model is built in both ways for a board whose core is emulated, and run once with the same input: the bytes of the
arena, the arithmetic operations of a run as its plan counts them, instructions, and the bytes of code and of the
stack. The results must have the same bytes. The table is printed in Markdown.

Exit code 1 if results differ, 4 if the core cannot be emulated.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.boards import image
from bench.boards.__main__ import DTYPES, Case, prepared
from bench.boards.models import MODELS
from bench.boards.ours import Ours
from deploykit.artifact.manifest import read_manifest
from deploykit.artifact.plan import read_plan
from deploykit.cli.console import messages, results
from deploykit.targets.embedded.boards import Board, find_board
from deploykit.targets.embedded.boards.image import missing

COLUMNS = ("model", "arena", "ratio", "operations", "ratio", "instructions", "ratio", "code", "stack")
ROOMY = "mps2-an386"
"""The board without `--board`: a Cortex-M4 with much memory."""


@dataclass(frozen=True)
class Built:
    """A model that was built in one way, and what was seen of it."""

    arena: int
    operations: int
    seen: image.Seen


def main() -> int:
    given = _arguments()
    board = find_board(given.board)
    if reason := missing(board):
        messages.print(f"without {board.name}: {reason}")
        return 4
    differ = False
    results.print(f"| {' | '.join(COLUMNS)} |\n|---|{'---:|' * (len(COLUMNS) - 1)}", soft_wrap=True)
    with TemporaryDirectory() as folder:
        for case in prepared(given.model or tuple(MODELS), given.dtype or DTYPES, Path(folder)):
            usual, saving = (_built(case, board, how, Path(folder) / how) for how in ("speed", "memory"))
            if saving.arena < usual.arena:
                results.print(f"| {' | '.join(_cells(case, usual, saving))} |", soft_wrap=True)
            differ |= usual.seen.output.tobytes() != saving.seen.output.tobytes()
    return int(differ)


def _built(case: Case, board: Board, optimize: str, folder: Path) -> Built:
    place = folder / f"{case.name}_{case.dtype}"
    place.mkdir(parents=True)
    side = Ours("memory" if optimize == "memory" else "speed").side(board, case.model, place)
    seen = image.measure(board, side, case.given, case.expected, place)
    artifact = place / "artifact"
    operations = sum(int(entry.flops or 0) for entry in read_plan(artifact).work)
    return Built(read_manifest(artifact).peak_memory.at_bounds or 0, operations, seen)


def _cells(case: Case, usual: Built, saving: Built) -> Iterator[str]:
    yield f"{case.name}, {case.dtype}"
    yield f"{usual.arena:,} -> {saving.arena:,}"
    yield f"{saving.arena / usual.arena:.2f}"
    yield f"{usual.operations / 1e6:.2f} -> {saving.operations / 1e6:.2f} M"
    yield f"{saving.operations / usual.operations:.2f}"
    yield f"{usual.seen.instructions / 1e6:.2f} -> {saving.seen.instructions / 1e6:.2f} M"
    yield f"{saving.seen.instructions / usual.seen.instructions:.2f}"
    yield f"{usual.seen.code:,} -> {saving.seen.code:,}"
    yield f"{usual.seen.stack:,} -> {saving.seen.stack:,}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.boards.memory", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--board", default=ROOMY, metavar="NAME", help=f"default: {ROOMY}")
    parser.add_argument("--model", action="append", choices=tuple(MODELS), help="default: all")
    parser.add_argument("--dtype", action="append", choices=DTYPES, help="default: all")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

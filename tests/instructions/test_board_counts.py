"""The number of instructions that a run of a model executes on emulated microcontrollers.

Models are those of `bench.boards`, compiled as it compiles them; a plugin of QEMU counts. `board_counts.json` has the
compiler of each core and the counts by model. A count that is higher by more than `TOLERANCE` fails; one that is lower
by more gives a warning. Other compilers make other code, so they are skipped. `pytest --update-golden` stores new
counts.
"""

from __future__ import annotations

import json
import warnings
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from bench.boards.__main__ import Case, measure, prepared
from bench.boards.ours import Ours
from bench.boards.report import OURS
from deploykit.targets.embedded.boards import Board, find_board
from deploykit.targets.embedded.boards.image import compiler_for, missing

COUNTS = Path(__file__).with_name("board_counts.json")
TOLERANCE = 0.03
BOARDS = ("mps2-an385", "mps2-an386", "mps2-an500", "mps3-an547", "riscv32-virt", "riscv32-virt-v")
MODELS = (("dscnn", "int8"), ("cnn", "float"), ("lstm", "float"))


@cache
def case_of(name: str, dtype: str) -> Case:
    """A model with an input and the result of ONNX Runtime."""
    with TemporaryDirectory() as folder:
        (case,) = prepared([name], [dtype], Path(folder))
    return case


def required(name: str) -> Board:
    """A board with this name. Skips the test if its core is not emulated here."""
    board = find_board(name)
    if reason := missing(board):
        pytest.skip(reason)
    return board


def store(board: Board, model: str, found: int) -> None:
    """Write a count, and forget those of another compiler of the core."""
    known, compiler = json.loads(COUNTS.read_text()), compiler_for(board.core).version
    own = known.get(board.core.name, {})
    counts = own.get("counts", {}) if own.get("compiler") == compiler else {}
    known[board.core.name] = {"compiler": compiler, "counts": dict(sorted((counts | {model: found}).items()))}
    COUNTS.write_text(json.dumps(known, indent=2) + "\n")


@pytest.mark.sampled(part=6)
@pytest.mark.parametrize("model", MODELS, ids="_".join)
@pytest.mark.parametrize("name", BOARDS)
def test_count(name: str, model: tuple[str, str], tmp_path: Path, request: pytest.FixtureRequest) -> None:
    board, title = required(name), "_".join(model)
    known, compiler = json.loads(COUNTS.read_text()).get(board.core.name, {}), compiler_for(board.core).version
    update = request.config.getoption("--update-golden")
    if not update and known["compiler"] != compiler:
        pytest.skip(f"counts are those of {known['compiler']}, and this is {compiler}")
    row = measure(case_of(*model), board, {OURS: Ours()}, tmp_path)
    assert row.without == {}
    figures = row.sides[OURS]
    assert figures.right
    if update:
        store(board, title, figures.instructions)
        return
    expected = known["counts"][title]
    ratio = figures.instructions / expected
    told = f"{title} on {board.core.name}: {figures.instructions:,} instructions, {expected:,} expected"
    assert ratio <= 1 + TOLERANCE, f"{told}; see pytest --update-golden"
    if ratio < 1 - TOLERANCE:
        warnings.warn(f"{told}: --update-golden", stacklevel=1)


def test_every_count_has_a_case() -> None:
    known = json.loads(COUNTS.read_text())
    assert set(known) == {find_board(name).core.name for name in BOARDS}
    assert all(set(own["counts"]) == set(map("_".join, MODELS)) for own in known.values())

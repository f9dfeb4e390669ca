"""The app for boards: built for several cores, and run on them emulated."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from apps.embedded.build import build
from deploykit.targets.embedded.boards import find_board
from deploykit.targets.embedded.boards.footprint import read_footprint
from deploykit.targets.embedded.boards.image import missing


@pytest.mark.slow
@pytest.mark.parametrize("board", ["arduino-uno-r4", "microbit", "ek-ra8m1", "esp32c3"])
def test_the_app_reads_digits(board: str, tmp_path: Path) -> None:
    if reason := missing(find_board(board)):
        pytest.skip(reason)
    build(board, tmp_path / "digits")
    call = subprocess.run(["make", "-s", "-C", tmp_path / "digits", "run"], capture_output=True, text=True, check=False)
    assert call.returncode == 0, call.stdout + call.stderr
    assert re.findall(r"^a (\d)", call.stdout, re.MULTILINE) == [*"0123456789"]
    found = read_footprint(tmp_path / "digits")
    assert found is not None
    tensors = found.ram["arena"] + found.ram["inputs"] + found.ram["outputs"]
    assert f"RAM for tensors: {tensors} bytes" in call.stdout

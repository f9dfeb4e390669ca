"""The programs and commands of the page on ragged operators work, in order."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from deploykit.ragged import schedules

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "ragged_operators.md").read_text()


def test_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    exec("\n".join(blocks), {})


@pytest.mark.slow
def test_commands(tmp_path: Path) -> None:
    command = f'{sys.executable} -m deploykit "$@"'
    (tmp_path / "deploykit").write_text(f"#!/bin/sh\nexec {command}\n")
    (tmp_path / "deploykit").chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    (text,) = re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    subprocess.run(["bash", "-euc", text], cwd=tmp_path, env=environment, check=True, capture_output=True)
    assert (tmp_path / "dist-embedded" / "model.c").is_file()


def test_the_table_has_every_method_of_a_schedule() -> None:
    table = PAGE[PAGE.index("| method |") :]
    methods = ["split", "tile", "reorder", "fuse", "pad", "vectorize", "unroll", "parallel", "remap"]
    assert all(hasattr(schedules.Schedule, method) and f"`{method}`" in table for method in methods)

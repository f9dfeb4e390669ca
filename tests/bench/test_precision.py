"""`bench.precision` prints a line for each choice of sizes, and the errors of each side."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bench.precision import measured


@pytest.mark.slow
def test_the_table(tmp_path: Path) -> None:
    call = [sys.executable, "-m", "bench.precision", "--filter", "mlp", "--seconds", "0.1", "--output", str(tmp_path)]
    printed = subprocess.run(call, check=True, capture_output=True, text=True).stdout
    assert "mlp batch=1" in printed
    assert "mlp batch=64" in printed
    assert "geometric mean" in printed


@pytest.mark.slow
def test_errors(tmp_path: Path) -> None:
    errors = measured("mlp", 1, 1, 0.1, tmp_path)["errors"]
    assert errors["float32"] < 1e-5 < errors["bf16"] < 0.1

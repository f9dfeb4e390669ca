"""Runs the commands of `bench` as a user does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).parents[2]


def ran(module: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """What `python -m module words` prints; it must succeed."""
    call = [sys.executable, "-m", module, *words]
    done = subprocess.run(call, cwd=_ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done

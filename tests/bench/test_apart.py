"""`bench.apart`: results, and what becomes of work that fails, crashes or takes too long."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

from bench.apart import apart


def _crash() -> None:
    os._exit(3)


def _fail() -> None:
    raise ValueError("there is no such model")


def _wait(noted: Path) -> None:
    """Start a process that notes its end after two seconds, and wait for it."""
    program = f"import time, pathlib; time.sleep(2); pathlib.Path({str(noted)!r}).touch()"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_results_and_failures() -> None:
    assert apart(partial(pow, 2, 10)) == 1024
    assert apart(_fail) == "there is no such model"
    assert apart(_crash) == "the process ended"


def test_a_limit_ends_the_work_and_what_it_started(tmp_path: Path) -> None:
    noted = tmp_path / "noted"
    assert apart(partial(_wait, noted), 1) == "no result within 1 s"
    time.sleep(2.5)
    assert not noted.exists()

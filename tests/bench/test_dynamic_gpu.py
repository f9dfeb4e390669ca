"""`python -m bench.dynamic.gpu`: launches, submissions and times in a page."""

from __future__ import annotations

import subprocess
import sys

import pytest

from bench.browser import find_chromium


@pytest.mark.slow
@pytest.mark.skipif(find_chromium() is None, reason="needs Chromium")
def test_a_small_batch() -> None:
    small = ["--model", "tree", "--hidden", "8", "--batch", "3", "--turns", "2"]
    call = [sys.executable, "-m", "bench.dynamic.gpu", *small]
    done = subprocess.run(call, capture_output=True, text=True, check=True, timeout=300)
    (row,) = [line.split() for line in done.stdout.splitlines() if "tree" in line]
    name, hidden, launches, submissions, *_ = row
    assert (name, hidden, submissions) == ("tree", "8", "1")
    assert int(launches) > 2

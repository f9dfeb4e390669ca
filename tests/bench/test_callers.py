"""`python -m bench.callers` and `deploykit bench --callers`: many threads on one session."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest

import deploykit
from deploykit.checks.crowds import crowded
from tests.bench.commands import ran
from tests.frontends.onnx.harness import parse


def test_all_callers_call_at_the_same_time() -> None:
    inside: list[int] = []
    most: list[int] = []
    lock = threading.Lock()

    def side() -> None:
        with lock:
            inside.append(1)
            most.append(len(inside))
        time.sleep(2e-3)
        with lock:
            inside.pop()

    slow, fast = crowded({"slow": side, "fast": lambda: None}, 5, 0.3)
    assert max(most) == 5
    assert 2e-3 <= slow.median <= slow.p95
    assert slow.per_second <= 5 / 2e-3
    assert fast.per_second > slow.per_second
    assert fast.calls > slow.calls > 0


def test_an_error_of_a_caller_is_raised() -> None:
    def side() -> None:
        raise ValueError("of one thread")

    with pytest.raises(ValueError, match="of one thread"):
        crowded({"side": side}, 3, 0.1)


def test_the_command(tmp_path: Path) -> None:
    deploykit.build(parse("(float[n] x) => (float[n] y) { y = Exp(x) }"), output=tmp_path / "dist")
    shown = ran("deploykit", "bench", tmp_path / "dist", "--at", "n=5", "--callers", "3", "--seconds", "0.2").stdout
    assert "n=5, 3 caller(s), 1 thread(s) each" in shown
    options = ("--callers", "2", "--seconds", "0.2", "--at", "n=5", "--json")
    found = json.loads(ran("deploykit", "bench", tmp_path / "dist", *options).stdout)
    assert (found["callers"], found["sizes"], found["ratio"]) == (2, {"n": 5}, None)
    assert found["loads"][0]["per_second"] > 0


def test_a_quick_run(tmp_path: Path) -> None:
    result = ran("bench.callers", "--quick", "--filter", "mlp", "--callers", "2", "--output", tmp_path)
    assert "2 callers, against ONNX Runtime: geometric mean" in result.stdout
    (row,) = json.loads((tmp_path / "report.json").read_text())["rows"]
    assert row["ratio"] == row["ours"]["per_second"] / row["peer"]["per_second"]
    assert (tmp_path / "report.png").read_bytes().startswith(b"\x89PNG")

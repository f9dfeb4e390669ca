"""`python -m bench.gpu`: the figures of the table, fixed sizes, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from bench.cases import CASES
from bench.gpu import OURS, PEERS, Row, fixed, show
from bench.ragged.timing import FEWEST_TURNS, in_turn
from tests.bench.commands import ran


def test_a_ratio_is_only_of_right_results() -> None:
    row = Row("mlp", {"batch": 1}, {OURS: 0.002, "ncnn": 0.003})
    assert row.ratio("ncnn") == pytest.approx(1.5)
    row.wrong.append("ncnn")
    assert row.ratio("ncnn") is None
    assert Row("mlp", {}, {OURS: 0.002}).ratio("ncnn") is None


def test_only_our_failures_fail(capsys: pytest.CaptureFixture[str]) -> None:
    right = Row("mlp", {"batch": 1}, {OURS: 0.002, "ncnn": 0.003}, wrong=["ncnn"])
    assert show([right], ["ncnn"]) == 0
    assert "3.0 ms WRONG" in capsys.readouterr().out
    assert show([right, Row("cnn", {}, without={OURS: "the process ended"})], ["ncnn"]) == 1
    assert "cnn, deploykit: the process ended" in capsys.readouterr().out


def test_sizes_are_fixed() -> None:
    model = fixed(CASES["mlp"].make(), {"batch": 1})
    onnx.checker.check_model(model)
    values = [*model.graph.input, *model.graph.output]
    assert all(dim.dim_value > 0 for value in values for dim in value.type.tensor_type.shape.dim)


def test_peers_without_a_driver_for_a_device_say_so() -> None:
    assert PEERS["ncnn"].missing("opencl") == PEERS["IREE"].missing("opencl") == "it has no driver for opencl"


def test_long_runs_are_repeated_less(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.ragged.timing.LONG_SECONDS", 0.0)
    monkeypatch.setattr("bench.ragged.timing.TURN_SECONDS", 0.0)
    calls: list[str] = []
    found = in_turn({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, 0)
    assert calls == ["a", "b"] * (1 + FEWEST_TURNS)
    assert found.keys() == {"a", "b"}


@pytest.mark.slow
def test_a_run_of_the_whole_command(tmp_path: Path) -> None:
    done = ran("bench.gpu", "--filter", "mlp", "--seconds", "0.2", "--output", tmp_path)
    assert "mlp" in done.stdout

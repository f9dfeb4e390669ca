"""`python -m bench.ragged.kernels`: its operators, the figures of the table, and one run of the whole command."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import deploykit
from bench.ragged.kernel_report import Report, Row
from bench.ragged.operators import LONGEST, OPERATORS, masked_attention, operators
from bench.tables import markdown
from deploykit.checks.benchmark import Timing
from tests.bench.commands import ran


def timing(seconds: float) -> Timing:
    return Timing("", 5, seconds, seconds, seconds, seconds)


VGEMM = Row(
    *("vgemm", "8 products", 1),
    {"ragged": timing(3e-3), "dense": timing(4e-3), "ragged calls": timing(1e-3), "dense calls": timing(3e-3)},
    {"ragged": 2e7, "dense": 2e7},
)
TRMM = Row("trmm", "64", 1, {"ragged": timing(1e-3), "onnxruntime": timing(1e-3)}, {"ragged": 1e6, "onnxruntime": 2e6})
REPORT = Report((VGEMM, TRMM))


def test_rates_are_without_calls() -> None:
    assert VGEMM.rate("ragged") == pytest.approx(1e10)
    assert VGEMM.ratio("dense") == pytest.approx(0.5)
    assert TRMM.ratio("onnxruntime") == pytest.approx(0.5)
    assert TRMM.ratio("dense") is None


def test_the_table_has_the_sides_that_took_part() -> None:
    columns, rows = REPORT.table()
    assert {len(cells) for cells in rows} == {len(columns)}
    assert columns[5:] == [">dense", ">of dense", ">ORT", ">of ORT", "wrong"]
    assert rows[0][3:7] == ["2.0 ms", "10.0", "20.0", "0.50"]
    assert REPORT.summary()[0] == "vgemm, 1 thread(s), 1 line(s): geometric means 0.50 of dense (least 0.50)"
    assert "| trmm | 64 | 1 |" in markdown(REPORT)


def test_operators_take_larger_extents_if_asked(tmp_path: Path) -> None:
    assert operators(tmp_path, LONGEST) == OPERATORS
    assert "maximum=1408" in operators(tmp_path, 1408).read_text()
    assert f"maximum={LONGEST}" not in (tmp_path / "ops.py").read_text()


def test_masked_attention_computes_what_triangular_attention_computes(tmp_path: Path) -> None:
    deploykit.build(f"{OPERATORS}:attention", output=tmp_path / "triangle")
    deploykit.build(masked_attention(), output=tmp_path / "square")
    rng, lengths = np.random.default_rng(1), (5, 0, 33, 1)
    inputs = {name: [rng.random((n, 4, 16), np.float32) for n in lengths] for name in ("query", "key", "value")}
    triangle, square = (deploykit.open(tmp_path / name)(**inputs)["attended"] for name in ("triangle", "square"))
    np.testing.assert_allclose(triangle.values, square.values, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_a_quick_run(tmp_path: Path) -> None:
    result = ran("bench.ragged.kernels", "--quick", "--output", tmp_path)
    words = " ".join(result.stdout.split())
    assert all(f"{name}, 1 thread(s), 1 line(s): geometric means" in words for name in ("vgemm", "trmm", "attention"))
    rows = json.loads((tmp_path / "report.json").read_text())["rows"]
    assert [set(row["ratios"]) for row in rows] == [{"dense", "onnxruntime"}] * 2 + [{"square", "padded"}]
    assert all(row["wrong"] == [] for row in rows)
    assert (tmp_path / "report.md").exists()
    assert (tmp_path / "report.png").exists()

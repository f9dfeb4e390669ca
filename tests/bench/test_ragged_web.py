"""`python -m bench.ragged.web`: the figures of the table, and one run of the whole command."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from math import nan
from pathlib import Path

import pytest

from bench.browser import find_chromium
from bench.ragged.web_report import Report, Row
from bench.tables import document, markdown
from tests.bench.commands import ran

ROOT = Path(__file__).parents[2]
ROW = Row("MNLI", 8, "wasm, 1 thr.", 300, 60, 1.6, {"ragged": 10.0, "padded": 40.0, "sorted": 20.0}, 2, 1e-6)
REPORT = Report("minilm", 1, (ROW, replace(ROW, batch=2, times={"ragged": 10.0, "padded": 40.0}, size=None)))


def test_the_best_is_the_faster_side() -> None:
    assert [row.best for row in REPORT.rows] == pytest.approx([2, 4])
    (line,) = REPORT.summary()
    assert "wasm, 1 thr., 2 line(s): geometric means 2.83 against the best of onnxruntime-web (least 2.00)" in line


def test_the_report_has_a_line_for_each_batch() -> None:
    columns, rows = REPORT.table()
    assert {len(cells) for cells in rows} == {len(columns)}
    assert rows[0][6:11] == ["10.0 ms", "40.0 ms", "20.0 ms (2)", "4.00", "2.00"]
    assert "minilm with 1 layer(s)" in markdown(REPORT)
    assert document(REPORT)["rows"][0]["best"] == pytest.approx(2)


def test_what_differs_or_fails_is_wrong() -> None:
    assert not REPORT.wrong
    assert replace(REPORT, rows=(replace(ROW, error=nan),)).wrong
    assert replace(REPORT, failed=("MNLI batch=8, webgpu: no adapter",)).wrong


@pytest.mark.slow
@pytest.mark.skipif(find_chromium() is None, reason="needs Chromium")
def test_a_quick_run(tmp_path: Path) -> None:
    installed = [
        folder
        for name in ("bench-ragged-web", "bench-web")
        if (folder := ROOT / "build" / name / "node_modules" / "onnxruntime-web").exists()
    ]
    if not installed:
        pytest.skip("needs onnxruntime-web, which python -m bench.ragged.web installs")
    shutil.copytree(installed[0].parent, tmp_path / "node_modules")
    result = ran("bench.ragged.web", "--quick", "--output", tmp_path)
    assert "against the best of onnxruntime-web" in " ".join(result.stdout.split())
    (row,) = json.loads((tmp_path / "report.json").read_text())["rows"]
    assert (row["dataset"], row["batch"], row["on"]) == ("CoLA", 2, "wasm, 1 thr.")
    assert row["times"].keys() == {"ragged", "padded", "sorted"}
    assert row["size"] == 1
    assert (tmp_path / "report.md").exists()
    assert (tmp_path / "report.png").exists()

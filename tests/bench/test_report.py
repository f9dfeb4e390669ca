"""The table of `python -m bench`: the figures that it computes from times, and one run of the whole command."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bench.peers import PEERS
from bench.report import Model, Report, Row
from bench.tables import document, markdown, mean
from deploykit.checks.benchmark import Timing
from tests.bench.commands import ran


def timing(name: str, seconds: float) -> Timing:
    return Timing(name, 5, seconds, seconds, seconds, seconds)


def row(threads: int, *wrong: str, **seconds: float) -> Row:
    return Row("m", {"batch": 8}, threads, {name: timing(name, value) for name, value in seconds.items()}, wrong)


REPORT = Report(
    (Model("m", 2.5, 12345, {"deploykit": 10**6, "onnxruntime": 2 * 10**6}, {"iree": "no such operator"}),),
    (
        row(1, deploykit=1e-3, onnxruntime=4e-3, static=0.8e-3),
        row(2, "onnxruntime", deploykit=1e-3, onnxruntime=1e-3, pytorch=2e-3),
    ),
)
SEVERAL = replace(REPORT, rows=(row(1, deploykit=1e-3, onnxruntime=4e-3, openvino=3e-3), *REPORT.rows))


def test_ratios_are_the_peers_time_over_ours() -> None:
    assert REPORT.rows[0].ratio("onnxruntime") == pytest.approx(4)
    assert REPORT.rows[0].ratio("pytorch") is None
    assert mean([1, 4]) == pytest.approx(2)
    assert REPORT.wrong == REPORT.rows[1:]


def test_the_summary_counts_lines() -> None:
    one, _, two, torch, _, dynamic = REPORT.summary()
    assert "1 thread(s), against ONNX Runtime: geometric mean 4.00, at least as fast in 1 of 1" in one
    assert "2 thread(s), against ONNX Runtime: geometric mean 1.00" in two
    assert "PyTorch: geometric mean 2.00" in torch
    assert "1.250 of the time" in dynamic


def test_the_best_is_the_fastest_peer_with_right_results() -> None:
    assert [found.best() for found in SEVERAL.rows] == ["openvino", "onnxruntime", "pytorch"]
    assert row(1, "onnxruntime", deploykit=1e-3, onnxruntime=1e-3).best() is None
    columns, rows = SEVERAL.table()
    assert [cells[columns.index(">best")] for cells in rows] == ["3.00 OpenVINO", "4.00 ORT", "2.00 PyTorch"]
    assert [found["best"] for found in document(SEVERAL)["rows"]] == ["openvino", "onnxruntime", "pytorch"]
    lines = [line for line in SEVERAL.summary() if "best peer" in line]
    assert [line.split(": ")[1] for line in lines] == [
        "geometric mean 3.46, at least as fast in 2 of 2 lines, least 3.00",
        "geometric mean 2.00, at least as fast in 1 of 1 lines, least 2.00",
    ]


def test_one_peer_alone_is_not_called_the_best() -> None:
    alone = replace(REPORT, rows=REPORT.rows[:1])
    assert ">best" not in alone.table()[0]
    assert not any("best" in line for line in alone.summary())


def test_a_peer_that_is_not_installed_says_so() -> None:
    absent = replace(PEERS["openvino"], modules=("openvino_that_nobody_has",))
    assert absent.missing() == (
        "openvino_that_nobody_has cannot be imported (No module named 'openvino_that_nobody_has')"
    )


def test_the_table_has_a_line_for_each_row(tmp_path: Path) -> None:
    columns, rows = REPORT.table()
    assert {len(cells) for cells in rows} == {len(columns)}
    assert rows[0] == [
        "m",
        "8",
        "1",
        "1.0 ms",
        "1.25",
        "4.0 ms",
        "4.00",
        "",
        "",
        "4.00 ORT",
        "1.0 MB",
        "2.0 MB",
        "2.50 s",
        "12.3 kB",
    ]
    assert rows[1][6] == "1.00 WRONG"
    text = markdown(REPORT)
    assert "| m | 8 | 1 | 1.0 ms |" in text
    assert "IREE did not run m: no such operator" in text
    REPORT.picture(tmp_path / "report.png")
    assert (tmp_path / "report.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_a_quick_run(tmp_path: Path) -> None:
    peers = ("--peers", "onnxruntime", "--peers", "openvino")
    result = ran("bench", "--quick", "--filter", "mlp", *peers, "--output", tmp_path)
    assert "geometric mean" in result.stdout
    written = json.loads((tmp_path / "report.json").read_text())
    (found,) = written["rows"]
    missing = PEERS["openvino"].missing()
    sides = {"onnxruntime"} if missing else {"onnxruntime", "openvino"}
    assert found["ratios"].keys() == sides
    assert min(found["ratios"].values()) > 0
    assert found["best"] in sides
    assert set(written["models"][0]["memory"]) == {"deploykit", *sides}
    assert (f"without OpenVINO: {missing}" in " ".join(result.stderr.split())) == (missing is not None)
    assert (tmp_path / "report.md").exists()
    assert (tmp_path / "report.png").exists()

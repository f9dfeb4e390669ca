"""`python -m bench.ragged`: batches in their forms, the figures of the report, and one run of the whole command."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from functools import partial
from math import isnan
from pathlib import Path

import numpy as np
import onnx
import pytest

from bench.ragged.batches import Batch, batch_of
from bench.ragged.models import DEFAULT, MASK, MODELS
from bench.ragged.report import Report, Row
from bench.ragged.timing import FEWEST_TURNS, in_turn
from bench.tables import document, markdown
from deploykit.checks.benchmark import Timing
from tests.bench.commands import ran

BATCH = Batch(np.array([2, 3, 1]), {"ids": np.arange(1, 7)})


def timing(seconds: float) -> Timing:
    return Timing("", 5, seconds, seconds, seconds, seconds)


TIMES = {
    "ragged": timing(1e-3),
    "dense": timing(3e-3),
    "dense sorted": timing(2e-3),
    "onnxruntime": timing(4e-3),
    "onnxruntime sorted": timing(1.5e-3),
}
ROW = Row("cora", "CoLA", 8, 1, 100, 30, 1.4, TIMES, {"dense sorted": 2, "onnxruntime sorted": 4}, 1000, 2500)
REPORT = Report({"cora": 6}, (ROW, replace(ROW, dataset="MNLI", wrong=["onnxruntime"])), {"pytorch": "not installed"})


def test_a_batch_is_padded_to_its_longest_sequence() -> None:
    padded = BATCH.padded()
    assert padded["ids"].tolist() == [[1, 2, 0], [3, 4, 5], [6, 0, 0]]
    assert padded[MASK].tolist() == [[1, 1, 0], [1, 1, 1], [1, 0, 0]]
    assert BATCH.valid(padded["ids"]).tolist() == [1, 2, 3, 4, 5, 6]
    assert BATCH.packed()["lengths"].tolist() == [2, 3, 1]


def test_small_batches_hold_sequences_of_similar_lengths() -> None:
    first, second = BATCH.sorted(2)
    assert first["ids"].tolist() == [[3, 4, 5], [1, 2, 0]]
    assert second["ids"].tolist() == [[6]]
    assert second[MASK].tolist() == [[1]]


@pytest.mark.parametrize("name", MODELS)
def test_a_model_takes_these_inputs(name: str) -> None:
    model = MODELS[name]
    graph = model.make(1).graph
    assert {value.name for value in graph.input} == {*model.inputs, MASK}
    assert [value.name for value in graph.output] == [model.output]
    for value in graph.input:
        if value.name != MASK:
            array = batch_of(model, np.array([3])).values[value.name]
            assert array.dtype == onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
            assert array.ndim == len(value.type.tensor_type.shape.dim) - 1
    assert set(DEFAULT) <= MODELS.keys()


def test_ratios_are_to_the_fastest_side() -> None:
    assert ROW.ratio("padded ORT") == pytest.approx(4)
    assert ROW.ratio("best ORT") == pytest.approx(1.5)
    assert ROW.ratio("best dense") == pytest.approx(2)
    assert isnan(ROW.ratio("PyTorch"))
    assert isnan(ROW.ratio("jagged"))


def test_the_report_has_a_line_for_each_batch(tmp_path: Path) -> None:
    columns, rows = REPORT.table()
    assert {len(cells) for cells in rows} == {len(columns)}
    found = dict(zip(columns, rows[0], strict=True))
    assert found[">ORT sorted"] == "1.5 ms (4)"
    assert found[">over best ORT"] == "1.50"
    assert ">over PyTorch" not in found
    assert [row.dataset for row in REPORT.wrong] == ["MNLI"]
    (line,) = REPORT.summary()
    assert "1.50 against best ORT, 4.00 against padded ORT, 2.00 against best dense" in line
    assert "2 of 2; the arena is 2.50 times smaller" in line
    assert "without pytorch: not installed" in markdown(REPORT)
    assert json.loads(json.dumps(document(REPORT)))["rows"][0]["ratios"]["best ORT"] == pytest.approx(1.5)
    REPORT.picture(tmp_path / "report.png")
    assert (tmp_path / "report.png").read_bytes().startswith(b"\x89PNG")


def test_sides_run_in_turn() -> None:
    called: list[str] = []

    def side(name: str) -> None:
        called.append(name)
        time.sleep(1e-3)

    found = in_turn({name: partial(side, name) for name in "ab"}, 0)
    assert set(found) == {"a", "b"}
    assert min(one.runs for one in found.values()) >= FEWEST_TURNS
    turns = [name for name, before in zip(called[2:], called[1:], strict=False) if name != before]
    assert "".join(turns) == "ab" * FEWEST_TURNS


@pytest.mark.slow
def test_a_quick_run(tmp_path: Path) -> None:
    result = ran("bench.ragged", "--quick", "--peers", "onnxruntime", "--output", tmp_path)
    assert "against best ORT" in " ".join(result.stdout.split())
    (row,) = json.loads((tmp_path / "report.json").read_text())["rows"]
    assert (row["model"], row["dataset"], row["batch"], row["wrong"]) == ("cora", "CoLA", 4, [])
    assert row["times"].keys() == {"ragged", "dense", "dense sorted", "onnxruntime", "onnxruntime sorted"}
    assert row["ratios"].keys() == {"best ORT", "padded ORT", "best dense"}
    assert (tmp_path / "report.md").exists()
    assert (tmp_path / "report.png").exists()

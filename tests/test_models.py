"""The page of architectures, from stored results."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from tools.models.page import OUTPUT, Row, collect, page, read

BERT = Row(
    "bert", "text", "BertModel", "bert", "right", "own", "", "ragged", {"input_ids": "[lengths]"}, ["y"], 4, 2e-7
)
ODD = Row("odd", "vision", "OddModel", "odd", "refused", reason="TorchScript fails: a | b")


def test_the_page_shows_the_stored_results() -> None:
    rows = read(OUTPUT)
    assert page(rows) == OUTPUT.with_suffix(".md").read_text()
    assert not [row for row in rows if row.status == "wrong"]
    assert len({row.name for row in rows if row.status == "right"}) >= 120


def test_results_of_several_runs_are_joined(tmp_path: Path) -> None:
    output = tmp_path / "models.json"
    for row in (BERT, ODD):
        (tmp_path / "run").mkdir(exist_ok=True)
        for old in (tmp_path / "run").iterdir():
            old.unlink()
        (tmp_path / "run" / f"{row.case}.json").write_text(json.dumps(asdict(row)))
        text = collect(tmp_path / "run", output)
    assert read(output) == [BERT, ODD]
    assert text.startswith("1 architectures are right: 1 by a family, 0 exported by PyTorch.")
    shown = output.with_suffix(".md").read_text()
    assert "| BertModel | own | ragged | input_ids [lengths] | y | 2e-07 |" in shown
    assert r"| OddModel (odd) | refused | TorchScript fails: a \| b |" in shown

"""A sample of the cross-compile matrix, and the page that shows it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools.matrix.__main__ import OUTPUT, measure
from tools.matrix.columns import COLUMNS
from tools.matrix.page import Cell, page, read, write

MODELS = ("mlp", "dscnn", "bert-classify.legacy")


@pytest.mark.slow
@pytest.mark.sampled(part=24)
@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("model", MODELS)
def test_a_cell_is_green_or_says_what_is_missing(model: str, column: str) -> None:
    cell = measure(model, column)
    assert cell.status in ("green", "built"), cell.reason
    assert (cell.status == "green") == (not cell.reason)


def test_cells_that_are_not_measured_stay(tmp_path: Path) -> None:
    first, second = list(COLUMNS)[:2]
    write(tmp_path / "matrix.json", [Cell("mlp", first, "green", "", 1.0), Cell("mlp", second, "refused", "no", 1.0)])
    write(tmp_path / "matrix.json", [Cell("mlp", second, "built", "no\nqemu", 2.0)])
    assert [cell["status"] for cell in json.loads((tmp_path / "matrix.json").read_text())] == ["green", "built"]
    text = (tmp_path / "matrix.md").read_text()
    assert "| mlp | ✓ | built |" in text
    assert f"| built: no qemu | mlp ({second}) |" in text


def test_the_page_shows_what_was_measured() -> None:
    cells = read(OUTPUT)
    assert page(cells) == OUTPUT.with_suffix(".md").read_text()
    assert not [cell for cell in cells if cell.status in ("wrong", "failed")]

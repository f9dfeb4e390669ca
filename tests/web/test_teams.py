"""Shaders for teams in Chromium, with subgroups and with workgroups: rows, attention, and products with few rows."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import deploykit
from bench.browser import find_chromium, in_chromium
from bench.models import MODELS
from tests.seeded import seeded

ROWS = """
<ir_version: 8, opset_import: ["" : 18]>
rows (float[batch, seq] x, float[batch, 256] z)
    => (float[batch, seq] shares, float[batch] top, float total, float[batch, seq] normal, float[batch, 16] product) {
    product = MatMul (z, w)
    shares = Softmax <axis = -1> (x)
    axis = Constant <value = int64[1] {1}> ()
    top = ReduceMax <keepdims = 0> (x, axis)
    total = ReduceSum <keepdims = 0> (x)
    mean = ReduceMean (x, axis)
    away = Sub (x, mean)
    square = Mul (away, away)
    spread = ReduceMean (square, axis)
    root = Sqrt (spread)
    one = Constant <value = float {1.0}> ()
    divisor = Add (root, one)
    normal = Div (away, divisor)
}
"""
DIMS = {"batch": (1, 4), "seq": (1, 128)}


@pytest.mark.skipif(find_chromium() is None, reason="needs Chromium")
@pytest.mark.parametrize("name", ["rows", "encoder"])
def test_teams_with_and_without_subgroups(tmp_path: Path, name: str) -> None:
    model = seeded(ROWS, {"w": (256, 16)}) if name == "rows" else MODELS["encoder"]()
    deploykit.build(model, "webgpu", DIMS, tmp_path / "dist")
    text = (tmp_path / "dist" / "shaders.wgsl").read_text()
    assert {"rows": "team_max(", "encoder": "team_add_4("}[name] in text
    shutil.copyfile(Path(__file__).with_name("teams.html"), tmp_path / "dist" / "teams.html")
    found = in_chromium(tmp_path / "dist", "teams.html", gpu=True)
    assert found["errors"] == []
    assert found["subgroups"] == [True, False]
    assert len(found["differences"]) == 2 * 7 * {"rows": 5, "encoder": 1}[name]
    assert max(found["differences"]) < 1e-5

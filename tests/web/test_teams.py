"""Shaders for teams in Chromium, with subgroups and with workgroups: rows, attention, products with few rows, and
attention and a mean over each instance of a ragged batch."""

from __future__ import annotations

import shutil
from pathlib import Path

import onnx
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
RAGGED = """
<ir_version: 8, opset_import: ["" : 18]>
ragged (float[batch, seq, 32] values, int64[batch, seq] attention_mask)
    => (float[batch, seq, 32] mixed, float[batch, 32] pooled) {
    present = Cast <to = 1> (attention_mask)
    one = Constant <value = float {1.0}> ()
    absent = Sub (one, present)
    lowest = Constant <value = float {-3.4028235e38}> ()
    penalty = Mul (absent, lowest)
    first = Constant <value = int64[1] {1}> ()
    open = Unsqueeze (penalty, first)
    keys = Transpose <perm = [0, 2, 1]> (values)
    products = MatMul (values, keys)
    scores = Add (products, open)
    shares = Softmax <axis = -1> (scores)
    mixed = MatMul (shares, values)
    last = Constant <value = int64[1] {2}> ()
    weights = Unsqueeze (present, last)
    chosen = Mul (values, weights)
    total = ReduceSum <keepdims = 0> (chosen, first)
    count = ReduceSum <keepdims = 0> (weights, first)
    tiny = Constant <value = float {1e-9}> ()
    divisor = Max (count, tiny)
    pooled = Div (total, divisor)
}
"""
DIMS = {"batch": (1, 4), "seq": (1, 128)}


@pytest.mark.slow
@pytest.mark.skipif(find_chromium() is None, reason="needs Chromium")
@pytest.mark.parametrize("name", ["rows", "encoder", "ragged"])
def test_teams_with_and_without_subgroups(tmp_path: Path, name: str) -> None:
    models = {
        "rows": lambda: seeded(ROWS, {"w": (256, 16)}),
        "encoder": MODELS["encoder"],
        "ragged": lambda: onnx.parser.parse_model(RAGGED),
    }
    ragged = "seq" if name == "ragged" else None
    artifact = deploykit.build(models[name](), "webgpu", DIMS, tmp_path / "dist", ragged=ragged)
    assert artifact is not None
    text = (tmp_path / "dist" / "shaders.wgsl").read_text()
    assert {"rows": "team_max(", "encoder": "team_add_4(", "ragged": "team_same_i32("}[name] in text
    if ragged:
        assert all("prelude" in note for note in artifact.manifest.notes if "run on the CPU" in note)
    shutil.copyfile(Path(__file__).with_name("teams.html"), tmp_path / "dist" / "teams.html")
    found = in_chromium(tmp_path / "dist", "teams.html", gpu=True)
    assert found["errors"] == []
    assert found["subgroups"] == [True, False]
    assert len(found["differences"]) == 2 * 7 * {"rows": 5, "encoder": 1, "ragged": 2}[name]
    assert max(found["differences"]) < 1e-5

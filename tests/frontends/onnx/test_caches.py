"""Dims of caches without bounds may be 0; others begin at 1."""

from pathlib import Path

import numpy as np
import pytest

import deploykit
from deploykit.frontends.onnx import load_onnx
from tests.frontends.onnx.harness import by_onnxruntime, numbers, parse

DECODERS = {
    "joined": """(float[1, t, 4] x, float[1, p, 4] past) => (float[1, s, 4] y) {
        same = Identity(past) all = Concat <axis = -2> (same, x) y = Tanh(all) }""",
    "attention": """(float[1, 2, t, 4] x, float[1, 2, p, 4] past, float[1, 2, p, 4] more)
        => (float[1, 2, t, 4] y, float[1, 2, s, 4] k, float[1, 2, s, 4] v) {
        y, k, v = Attention(x, x, x, , past, more) }""",
    "grouped": """(float[1, t, 32] x, float[1, t, 16] n, float[1, 1, p, 16] past, float[1, 1, p, 16] more, int32[1] l,
        int32 total) => (float[1, t, 32] y, float[1, 1, s, 16] k, float[1, 1, s, 16] v) {
        y, k, v = com.microsoft.GroupQueryAttention <num_heads = 2, kv_num_heads = 1>
            (x, n, n, past, more, l, total) }""",
}


def run_of(name: str, past: int, rows: int) -> dict[str, np.ndarray]:
    last = {"joined": (4,), "attention": (4,), "grouped": (16,)}[name]
    lead = {"joined": (1,), "attention": (1, 2), "grouped": (1, 1)}[name]
    run = {"past": numbers(*lead, past, *last), "more": numbers(*lead, past, *last, seed=1)}
    if name == "joined":
        return {"x": numbers(1, rows, 4), "past": run["past"]}
    if name == "attention":
        return {"x": numbers(1, 2, rows, 4), **run}
    count = np.array(past + rows, np.int32)
    return {"x": numbers(1, rows, 32), "n": numbers(1, rows, 16), **run, "l": count[None] - 1, "total": count}


@pytest.mark.parametrize("name", DECODERS)
def test_the_first_step_has_no_past(tmp_path: Path, name: str) -> None:
    model = parse(DECODERS[name], 23)
    bounds = {dim.name: (dim.minimum, dim.maximum) for dim in load_onnx(model).only.dims}
    assert bounds["p"] == (0, None)
    assert bounds["t"] == (1, None)
    runs = [run_of(name, past, rows) for past, rows in ((0, 3), (0, 1), (3, 1), (4, 2))]
    expected = by_onnxruntime(model, *runs)
    deploykit.build(model, output=tmp_path / "dist")
    with deploykit.open(tmp_path / "dist") as session:
        for run, wanted in zip(runs, expected, strict=True):
            for got, want in zip(session.run(run).values(), wanted, strict=True):
                np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)

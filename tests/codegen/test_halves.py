"""Conversions between half and double precision: exact, and rounded once, at every half and between every two."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest

import deploykit

TARGETS = ["host", pytest.param("webgpu", marks=pytest.mark.skipif(not shutil.which("node"), reason="needs node"))]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("size", ["n", "12"])
def test_casts_between_float16_and_float64(target: str, size: str, tmp_path: Path) -> None:
    ports = f"(double[{size}] x, float16[{size}] h) => (float16[{size}] y, double[{size}] z)"
    body = "{ y = Cast<to=10>(x) z = Cast<to=11>(h) }"
    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": 20]> casts {ports} {body}')
    deploykit.build(model, target, output=tmp_path / "casts")
    halves = np.arange(65536, dtype=np.uint16).view(np.float16)
    finite = np.sort(halves[np.isfinite(halves)]).astype(np.float64)
    middles = (finite[1:] + finite[:-1]) / 2
    near = [np.nextafter(middles, direction) for direction in (-np.inf, np.inf)]
    edges = [5e-324, -5e-324, 65519.99999999, 65520.0, -65520.0, 1e308, np.inf, -np.inf, np.nan]
    values = np.concatenate([finite, middles, *near, middles * (1 + 2**-30), edges])
    with deploykit.open(tmp_path / "casts") as session:
        for x in [values] if size == "n" else [middles[-12:], values[-12:]]:
            h = np.resize(halves, len(x))
            results = session.run({"x": x, "h": h})
            with np.errstate(over="ignore", under="ignore"):
                np.testing.assert_array_equal(results["y"], x.astype(np.float16))
            np.testing.assert_array_equal(results["z"], h.astype(np.float64))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("size", ["n", "64"])
def test_functions_of_float16_that_is_cast_first(target: str, size: str, tmp_path: Path) -> None:
    text = f"(float16[{size}] h) => (float[{size}] y) {{ x = Cast<to=1>(h) y = Exp(x) }}"
    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": 20]> exponential {text}')
    deploykit.build(model, target, output=tmp_path / "dist")
    h = np.random.default_rng(0).uniform(-20, 11, 64).astype(np.float16)
    h[:4] = [-120, -np.inf, np.inf, np.nan]
    with deploykit.open(tmp_path / "dist") as session:
        np.testing.assert_allclose(session(h=h)["y"], np.exp(h.astype(np.float32)), rtol=1e-6)

"""Conversions between half and double precision at every half and between each two: exact, or rounded once."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import deploykit
from tests.runtimes import HOST, named

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


@pytest.mark.parametrize("cpu", ["x86-64-v2", "x86-64-v3", "armv8-a", "wasm", "android-arm32"])
def test_all_float16_as_float32(cpu: str, tmp_path: Path) -> None:
    text = "(float16[n] h) => (float[n] x, float[n] y) { x = Cast<to=1>(h) t = Tanh(x) y = Add(x, t) }"
    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": 20]> widened {text}')
    runtime = named(cpu) if cpu in ("wasm", "android-arm32") else replace(HOST, cpu=cpu)
    if runtime.missing or (cpu == "armv8-a" and not shutil.which("qemu-aarch64")):
        pytest.skip(runtime.missing or "needs qemu-user")
    halves = np.arange(65536, dtype=np.uint16).view(np.float16)
    runtime.build(model, tmp_path / "dist")
    with runtime.open(tmp_path / "dist") as session:
        for values in (halves, halves[::-1][:7], halves[1024:1025]):
            found = session(h=values)["x"]
            np.testing.assert_array_equal(found, values.astype(np.float32))
            np.testing.assert_array_equal(np.signbit(found), np.signbit(values))


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


PRODUCTS = """<ir_version: 9, opset_import: ["": 20]>
products (float16[n, 3, 9, 9] x, float16[n, 5, k] a, float16[k, 20] b) => (float16[n, 24, 9, 9] y, float16[n, 5, m] z) {
    y = Conv<pads=[1, 1, 1, 1]>(x, w) p = MatMul(a, b) z = MatMul(p, v) }"""


@pytest.mark.parametrize("target", TARGETS)
def test_products_of_float16(target: str, tmp_path: Path) -> None:
    model = onnx.parser.parse_model(PRODUCTS)
    rng = np.random.default_rng(0)
    weights = {"w": rng.standard_normal((24, 3, 3, 3)), "v": rng.standard_normal((20, 37))}
    for name, value in weights.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(value.astype(np.float16), name))
    deploykit.build(model, target, output=tmp_path / "products")
    with deploykit.open(tmp_path / "products") as session:
        for n, k in ((1, 1), (3, 19)):
            shapes = {"x": (n, 3, 9, 9), "a": (n, 5, k), "b": (k, 20)}
            feeds = {name: (rng.standard_normal(shape) / 2).astype(np.float16) for name, shape in shapes.items()}
            results, expected = session.run(feeds), ReferenceEvaluator(model).run(None, feeds)
            for name, value in zip(("y", "z"), expected, strict=True):
                np.testing.assert_allclose(
                    results[name].astype(np.float32), value.astype(np.float32), rtol=0.02, atol=0.02
                )

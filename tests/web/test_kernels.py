"""Integer kernels in WebAssembly and on a GPU: exact at every size, and compiled to integer instructions."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest

import deploykit
from bench.browser import find_chromium
from tests.seeded import seeded

MODEL = """<ir_version: 9, opset_import: ["": 20]>
quantized (uint8[n, 70] x, float[n, k] f) => (int32[n, 37] p, uint8[n, 37] q, int8[n, k] r)
<float s = {256.0}, uint8 z = {100}, float t = {0.5}, int8 i = {-3}> {
    p = MatMulInteger(x, w)
    wide = Cast<to=1>(p)
    q = QuantizeLinear(wide, s, z)
    r = QuantizeLinear(f, t, i)
}"""

VECTORS = """<ir_version: 9, opset_import: ["": 20]>
vectors (uint8[n, 72] x, int8[n, k] a, uint8[n, k] b)
    => (int32[n, 40] p, uint8[n, 40] q, bool[n, k] m, int8[n, k] c, float[n, k] d, uint8[n, k] e, float[n, 16] g)
<float s = {256.0}, uint8 z = {100}, float t = {0.5}, int8 i = {-3}> {
    p = MatMulInteger(x, w)
    wide = Cast<to=1>(p)
    q = QuantizeLinear(wide, s, z)
    wider = Cast<to=3>(b)
    above = Greater(a, wider)
    upon = Cast<to=9>(b)
    m = Xor(above, upon)
    c = Where(m, a, wider)
    d = DequantizeLinear(a, t, i)
    e = Max(b, b)
    q16 = MatMulInteger(x, v)
    g = Cast<to=1>(q16)
}"""

INSTRUCTIONS = {
    "i32x4.dot_i16x8_s": b"\xfd\xba\x01",
    "i32x4.trunc_sat_f32x4_s": b"\xfd\xf8\x01",
    "f32x4.nearest": b"\xfd\x6a",
    "i8x16.narrow_i16x8_u": b"\xfd\x66",
}


@pytest.fixture(scope="module")
def quantized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("web") / "quantized"
    deploykit.build(seeded(MODEL, {"w": (70, 37)}, np.int8), "webgpu", output=folder)
    return folder


def weights_of(model: onnx.ModelProto) -> list[np.ndarray]:
    """The weights that `seeded` made, as int32."""
    arrays = map(onnx.numpy_helper.to_array, model.graph.initializer)
    return [array.astype(np.int32) for array in arrays if array.ndim > 1]


def test_integers_are_exact(quantized: Path) -> None:
    check_quantized(quantized)


def check_quantized(folder: Path, device: str | None = None) -> None:
    (w,) = weights_of(seeded(MODEL, {"w": (70, 37)}, np.int8))
    rng = np.random.default_rng(0)
    with deploykit.open(folder, device=device) as session:
        for n, k in ((1, 1), (3, 7), (29, 64)):
            x = rng.integers(0, 256, (n, 70)).astype(np.uint8)
            f = (rng.integers(-600, 600, (n, k)) / 4).astype(np.float32)
            f[0, 0] = (np.inf, -np.inf, 3e38)[n % 3]
            found = session.run({"x": x, "f": f})
            p = x.astype(np.int32) @ w
            np.testing.assert_array_equal(found["p"], p)
            np.testing.assert_array_equal(found["q"], np.clip(np.rint(p / 256) + 100, 0, 255))
            np.testing.assert_array_equal(found["r"], np.clip(np.rint(f.astype(float) * 2) - 3, -128, 127))


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_vectors_are_not_taken_apart(quantized: Path, name: str) -> None:
    for module in ("model.wasm", "model-relaxed.wasm"):
        assert INSTRUCTIONS[name] in (quantized / module).read_bytes()


@pytest.mark.skipif(find_chromium() is None, reason="needs Chromium")
def test_integers_on_a_gpu(quantized: Path) -> None:
    check_quantized(quantized, "webgpu")


@pytest.mark.skipif(find_chromium() is None, reason="needs Chromium")
def test_vectors_of_bytes_on_a_gpu(tmp_path: Path) -> None:
    model = seeded(VECTORS, {"w": (72, 40), "v": (72, 16)}, np.int8)
    deploykit.build(model, "webgpu", output=tmp_path / "vectors")
    shaders = (tmp_path / "vectors" / "shaders.wgsl").read_text()
    assert "sums_0: vec4i" in shaders
    assert not re.search(r"^ |vec[234]<[fiu]", shaders, re.MULTILINE)
    assert "atomic" not in shaders
    w, v = weights_of(model)
    rng = np.random.default_rng(0)
    with deploykit.open(tmp_path / "vectors", device="webgpu") as session:
        for n, k in ((1, 1), (3, 7), (29, 64)):
            x = rng.integers(0, 256, (n, 72)).astype(np.uint8)
            a, b = rng.integers(-128, 128, (n, k)).astype(np.int8), rng.integers(0, 3, (n, k)).astype(np.uint8)
            found = session.run({"x": x, "a": a, "b": b})
            p, m = x.astype(np.int32) @ w, (a > b) ^ (b > 0)
            np.testing.assert_array_equal(found["p"], p)
            np.testing.assert_array_equal(found["q"], np.clip(np.rint(p / 256) + 100, 0, 255))
            np.testing.assert_array_equal(found["m"], m)
            np.testing.assert_array_equal(found["c"], np.where(m, a, b))
            np.testing.assert_array_equal(found["d"], (a.astype(np.float32) + 3) / 2)
            np.testing.assert_array_equal(found["e"], b)
            np.testing.assert_array_equal(found["g"], x.astype(np.int32) @ v)

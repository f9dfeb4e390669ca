"""Kernels of integers in WebAssembly: exact at every size, and made of the instructions that there are for them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import deploykit
from tests.seeded import seeded

MODEL = """<ir_version: 9, opset_import: ["": 20]>
quantized (uint8[n, 70] x, float[n, k] f) => (int32[n, 37] p, uint8[n, 37] q, int8[n, k] r)
<float s = {256.0}, uint8 z = {100}, float t = {0.5}, int8 i = {-3}> {
    p = MatMulInteger(x, w)
    wide = Cast<to=1>(p)
    q = QuantizeLinear(wide, s, z)
    r = QuantizeLinear(f, t, i)
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


def test_integers_are_exact(quantized: Path) -> None:
    weight = next(t for t in seeded(MODEL, {"w": (70, 37)}, np.int8).graph.initializer if t.name == "w")
    w = np.frombuffer(weight.raw_data, np.int8).reshape(70, 37).astype(np.int32)
    rng = np.random.default_rng(0)
    with deploykit.open(quantized) as session:
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

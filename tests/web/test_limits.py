"""Weights that are larger than the buffers that a GPU makes, or than its memory."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import deploykit
from bench.browser import find_chromium, in_chromium
from tests.seeded import seeded

pytestmark = pytest.mark.skipif(find_chromium() is None, reason="needs Chromium")

MODEL = """<ir_version: 9, opset_import: ["": 20]>
heavy (float[n, 300] x) => (float[n, 300] y) {
    a = MatMul(x, w1)
    b = Tanh(a)
    c = MatMul(b, w2)
    d = Tanh(c)
    y = MatMul(d, w3)
}"""
WEIGHTS = {f"w{number}": (300, 300) for number in (1, 2, 3)}


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    return seeded(MODEL, WEIGHTS)


@pytest.fixture(scope="module")
def heavy(model: onnx.ModelProto, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tensors of more than one piece each."""
    folder = tmp_path_factory.mktemp("limits") / "heavy"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("deploykit.targets.webgpu.SHARD_BYTES", 1 << 16)
        deploykit.build(model, "webgpu", output=folder)
    shutil.copyfile(Path(__file__).with_name("limits.html"), folder / "limits.html")
    return folder


@pytest.mark.parametrize(("most", "buffers"), [(1 << 30, 1), (900_000, 2), (400_000, 3)])
def test_weights_lie_in_several_buffers(heavy: Path, model: onnx.ModelProto, most: int, buffers: int) -> None:
    found = in_chromium(heavy, f"limits.html?most={most}", gpu=True)
    assert "error" not in found
    assert len(found["weights"]) == buffers
    assert max(found["weights"]) <= most
    x = (np.arange(600) % 7 - 3).astype(np.float32).reshape(2, 300)
    expected = ReferenceEvaluator(model).run(None, {"x": x})[0]
    np.testing.assert_allclose(np.reshape(found["y"], (2, 300)), expected, rtol=1e-4, atol=1e-5)


def test_a_gpu_without_memory_says_so_when_the_model_is_loaded(heavy: Path) -> None:
    found = in_chromium(heavy, "limits.html?most=1000000000&room=600000", gpu=True)
    assert found["error"] == "MemoryError: the GPU has not enough memory: full"
    assert "loaded" not in found


def test_a_tensor_that_no_buffer_holds(heavy: Path) -> None:
    found = in_chromium(heavy, "limits.html?most=300000", gpu=True)
    assert found["error"].startswith("MemoryError: the weights would take ")

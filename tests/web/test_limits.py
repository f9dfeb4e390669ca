"""Weights that are larger than a GPU's bindings, its buffers, or its memory."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import deploykit
from bench.browser import find_chromium, in_chromium
from deploykit.compiler.codegen.shaders.bindings import emit_shaders
from deploykit.compiler.observer import Observer
from deploykit.compiler.variant import Variant
from deploykit.pipeline import compile_program
from deploykit.targets.webgpu import WebTarget
from deploykit.targets.webgpu.variants import SHADERS, WASM
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
    """A package whose weights have more than one piece each."""
    folder = tmp_path_factory.mktemp("limits") / "heavy"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("deploykit.targets.webgpu.SHARD_BYTES", 1 << 16)
        deploykit.build(model, "webgpu", output=folder)
    shutil.copyfile(Path(__file__).with_name("limits.html"), folder / "limits.html")
    return folder


@pytest.mark.slow
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


TIED = """<ir_version: 9, opset_import: ["": 20]>
spread (int64[batch, seq] ids)
    => (float[batch, seq, 3040] tied, float[batch, seq, 3041] odd, float[batch, seq, 3040] panels) {
    x = Gather(table, ids)
    t = Transpose<perm = [1, 0]>(table)
    y = MatMul(x, t)
    z = MatMul(x, w)
    v = MatMul(x, even)
    tied = Cast<to = 1>(y)
    odd = Cast<to = 1>(z)
    panels = Cast<to = 1>(v)
}"""
"""The table is read by rows, for both of its uses. Of the other weights, one is read by elements and one, in panels, by
vectors."""

PART = 128 << 10


class Small(WebTarget):
    """A target whose shaders have several bindings for constants of more than `PART` bytes."""

    def variants(self, cpu: str, devices: Sequence[str] = ()) -> list[Variant]:  # noqa: ARG002 - as for its base
        assert SHADERS.gpu is not None
        return [WASM, replace(SHADERS, gpu=replace(SHADERS.gpu, binding_bytes=PART))]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_constants_that_are_larger_than_a_binding(tmp_path: Path, dtype: type) -> None:
    model = seeded(TIED, {"table": (3040, 64), "w": (64, 3041), "even": (64, 3040)}, dtype)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("deploykit.targets.webgpu.SHARD_BYTES", PART // 4)
        deploykit.build(model, Small(), output=tmp_path / "dist")
    size = 3040 * 64 * np.dtype(dtype).itemsize
    text = (tmp_path / "dist" / "shaders.wgsl").read_text()
    assert len(re.findall(r"^// if [0-9]+$", text, re.MULTILINE)) == 3
    shutil.copyfile(Path(__file__).with_name("spread.html"), tmp_path / "dist" / "spread.html")
    # First the smallest bindings that the shaders support, with buffers too small for a constant; then large ones.
    found = in_chromium(tmp_path / "dist", f"spread.html?bound={PART},{1 << 26}&most={2 * PART},{1 << 26}", gpu=True)
    assert "error" not in found, found["error"]
    assert len(found["differences"]) == 2 * 2 * 3 * 3
    assert max(found["differences"]) < {np.float32: 1e-5, np.float16: 2e-3}[dtype]
    assert [len(buffers) for buffers in found["weights"]] == 3 * [3 * -(-size // (2 * PART))] + 3 * [1]
    assert max(max(buffers) for buffers in found["weights"][:3]) == 2 * PART
    words = f"output 'tied' would take {3 * 40 * 3040 * 4} bytes of the GPU, which gives at most {2 * PART}"
    words += ": load with device 'wasm'"
    reason = f"' needs {15 * 3040 * 4} bytes, found {PART} that this GPU binds at once"
    reason += ": use smaller inputs, build with bounds of dims, or run without the GPU"
    assert all(re.fullmatch(r"MemoryError: '\w+" + re.escape(reason), refusal) for refusal in found["bound"][:2])
    assert found["bound"][2:] == [[1, 15, 3040]] * 2
    assert found["large"] == [f"MemoryError: {words}"] * 2 + [[3, 40, 3040]] * 2
    assert found["after"] == [[1, 1, 3040]] * 4
    assert found["chosen"][0] == ["wasm", f"WebGPU failed: {words}", [3, 40, 3040]]
    assert found["chosen"][1][1].startswith("measured with [3, 40]: ")


@pytest.mark.parametrize(("columns", "parts"), [(3040, 6), (4096, 0)])
def test_constants_with_more_parts_than_bindings_have_one(columns: int, parts: int) -> None:
    text = f"""<ir_version: 9, opset_import: ["": 20]>
    g (float[n, 64] x) => (float[n, {columns}] y) {{ y = MatMul(x, w) }}"""
    _, variant = Small().variants("")
    program = compile_program(deploykit.load(seeded(text, {"w": (64, columns)})), variant, Observer(), {})
    assert program is not None
    (shader, *_) = emit_shaders(program)
    assert len(re.findall("var<storage, read> ", shader.packaged())) == 1 + max(parts, 1)
    assert len(re.findall("^// if [0-9]+$", shader.packaged(), re.MULTILINE)) == bool(parts)

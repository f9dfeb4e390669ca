"""Outputs that stay on the device of a page, and are handed to later runs."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import deploykit
from bench.browser import find_chromium, in_chromium
from tests.frontends.running_mean import WIDTH, running_mean, weights
from tests.seeded import seeded

pytestmark = [pytest.mark.slow, pytest.mark.skipif(find_chromium() is None, reason="needs Chromium")]

CELL = """<ir_version: 9, opset_import: ["": 20]>
cell (float[n, 32] x, float[n, 48] h) => (float[n, 48] g, float[n, 5] y) {
    a = MatMul(x, w)  b = MatMul(h, u)  s = Add(a, b)  g = Tanh(s)  y = MatMul(g, v)
}"""
WEIGHTS = {"w": (32, 48), "u": (48, 48), "v": (48, 5)}


@pytest.fixture(scope="module")
def cell(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kept") / "cell"
    deploykit.build(seeded(CELL, WEIGHTS), "webgpu", output=folder)
    shutil.copyfile(Path(__file__).with_name("kept.html"), folder / "kept.html")
    return folder


@pytest.mark.parametrize("device", ["webgpu", "wasm"])
def test_a_loop_that_hands_on_its_state(cell: Path, device: str) -> None:
    found = in_chromium(cell, f"kept.html?device={device}", gpu=True)
    assert "error" not in found, found["error"]
    on_gpu = device == "webgpu"
    assert found["equal"] == [True] * (4 * 6 * 2 + 1 + 4 + 1)
    assert found["kept"] == ["float32", [3, 48], on_gpu, False]
    assert found["made"] <= 2
    if on_gpu:
        assert found["crossed"] == {"up": 1000 * 4 * 32 * 4, "down": 1000 * 4 * 5 * 4}
    refused = iter(found["refused"])
    assert next(refused) == "ShapeError: there is no output 'z': the model has 'g', 'y'"
    assert next(refused) == "UsageError: keep takes a list of names: pass ['g']"
    words = "UsageError: output 'g' cannot stay on the device and be written to an array: choose one"
    assert next(refused) == words
    assert next(refused) == "ShapeError: input 'h' axis 0 (dim 'n') is 4, but is 3 in input 'x' axis 0"
    assert next(refused) == "ShapeError: input 'x' axis 1: expected 32, found 48"
    assert next(refused) == "ShapeError: input 'h' axis 1: expected 48, found 32"
    assert next(refused) == "no"
    freed = "UsageError: this tensor was freed: keep the output of another run"
    assert (next(refused), next(refused)) == (freed, freed)
    gone = "UsageError: the model of this tensor is disposed of: take its data() before"
    assert next(refused) == (gone if on_gpu else "no")


FUNCTIONS = """<!doctype html>
<script type="module">
  const report = {};
  try {
    const { load } = await import('./index.mjs');
    const model = await load({ device: 'webgpu', cache: false });
    const rows = { data: Float32Array.from({ length: 4 * %d }, (_, i) => Math.sin(i)), shape: [4, %d] };
    await model.reset({ streams: 4 });
    const { project, update, read } = model.functions;
    const { projected } = await project.run({ rows }, { keep: ['projected'] });
    await update.run({ x: rows });
    const { scores } = await read.run({ query: rows }, { keep: ['scores'] });
    report.onDevice = [projected.onDevice, scores.onDevice];
    report.refused = await update.run({ x: projected }).then(() => 'no', ({ message }) => message);
    const plain = [(await project.run({ rows })).projected, (await read.run({ query: rows })).scores];
    const found = [await projected.data(), await scores.data()];
    report.equal = found.map((data, index) => `${data}` === `${plain[index].data}`);
  } catch (error) {
    report.error = `${error.name}: ${error.message} ${error.stack}`;
  }
  await fetch('/result', { method: 'POST', body: JSON.stringify(report) });
</script>"""


def test_values_of_several_functions(tmp_path: Path) -> None:
    deploykit.build(running_mean(weights()), "webgpu", output=tmp_path / "mean")
    (tmp_path / "mean" / "kept.html").write_text(FUNCTIONS % (WIDTH, WIDTH))
    found = in_chromium(tmp_path / "mean", "kept.html", gpu=True)
    assert "error" not in found, found["error"]
    assert found["onDevice"] == [True, True]
    assert found["refused"] == "input 'x' axis 1: expected 6, found 5"
    assert found["equal"] == [True, True]


USED = """<!doctype html>
<script type="module">
  const report = {};
  try {
    const { load } = await import('./index.mjs');
    const model = await load({ device: 'webgpu', cache: false });
    const x = Float32Array.from({ length: 9 }, (_, i) => i / 4 - 1);
    const c = Uint8Array.from(x, (value) => Number(value > -0.5));
    const kept = await model.run({ x, c }, { keep: ['a', 'd', 's'] });
    report.onDevice = ['a', 'd', 's'].map((name) => kept[name].onDevice);
    report.buffers = ['a', 'd', 's'].map((name) => kept[name].gpuBuffer !== null);
    report.first = Array.from(await kept.s.data());
    const ones = new Uint8Array(6).fill(1);
    const again = await model.run({ x: kept.s, c: ones });
    report.again = Array.from(again.s.data);
    report.d = Array.from(await kept.d.data());
  } catch (error) {
    report.error = `${error.name}: ${error.message} ${error.stack}`;
  }
  await fetch('/result', { method: 'POST', body: JSON.stringify(report) });
</script>"""


def test_values_that_webassembly_uses_and_sizes_that_only_the_run_can_tell(tmp_path: Path) -> None:
    """Compress and float64 are computed in WebAssembly."""
    text = """<ir_version: 9, opset_import: ["": 20]>
    used (float[n] x, bool[n] c) => (float[n] a, double[n] d, float[k] s) {
        a = Exp(x) w = Cast<to = 11>(a) d = Log(w) p = Compress<axis = 0>(x, c) s = Exp(p)
    }"""
    deploykit.build(seeded(text, {}), "webgpu", output=tmp_path / "used")
    (tmp_path / "used" / "kept.html").write_text(USED)
    found = in_chromium(tmp_path / "used", "kept.html", gpu=True)
    assert "error" not in found, found["error"]
    assert found["onDevice"] == found["buffers"] == [False, False, True]
    x = np.arange(9, dtype=np.float32) / 4 - 1
    s = np.exp(x[x > -0.5])
    np.testing.assert_allclose(found["first"], s, rtol=1e-6)
    np.testing.assert_allclose(found["again"], np.exp(s), rtol=1e-6)
    np.testing.assert_allclose(found["d"], x, atol=1e-6)

"""Buffers of a page as inputs of models on a GPU, and outputs as buffers for the page."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import deploykit
from bench.browser import find_chromium, in_chromium
from tests.frontends.running_mean import WIDTH, running_mean, weights
from tests.seeded import seeded
from tests.web.test_kept import CELL, WEIGHTS

pytestmark = [pytest.mark.slow, pytest.mark.skipif(find_chromium() is None, reason="needs Chromium")]

OTHER = """<ir_version: 9, opset_import: ["": 20]>
other (float[n] v, bool[n] c) => (float[n] e, float[k] s) { e = Exp(v) p = Compress<axis = 0>(v, c) s = Exp(p) }"""
"""Compress is computed in WebAssembly."""


def test_buffers_of_a_page(tmp_path: Path) -> None:
    deploykit.build(seeded(CELL, WEIGHTS), "webgpu", output=tmp_path / "cell")
    deploykit.build(seeded(OTHER, {}), "webgpu", output=tmp_path / "other")
    shutil.copyfile(Path(__file__).with_name("lent.html"), tmp_path / "lent.html")
    found = in_chromium(tmp_path, "lent.html", gpu=True)
    assert "error" not in found, found["error"]
    assert found["equal"] == [True] * 26
    assert found["uploaded"] == 0
    assert found["uncaptured"] == []
    assert found["device"] == [True, True, True, None, None, None]
    refused = found["refused"]
    rule = "UsageError: input 'x': the GPU does not take its GPUBuffer, it must be of model.gpuDevice, and neither "
    for name in ("foreign", "destroyed", "mapped"):
        assert refused[name].startswith(f"{rule}destroyed nor mapped: "), name
    pass_it = "pass { gpuBuffer, shape }"
    small = "ShapeError: input 'x' of shape [4,32] takes 512 bytes, and its GPUBuffer has 508"
    assert refused["small"] == f"{small}: {pass_it}"
    usage = "needs the usage COPY_SRC, and also STORAGE if it is not to be copied"
    assert refused["usage"] == f"UsageError: input 'x': its GPUBuffer {usage}"
    assert refused["not"] == "ShapeError: input 'x': gpuBuffer must be a GPUBuffer, found Float32Array"
    assert refused["noShape"] == f"ShapeError: input 'x' is a GPUBuffer: pass its shape, too, {pass_it[5:]}"
    assert refused["odd"].startswith("ShapeError: input 'x' of shape [4,0.5]")
    assert refused["odd"].endswith(pass_it)
    assert refused["rank"].startswith("ShapeError: input 'x'")
    assert refused["dim"] == "ShapeError: input 'x' axis 1: expected 32, found 64"
    assert refused["otherDevice"] == "UsageError: input 'h' is on another device than this model: pass its data()"
    runs = "UsageError: input 'x' is on a GPU, unlike the model"
    assert refused["wasm"] == f"{runs}: load with device 'webgpu', or pass its elements"
    assert refused["keptByWasm"].startswith("UsageError: input 'v' is a tensor that another package keeps: ")
    words = "a GPUBuffer is of this page, a model in a worker cannot have it: load without 'worker'"
    assert refused["worker"] == f"UsageError: {words}"


FUNCTIONS = """<!doctype html>
<script type="module">
  const report = {};
  try {
    const { load } = await import('./index.mjs');
    const model = await load({ device: 'webgpu', cache: false });
    const data = Float32Array.from({ length: 4 * %d }, (_, i) => Math.sin(i));
    const shape = [4, %d];
    const gpuBuffer = model.gpuDevice.createBuffer({ size: data.byteLength, usage: 140 });
    model.gpuDevice.queue.writeBuffer(gpuBuffer, 0, data);
    const results = [];
    for (const rows of [{ data, shape }, { gpuBuffer, shape }]) {
      await model.reset({ streams: 4 });
      const { projected } = await model.functions.project.run({ rows });
      await model.functions.update.run({ x: rows });
      results.push(`${projected.data} ${(await model.functions.read.run({ query: rows })).scores.data}`);
    }
    report.equal = results[0] === results[1];
    report.threads = [model.threads, model.threadsReason];
  } catch (error) {
    report.error = `${error.name}: ${error.message} ${error.stack}`;
  }
  await fetch('/result', { method: 'POST', body: JSON.stringify(report) });
</script>"""


def test_buffers_for_several_functions(tmp_path: Path) -> None:
    deploykit.build(running_mean(weights()), "webgpu", output=tmp_path / "mean")
    (tmp_path / "mean" / "lent.html").write_text(FUNCTIONS % (WIDTH, WIDTH))
    found = in_chromium(tmp_path / "mean", "lent.html", gpu=True)
    assert "error" not in found, found["error"]
    assert found == {"equal": True, "threads": [1, "kernels run on the GPU"]}

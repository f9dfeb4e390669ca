"""The package in a page of Chromium: it loads, runs, continues after errors, and keeps its files."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import deploykit
from bench.browser import FolderHandler, find_chromium, in_chromium, served
from tests.apps.devtools import chromium

pytestmark = pytest.mark.skipif(find_chromium() is None, reason="needs Chromium")


FILES = {
    "wasm": ["/model-relaxed.wasm", "/weights/000.bin"],
    "webgpu": ["/model-gpu.wasm", "/shaders.wgsl", "/weights/000.bin"],
}
"""The files that a page keeps, by device."""


@pytest.mark.parametrize("device", FILES)
def test_a_page_loads_runs_and_loads_again(package: Path, model: onnx.ModelProto, tmp_path: Path, device: str) -> None:
    shutil.copytree(package, tmp_path / "small")
    shutil.copyfile(Path(__file__).with_name("page.html"), tmp_path / "small" / "page.html")
    page = f"page.html?device={device}&files={len(FILES[device])}"
    found = in_chromium(tmp_path / "small", page, gpu=device == "webgpu")
    shaders = (package / "shaders.wgsl").read_text().count("// shader ")
    x = (np.arange(60) % 7 - 3).astype(np.float32).reshape(1, 3, 1, 20)
    expected = ReferenceEvaluator(model).run(None, {"x": x, "shift": np.array([21])})[0]
    assert found["errors"] == []
    assert found["device"] == device
    progress = found["progress"]
    assert progress["loaded"] == progress["total"] > 0
    assert progress["compiled"] == progress["shaders"] == (device == "webgpu") * shaders
    np.testing.assert_allclose([found["first"]], expected, rtol=1e-4, atol=1e-6)
    assert found["refused"]
    assert (found["shape"], found["moved"]) == ([3, 10], [42] * 3)
    assert found["cached"] == FILES[device]
    assert found["second"] == found["first"]


@pytest.mark.parametrize("clock", ["timestamps", "waits"])
def test_the_steps_of_a_gpu_are_timed(package: Path, tmp_path: Path, clock: str) -> None:
    shutil.copytree(package, tmp_path / "small")
    shutil.copyfile(Path(__file__).with_name("profile.html"), tmp_path / "small" / "profile.html")
    found = in_chromium(tmp_path / "small", f"profile.html?clock={clock}", gpu=True)
    assert found["errors"] == []
    assert found["profile"]["clock"] == clock
    steps = found["profile"]["steps"]
    plan = json.loads((package / "plan_webgpu.json").read_text())
    assert [step["name"] for step in steps] == [plan["steps"][entry["step"]] for entry in plan["work"]]
    assert all(step["calls"] == 1 and step["ms"] > 0 for step in steps)
    assert max(steps, key=lambda step: float(step["ms"]))["name"] == "fused_conv_relu1"
    assert found["ms"] / 4 < sum(step["ms"] for step in steps) <= found["profile"]["ms"]
    assert found["same"]


ENDS = """import('./index.mjs').then(async ({{ load }}) => {{
  const request = GPUAdapter.prototype.requestDevice;
  let device;
  GPUAdapter.prototype.requestDevice = async function (...given) {{
    return (device = await request.apply(this, given));
  }};
  const model = await load({{ device: 'webgpu', cache: false }});
  const x = {{ data: new Float32Array(60), shape: [1, 3, 1, 20] }};
  const run = model.run({{ x, shift: new BigInt64Array(1) }});
  {};
  return run.then(() => 'done', String);
}})"""


@pytest.mark.parametrize(
    ("end", "message"),
    [
        ("model.dispose()", "UsageError: the model 'small' is disposed of: load it again"),
        ("device.destroy()", "DeviceLostError: the GPU device is lost, load the model again: "),
    ],
)
def test_what_ends_in_the_middle_of_a_run(package: Path, end: str, message: str) -> None:
    with served(partial(FolderHandler, directory=str(package))) as address, chromium("--enable-unsafe-webgpu") as page:
        page.open(f"{address}/README.md")
        assert page.evaluate(ENDS.format(end)).startswith(message)


def test_the_demo_opened_as_a_file_says_what_to_do(package: Path) -> None:
    with chromium() as page:
        page.open((package / "demo.html").as_uri())
        assert page.evaluate("state.textContent").startswith("Browsers do not load modules from files. Serve")


def used_demo(folder: Path, page: str) -> dict[str, Any]:
    """The report of a page that uses the package's demo."""
    for name in ("frame.mjs", page):
        shutil.copyfile(Path(__file__).with_name(name), folder / name)
    return in_chromium(folder, page)


def test_the_demo_on_a_narrow_screen(package: Path, tmp_path: Path) -> None:
    shutil.copytree(package, tmp_path / "small")
    found = used_demo(tmp_path / "small", "narrow.html")
    assert found["errors"] == []
    assert " ms on WebAssembly, the mean of " in found["state"]
    assert found["outputs"] == ["y", "[1, 10]", "moved", "[1]"]
    assert sorted(found["steps"]) == sorted(json.loads((package / "plan.json").read_text())["steps"])
    assert found["again"] == ["[3, 10]", "[3]"]
    assert not found["wide"]


def test_the_demo_of_a_model_without_bounds(tmp_path: Path) -> None:
    text = '<ir_version: 9, opset_import: ["": 20]> halves (float16[device] x) => (float16[device] y) { y = Abs(x) }'
    deploykit.build(onnx.parser.parse_model(text), "webgpu", {}, tmp_path / "halves")
    found = used_demo(tmp_path / "halves", "sizes.html")
    assert found["errors"] == []
    assert found["labels"] == ["deviceat least 1"]
    (immense, _), (large, _), (error, visible) = found["refused"]
    assert immense == "MemoryError: input 'x' would have 2,000,000,000,000 bytes: choose smaller sizes"
    assert large.startswith("MemoryError: input 'x' would have 4,400,000,000 bytes")
    assert (error, visible) == ("", True)
    name, shape, elements = found["cells"]
    assert (name, shape) == ("y", "[3]")
    assert all(0.25 <= float(element) < 1 for element in elements.split())


MANY = """import('./index.mjs').then(async ({ load }) => {
  const models = [];
  let why;
  while (!why) await load({ device: 'wasm' }).then((model) => models.push(model), (error) => (why = error));
  const { length } = models;
  models.forEach((model) => model.dispose());
  models.length = 0;
  const again = await load({ device: 'wasm' }).then((model) => model.device, String);
  return [length, `${why}`, again];
})"""


@pytest.mark.slow
def test_more_models_than_a_page_can_have(package: Path) -> None:
    with served(partial(FolderHandler, directory=str(package))) as address, chromium() as page:
        page.open(f"{address}/README.md")
        count, error, again = page.evaluate(MANY)
    assert error.startswith(f"MemoryError: this engine gives no memory to one more model, and {count} of this package")
    assert again == "wasm"

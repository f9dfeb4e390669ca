"""`device: 'auto'`: WebAssembly first, then the faster device, which is remembered; WebAssembly if the GPU fails."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bench.browser import find_chromium, in_chromium
from tests.web.conftest import in_node

TIMES = re.escape("measured with [1, 3, 5, 20], [1]") + r": WebGPU \d+\.\d\d ms, WebAssembly \d+\.\d\d ms"
ON_GPU = ("model-gpu.wasm", "shaders.wgsl")
NO_ADAPTER = "this engine has no WebGPU adapter"
NO_DEVICE = "WebGPU failed: the WebGPU adapter gives no device.*"
NO_SHADER = "WebGPU failed: the GPU cannot compile a shader.*"
LOST = "WebGPU failed: the GPU device is lost.*"


@dataclass(frozen=True)
class Choice:
    """The final device and the reason for it, the number of GPU devices that were opened, and the first device; the
    number of the page's runs on WebAssembly until the choice, and of further runs that only measure."""

    device: str
    reason: str
    devices: int
    began: str = "wasm"
    runs: int = 1
    more: int = 0


CHOICES = {
    "the GPU is slower": Choice("wasm", TIMES, 1),
    "and again": Choice("wasm", TIMES, 0),
    "with a sample": Choice("webgpu", TIMES, 1, runs=0, more=1),
    "and again with it": Choice("webgpu", TIMES, 1, "webgpu", runs=0),
    "not kept": Choice("webgpu", TIMES, 1),
    "a little faster": Choice("webgpu", TIMES, 1, more=2),
    "a little faster, with long runs": Choice("webgpu", TIMES, 1, runs=3),
    "a little faster, with a long sample": Choice("webgpu", TIMES, 1, runs=0, more=3),
    "no adapter": Choice("wasm", NO_ADAPTER, 0),
    "no adapter, which was faster": Choice("wasm", NO_ADAPTER, 0),
    "no device": Choice("wasm", NO_DEVICE, 0),
    "no device, which was faster": Choice("wasm", NO_DEVICE, 0, runs=0),
    "a shader that does not compile": Choice("wasm", NO_SHADER, 1),
    "a shader that does not compile, which was faster": Choice("wasm", NO_SHADER, 1, runs=0),
    "a device that is lost": Choice("wasm", LOST, 1),
    "recovered": Choice("webgpu", TIMES, 1, "webgpu", runs=0),
}


@pytest.fixture(scope="module")
def folder(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if find_chromium() is None:
        pytest.skip("needs Chromium")
    folder = tmp_path_factory.mktemp("auto") / "small"
    shutil.copytree(package, folder)
    shutil.copyfile(Path(__file__).with_name("auto.html"), folder / "auto.html")
    return folder


@pytest.fixture(scope="module")
def found(folder: Path) -> dict[str, Any]:
    report: dict[str, Any] = in_chromium(folder, "auto.html", gpu=True)
    assert report["errors"] == []
    return report


@pytest.mark.parametrize("what", CHOICES)
def test_the_choice(found: dict[str, Any], what: str) -> None:
    expected, choice = CHOICES[what], found[what]
    assert (choice["device"], choice["devices"], choice["began"]) == (expected.device, expected.devices, expected.began)
    assert re.fullmatch(expected.reason, choice["reason"], re.DOTALL)
    # If several runs are needed, the page makes more of them while the GPU is prepared.
    most = expected.runs if expected.runs <= 1 else 9
    assert expected.runs <= choice["runs"] <= most, "the page's runs"
    if expected.began == "wasm":
        assert choice["own"] - choice["runs"] == expected.more, "runs on WebAssembly that the page did not ask for"
    assert choice["right"]
    assert choice["again"] == 0, "weights that were fetched twice"


def test_what_is_an_error_stays_one(found: dict[str, Any]) -> None:
    assert found["a wrong sample"].startswith("ShapeError: input 'shift' is missing")
    assert found["a device that is lost, which was faster"].startswith("DeviceLostError")
    assert found["aborted"].startswith("AbortError")


def test_runs_while_the_gpu_is_tried(found: dict[str, Any]) -> None:
    state = found["runs while it is tried"]
    assert state["outcome"] == [[42], [0, 0], [42], [0, 0]]
    assert (state["first"], state["last"], state["chosen"], state["device"]) == (42, 42, "webgpu", "webgpu")


def test_dispose_while_the_gpu_is_tried(found: dict[str, Any]) -> None:
    state = found["disposed of while it is tried"]
    assert (state["first"], state["last"], state["chosen"]) == (42, "UsageError", "wasm")
    assert state["destroyed"], "the device of the trial"


def test_abort_while_the_gpu_is_tried(found: dict[str, Any]) -> None:
    state = found["aborted while it is tried"]
    assert (state["first"], state["last"], state["chosen"]) == (42, 42, "wasm")
    assert state["destroyed"], "the device of the trial"


def test_profile_while_the_gpu_is_tried(found: dict[str, Any]) -> None:
    state = found["profiled"]
    assert (state["outcome"], state["last"], state["device"]) == ("host", 42, "webgpu")


def test_the_choice_is_measured_again_with_more_elements(found: dict[str, Any]) -> None:
    assert found["grown"] == [[42, "wasm", 1], [42, "wasm", 0], [42, "webgpu", 1]]
    assert found["grown later"] == [[42, "wasm", 0], [42, "wasm", 1], [42, "wasm", 0]]
    assert found["grown at last"] == [42, "wasm", 0]


def test_bytes_of_a_trial(found: dict[str, Any], folder: Path) -> None:
    """They are reported apart: what the GPU needs besides the weights."""
    assert found["bytes of a trial"] == [1, sum((folder / name).stat().st_size for name in ON_GPU)]


@pytest.mark.parametrize("what", ["progress", "progress of a trial", "progress of a second device"])
def test_progress_grows_and_ends_once(found: dict[str, Any], what: str) -> None:
    parts = found[what]
    assert parts == sorted(parts)
    assert parts[-1] == 1
    shaders = 1 if what == "progress of a second device" else len(parts) if what == "progress of a trial" else 0
    assert parts.count(1) - shaders <= 1, "beside that of shaders"


MISSING = """<!doctype html>
<script type="module">
  import { load } from './index.mjs';
  const report = { errors: [] };
  addEventListener('unhandledrejection', ({ reason }) => report.errors.push(String(reason)));
  const feeds = { x: { data: new Float32Array(60), shape: [1, 3, 1, 20] }, shift: new BigInt64Array([21n]) };
  const model = await load({ cache: false });
  report.moved = Number((await model.run(feeds)).moved.data[0]);
  report.chosen = await model.chosen;
  report.reason = model.deviceReason;
  const error = await load({ device: 'webgpu', cache: false }).catch((error) => error);
  report.error = `${error.name}: ${error.message}`;
  await fetch('/result', { method: 'POST', body: JSON.stringify(report) });
</script>"""


@pytest.mark.parametrize("name", ["auto", "gpu"])
def test_without_a_module_that_is_loaded_later(folder: Path, tmp_path: Path, name: str) -> None:
    shutil.copytree(folder, tmp_path / "small")
    (tmp_path / "small" / "runtime" / f"{name}.mjs").unlink()
    (tmp_path / "small" / "missing.html").write_text(MISSING)
    report = in_chromium(tmp_path / "small", "missing.html", gpu=True)
    assert report["errors"] == []
    assert (report["moved"], report["chosen"]) == (42, "wasm")
    words = "a module of the package cannot be loaded"
    assert report["reason"].startswith(f"WebGPU failed: {words}")
    if name == "gpu":
        assert report["error"].startswith(f"NetworkError: {words}")


def test_without_webgpu(package: Path) -> None:
    report = in_node(package, package.as_uri() + "/", "[model.device, model.deviceReason, await model.chosen]")
    assert report["value"] == ["wasm", "this engine has no WebGPU", "wasm"]


def test_a_wrong_sample_is_wrong_without_webgpu_too(package: Path) -> None:
    report = in_node(package, package.as_uri() + "/", "load((name) => new URL(name, base), { sample: {} })")
    assert report["error"] == "ShapeError"
    assert report["message"].startswith("input 'x' is missing")


def test_without_kernels_for_a_gpu(package: Path, tmp_path: Path) -> None:
    shutil.copytree(package, tmp_path / "small")
    manifest = tmp_path / "small" / "manifest.json"
    manifest.write_text(manifest.read_text().replace("model-gpu.wasm", "model-xpu.wasm"))
    report = in_node(tmp_path / "small", f"{tmp_path.as_uri()}/small/", "[model.device, model.deviceReason]")
    assert report["value"] == ["wasm", "the model has no kernels for a GPU"]

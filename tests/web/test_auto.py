"""`device: 'auto'`: the faster device by measurement, remembered, and WebAssembly wherever a GPU fails."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from bench.browser import find_chromium, in_chromium
from tests.web.conftest import in_node

TIMES = r"measured with {}: WebGPU \d+\.\d\d ms, WebAssembly \d+\.\d\d ms"
MODERATE = re.escape("[1, 3, 64, 20], [1]")
SAMPLE = re.escape("[1, 3, 5, 20], [1]")

CHOICES = {
    "the GPU is slower": ("wasm", TIMES.format(MODERATE), 1, True),
    "and again": ("wasm", TIMES.format(MODERATE), 0, False),
    "with a sample": ("webgpu", TIMES.format(SAMPLE), 1, True),
    "and again with it": ("webgpu", TIMES.format(SAMPLE), 1, False),
    "not kept": ("webgpu", TIMES.format(MODERATE), 1, True),
    "no adapter": ("wasm", "this engine has no WebGPU adapter", 0, False),
    "no adapter, which was faster": ("wasm", "this engine has no WebGPU adapter", 0, False),
    "no device": ("wasm", "WebGPU failed: the WebGPU adapter gives no device.*", 0, False),
    "no device, which was faster": ("wasm", "WebGPU failed: the WebGPU adapter gives no device.*", 0, False),
    "a shader that does not compile": ("wasm", "WebGPU failed: the GPU cannot compile a shader.*", 1, False),
    "a shader that does not compile, which was faster": ("wasm", "WebGPU failed: the GPU cannot compile.*", 1, False),
    "a device that is lost": ("wasm", "WebGPU failed: the GPU device is lost.*", 1, True),
    "recovered": ("webgpu", TIMES.format(MODERATE), 1, False),
}
"""The device, the reason, how many devices were opened, and whether runs were timed, by what happens."""


@pytest.fixture(scope="module")
def found(package: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    if find_chromium() is None:
        pytest.skip("needs Chromium")
    folder = tmp_path_factory.mktemp("auto") / "small"
    shutil.copytree(package, folder)
    shutil.copyfile(Path(__file__).with_name("auto.html"), folder / "auto.html")
    report: dict[str, Any] = in_chromium(folder, "auto.html", gpu=True)
    assert report["errors"] == []
    return report


@pytest.mark.parametrize("what", CHOICES)
def test_the_choice(found: dict[str, Any], what: str) -> None:
    device, reason, devices, measured = CHOICES[what]
    choice = found[what]
    assert (choice["device"], choice["devices"], choice["measured"]) == (device, devices, measured)
    assert re.fullmatch(reason, choice["reason"], re.DOTALL)
    assert choice["moved"] == 42


def test_what_is_an_error_stays_one(found: dict[str, Any]) -> None:
    assert found["a wrong sample"].startswith("ShapeError: input 'shift' is missing")
    assert found["a device that is lost, which was faster"].startswith("DeviceLostError")
    assert found["aborted"].startswith("AbortError")


def test_without_webgpu(package: Path) -> None:
    report = in_node(package, package.as_uri() + "/", "[model.device, model.deviceReason]")
    assert report["value"] == ["wasm", "this engine has no WebGPU"]


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

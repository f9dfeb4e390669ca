"""The test cases of the device interface, run with the WebGPU driver in Chromium."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bench.browser import find_chromium, in_chromium
from deploykit import runtime
from deploykit.basics.toolchain import find_wasm_compiler
from deploykit.targets.webgpu.scripts import limits

HERE = Path(__file__).parent

OPTIONS = ("-O2", "-fno-builtin", "-Wl,--import-memory", "-Wl,--initial-memory=67108864")


CASES = ("kept", "windows", "bytes", "order", "apart", "copies", "large grid", "chain")


@pytest.mark.skipif(find_chromium() is None, reason="needs Chromium")
def test_the_driver_implements_the_interface(tmp_path: Path) -> None:
    headers = (f"-I{runtime.INCLUDE}", f"-I{runtime.WASM_INCLUDE}")
    sources = [HERE / "cases.c", HERE / "cases_web.c", runtime.WASM_GPU, runtime.WASM_LIBC]
    find_wasm_compiler().link_module(sources, tmp_path / "cases.wasm", *OPTIONS, *headers)
    (tmp_path / "runtime").mkdir()
    for module in runtime.JS_MODULES:
        shutil.copyfile(module, tmp_path / "runtime" / module.name)
    (tmp_path / "runtime" / "limits.mjs").write_text(limits())
    shutil.copyfile(HERE / "webgpu.html", tmp_path / "webgpu.html")
    assert in_chromium(tmp_path, "webgpu.html", gpu=True) == {
        **dict.fromkeys((*CASES, "bind groups are kept"), True),
        "not all of them": True,
        "a buffer too large": "MemoryError",
        "a tensor too large": "MemoryError",
        "after both": True,
        "lost": "DeviceLostError",
        "lost before": "DeviceLostError",
        "another device": True,
        # An upload waits for work that reads the same place; a submission has 1024 dispatches at most.
        "submissions": dict.fromkeys(CASES, 1) | {"order": 2, "chain": 3},
    }

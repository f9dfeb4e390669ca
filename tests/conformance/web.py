"""Building packages for the web quickly: with what the device that runs them loads, and no more.

An artifact for the web holds a module for engines without relaxed SIMD, one for those with it, and one with shaders.
Here only the one that is going to be loaded is made, and where no GPU takes part there are no shaders.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from deploykit import onnx_backend, runtime
from deploykit.engines.web.node import find_node, node_options
from deploykit.targets.webgpu import CPU_MODULES, GPU_MODULE, WEBGPU, WebTarget


@contextmanager
def on(device: str) -> Iterator[None]:
    """Let `onnx_backend` build for the web and run in Chromium on `webgpu`, as WebAssembly in node on `wasm`."""
    loaded = GPU_MODULE if device == WEBGPU else _module_of_node()
    onnx_backend.TARGET, onnx_backend.DEVICE = WebTarget([loaded]), device
    try:
        yield
    finally:
        onnx_backend.TARGET, onnx_backend.DEVICE = "host", None


@cache
def _module_of_node() -> str:
    """The name of the module that node loads."""
    modules = runtime.JS_RUNNER.with_name("module.mjs").as_uri()
    script = f"import('{modules}').then((module) => console.log(module.FEATURES.relaxed()))"
    call = [find_node(), *node_options(find_node()), "-e", script]
    relaxed = subprocess.run(call, capture_output=True, text=True, check=True).stdout.strip()
    return CPU_MODULES[relaxed == "true"]

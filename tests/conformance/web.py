"""Building packages for the web quickly: with what the device that runs them loads, and no more.

An artifact for the web holds a module for engines without relaxed SIMD, one for those with it, and one with shaders.
Here only the one that is going to be loaded is made, and where no GPU takes part there are no shaders.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from deploykit import onnx_backend, runtime
from deploykit.compiler.codegen.cpus import Cpu
from deploykit.compiler.profile import WASM
from deploykit.compiler.program.ir import Program
from deploykit.engines.node import find_node, node_options
from deploykit.targets import webgpu
from deploykit.targets.webgpu import GPU_MODULE, MODULES, WEBGPU, WebTarget


@contextmanager
def on(device: str) -> Iterator[None]:
    """Let `onnx_backend` build for the web and run in Chromium on `webgpu`, as WebAssembly in node on `wasm`."""
    onnx_backend.TARGET, onnx_backend.DEVICE = "webgpu", device
    loaded = GPU_MODULE if device == WEBGPU else _module_of_node()
    link, objects, profile = webgpu.link, webgpu._objects, WebTarget.profile

    def objects_loaded(program: Program, name: str, cpu: Cpu, *, fast_math: bool) -> dict[str, bytes]:
        return objects(program, name, cpu, fast_math=fast_math) if name == loaded else {}

    def link_loaded(folder: Path, inputs: Iterable[Path], output: Path, macros: Mapping[str, str | int]) -> None:
        if output.stem == loaded:
            link(folder, inputs, output, macros)
        else:
            output.write_bytes(b"")

    webgpu.link, webgpu._objects = link_loaded, objects_loaded
    if device != WEBGPU:
        WebTarget.profile = lambda *_: WASM  # type: ignore[method-assign]
    try:
        yield
    finally:
        webgpu.link, webgpu._objects, WebTarget.profile = link, objects, profile  # type: ignore[method-assign]
        onnx_backend.TARGET, onnx_backend.DEVICE = "host", None


@cache
def _module_of_node() -> str:
    """The name of the module that node loads."""
    modules = runtime.JS_RUNNER.with_name("module.mjs").as_uri()
    script = f"import('{modules}').then((module) => console.log(module.FEATURES.relaxed()))"
    call = [find_node(), *node_options(find_node()), "-e", script]
    relaxed = subprocess.run(call, capture_output=True, text=True, check=True).stdout.strip()
    return MODULES[relaxed == "true"]

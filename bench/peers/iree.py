"""IREE: its own tools import and compile the ONNX file for this machine's CPU, with the dims of the file.

The compiled file is put beside the model file and reused.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx

from deploykit.checks.reference import Runner
from deploykit.errors import UnsupportedModelError

_LONGEST_SECONDS = 300
_OPSET = 17
"""The least opset that the importer accepts."""


def load(model: Path, threads: int) -> Runner:
    """Load a model. Raises `UnsupportedModelError`, with the tools' message, if IREE cannot compile it."""
    import iree.runtime as rt

    compiled = model.with_suffix(".vmfb")
    if not compiled.exists():
        with tempfile.TemporaryDirectory() as folder:
            _compile(model, Path(folder)).replace(compiled)
    driver = "local-sync" if threads == 1 else "local-task"
    if threads > 1:
        rt.flags.parse_flags(f"--task_topology_group_count={threads}")
    config = rt.Config(driver)
    context = rt.SystemContext(config=config)
    context.add_vm_module(rt.VmModule.mmap(context.instance, str(compiled)))
    graph = onnx.load(model, load_external_data=False).graph
    function = getattr(context.modules, "module")[graph.name]  # noqa: B009 - the name of the module
    names = [value.name for value in graph.input]
    outputs = [value.name for value in graph.output]

    def run(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        results = function(*(arrays[name] for name in names))
        several = results if isinstance(results, tuple | list) else (results,)
        return {name: np.asarray(result.to_host()) for name, result in zip(outputs, several, strict=True)}

    return run


def _compile(model: Path, folder: Path) -> Path:
    from iree.compiler.tools import binaries

    imported, compiled = folder / "model.mlir", folder / "model.vmfb"
    importer = [sys.executable, "-m", "iree.compiler.tools.import_onnx"]
    _call("the importer", *importer, str(model), "-o", str(imported), "--opset-version", str(_OPSET))
    compiler = [binaries.find_tool("iree-compile"), str(imported), "-o", str(compiled)]
    device = ("--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu")
    _call("the compiler", *compiler, *device, "--iree-llvmcpu-target-cpu=host", "--iree-opt-level=O3")
    return compiled


def _call(name: str, *call: str) -> None:
    try:
        result = subprocess.run(call, capture_output=True, text=True, check=False, timeout=_LONGEST_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise UnsupportedModelError(f"{name} of IREE took more than {_LONGEST_SECONDS} s") from error
    if result.returncode != 0:
        lines = [line for line in result.stderr.splitlines() if "error" in line] or result.stderr.splitlines()[-1:]
        raise UnsupportedModelError(f"{name} of IREE: {' '.join(lines)[:200]}")

"""IREE: its own tools import and compile the ONNX file for this machine's CPU or for Vulkan, with the dims of the file.

The compiled file is put beside the model file and reused.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from deploykit.checks.reference import Runner
from deploykit.errors import UnsupportedModelError

_LONGEST_SECONDS = 300
_OPSET = 17
"""The least opset that the importer accepts."""

_CPU = (
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-llvmcpu-target-cpu=host",
)
_VULKAN = ("--iree-hal-target-device=vulkan",)


def load(model: Path, threads: int) -> Runner:
    """Load a model on the CPU. Raises `UnsupportedModelError`, with the tools' message, if IREE cannot compile it."""
    import iree.runtime as rt

    compiled = _compiled(model, ".vmfb", _CPU)
    if threads > 1:
        rt.flags.parse_flags(f"--task_topology_group_count={threads}")
    return _runner(model, compiled, "local-sync" if threads == 1 else "local-task")


def load_on_vulkan(model: Path) -> Runner:
    """Load a model on the first device for Vulkan; raises as `load` does. Results are copied here to memory that IREE
    allocates: its `to_host` imports memory of numpy's, which not every driver for Vulkan can."""
    import iree.runtime as rt

    compiled = _compiled(model, ".vulkan.vmfb", _VULKAN)
    device = rt.Config("vulkan").device
    instance = rt.VmInstance()
    module = rt.VmModule.mmap(instance, str(compiled))
    context = rt.VmContext(instance, modules=[rt.create_hal_module(instance, device), module])
    graph = onnx.load(model, load_external_data=False).graph
    function = module.lookup_function(graph.name)
    names = [value.name for value in graph.input]
    outputs = [value.name for value in graph.output]

    def run(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        given, results = rt.VmVariantList(len(names)), rt.VmVariantList(len(outputs))
        for name in names:
            given.push_ref(_placed(device, arrays[name]))
        context.invoke(function, given, results)
        views = [results.get_as_object(place, rt.HalBufferView) for place in range(len(outputs))]
        return {name: _copied(device, view) for name, view in zip(outputs, views, strict=True)}

    return run


def _placed(device: Any, array: np.ndarray) -> Any:
    """An array in the memory of the device."""
    import iree.runtime as rt

    return device.allocator.allocate_buffer_copy(
        memory_type=int(rt.MemoryType.DEVICE_LOCAL),
        allowed_usage=int(rt.BufferUsage.DEFAULT),
        device=device,
        buffer=np.ascontiguousarray(array),
        element_type=rt.array_interop.map_dtype_to_element_type(array.dtype),
    )


def _copied(device: Any, view: Any) -> np.ndarray:
    """A result, in memory of the host."""
    import iree.runtime as rt

    place = device.allocator.allocate_buffer(
        memory_type=int(rt.MemoryType.HOST_LOCAL | rt.MemoryType.DEVICE_VISIBLE),
        allowed_usage=int(rt.BufferUsage.TRANSFER_TARGET | rt.BufferUsage.MAPPING_SCOPED),
        allocation_size=view.byte_length,
    )
    done = device.create_semaphore(0)
    before, after = rt.HalFence.create_at(done, 0), rt.HalFence.create_at(done, 1)
    device.queue_copy(view.get_buffer(), place, wait_semaphores=before, signal_semaphores=after)
    after.wait()
    dtype = rt.HalElementType.map_to_dtype(view.element_type)
    return np.array(place.map().asarray(view.shape, dtype))


def _runner(model: Path, compiled: Path, driver: str) -> Runner:
    import iree.runtime as rt

    context = rt.SystemContext(config=rt.Config(driver))
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


def _compiled(model: Path, suffix: str, device: Sequence[str]) -> Path:
    """The compiled file beside the model file, which is made if it is not there."""
    compiled = model.with_suffix(suffix)
    if not compiled.exists():
        with tempfile.TemporaryDirectory() as folder:
            shutil.move(_compile(model, Path(folder), device), compiled)
    return compiled


def _compile(model: Path, folder: Path, device: Sequence[str]) -> Path:
    from iree.compiler.tools import binaries

    imported, compiled = folder / "model.mlir", folder / "model.vmfb"
    importer = [sys.executable, "-m", "iree.compiler.tools.import_onnx"]
    _call("the importer", *importer, str(model), "-o", str(imported), "--opset-version", str(_OPSET))
    compiler = [binaries.find_tool("iree-compile"), str(imported), "-o", str(compiled)]
    _call("the compiler", *compiler, *device, "--iree-opt-level=O3")
    return compiled


def _call(name: str, *call: str) -> None:
    try:
        result = subprocess.run(call, capture_output=True, text=True, check=False, timeout=_LONGEST_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise UnsupportedModelError(f"{name} of IREE took more than {_LONGEST_SECONDS} s") from error
    if result.returncode != 0:
        lines = [line for line in result.stderr.splitlines() if "error" in line] or result.stderr.splitlines()[-1:]
        raise UnsupportedModelError(f"{name} of IREE: {' '.join(lines)[:200]}")

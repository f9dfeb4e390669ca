"""Makes an engine for a shared library: in this process, or under an emulator if it is for another kind of CPU."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from deploykit.artifact.manifest import Manifest
from deploykit.engines import Engine
from deploykit.engines.native.auto import AUTO, Auto
from deploykit.engines.native.emulated import emulated, machine_of
from deploykit.engines.native.functions import Functions, once
from deploykit.engines.native.gpu import GpuOptions, chosen
from deploykit.engines.native.in_process import InProcess
from deploykit.engines.native.loaded import Loaded
from deploykit.engines.native.on_gpu import OnGpu, open_gpu
from deploykit.engines.native.process import Process
from deploykit.engines.native.profiled import Profiled, ProfiledOnGpu, build_profiled
from deploykit.engines.native.stream import Stream
from deploykit.errors import UsageError

if TYPE_CHECKING:
    from deploykit.engines import EngineOptions


CPU = "cpu"
"""The device that every artifact for this machine has."""


def load_library(
    library: Path,
    sources: Sequence[Path],
    folder: Path,
    manifest: Manifest,
    scratch: Path,
    options: EngineOptions,
) -> Engine:
    """An engine for `library`, which was built from `sources`; programs for an emulator are built in `scratch`.

    Raises `ToolchainError`, `ArtifactError`, `DeviceError`, and `UsageError` if the library does not support the
    threads, the CPU or the device of `options`.
    """
    threads, cpu = options.threads, options.cpu
    machine = machine_of(library)
    if options.device == AUTO and machine == platform.machine():
        return Auto(
            manifest,
            {
                name: partial(load_library, library, sources, folder, manifest, scratch, replace(options, device=name))
                for name in (CPU, *manifest.devices)
            },
        )
    if options.device not in (None, CPU):
        if machine != platform.machine():
            raise UsageError(f"the artifact is for {machine}: under an emulator it runs on the CPU only")
        return load_on_gpu(library, folder, manifest, options.device, options)
    if machine == platform.machine():
        return load_on_cpu(library, folder, manifest, options)
    if threads > 1 or cpu is not None:
        raise UsageError(f"the artifact is for {machine}: under an emulator it has one thread and no choice of kernels")
    start = once(lambda part: Process(sources, folder, part, scratch, emulated(machine)))
    return Functions(manifest, start, most=options.lanes)


def load_on_cpu(library: Path, folder: Path, manifest: Manifest, options: EngineOptions, where: str = "") -> Functions:
    """An engine for `library` in this process. Raises `ArtifactError`, and `UsageError` if the library does not support
    the threads or the CPU."""
    loaded = once(lambda part: Loaded(library, folder, part, options.threads, options.cpu))
    return Functions(
        manifest,
        lambda part: InProcess(loaded(part)),
        lambda part: Stream(loaded(part)),
        where=where,
        most=options.lanes,
    )


def load_profiled(
    sources: Sequence[Path], folder: Path, manifest: Manifest, scratch: Path, options: EngineOptions
) -> Profiled | ProfiledOnGpu:
    """An engine that times steps, for an artifact on the CPU made of `sources`, or on a device; built in `scratch`.

    Raises what `load_library` raises."""
    if options.device in (None, CPU):
        library = build_profiled(sources, scratch)
        return Profiled(Loaded(library, folder, manifest, options.threads, options.cpu), folder)
    driver, wanted = _driver(manifest, options.device, options)
    library = build_profiled([*folder.glob("*.c"), *folder.glob("*.o")], scratch)
    return ProfiledOnGpu(
        library, folder, manifest, options.threads, open_gpu(library, folder, manifest, driver, wanted)
    )


def load_on_gpu(library: Path, folder: Path, manifest: Manifest, device: str, options: EngineOptions) -> Engine:
    """An engine for `library` on a device, such as `vulkan` or `vulkan:2`, in this process.

    Raises `DeviceError` if it cannot be opened, and `UsageError` if the artifact was not built for it."""
    driver, wanted = _driver(manifest, device, options)
    gpu = open_gpu(library, folder, manifest, driver, wanted)
    try:
        where = f"the library for {platform.machine()}, on {gpu.name} through {driver}"
        return Functions(
            manifest, lambda part: OnGpu(library, folder, part, options.threads, gpu), finish=gpu.close, where=where
        )
    except BaseException:
        gpu.close()
        raise


def _driver(manifest: Manifest, device: str, options: EngineOptions) -> tuple[str, GpuOptions]:
    """The driver and the adapter of a device that the artifact was built for."""
    driver, wanted = chosen(device)
    if driver not in manifest.devices:
        built = f"it was built for {', '.join((CPU, *manifest.devices))}"
        raise UsageError(f"'{manifest.name}' does not run on the device '{driver}': {built} (build --device)")
    if options.cpu is not None:
        raise UsageError("a model on a GPU has no choice of kernels for CPUs")
    return driver, wanted

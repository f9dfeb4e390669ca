"""Lists the GPUs of this machine, through the drivers that artifacts hold."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from deploykit import runtime
from deploykit.artifact.devices import CODE
from deploykit.basics.scratch import Scratch
from deploykit.basics.toolchain import compiled, find_c_compiler
from deploykit.engines.native.gpu import FEATURES, KINDS, CAdapter, listed
from deploykit.engines.native.library import load


@dataclass(frozen=True)
class Adapter:
    """A GPU under one driver. `number` chooses it: `vulkan:1` is the first one. `features` are what kernels have forms
    for. Sizes are in bytes. `unusable` says why it cannot run kernels, None if it can."""

    device: str
    number: int
    name: str
    driver: str
    kind: str
    features: tuple[str, ...]
    subgroup: int
    memory_bytes: int
    buffer_bytes: int
    binding_bytes: int
    unusable: str | None


@cache
def adapters(driver: str) -> tuple[Adapter, ...]:
    """The adapters that a driver finds; none where the system's library is missing.

    Raises `ToolchainError` if there is no C compiler."""
    found, _ = listed(_drivers(), driver)
    return tuple(_adapter(driver, number, each) for number, each in enumerate(found, start=1))


def why_none(driver: str) -> str:
    """Why a driver finds no adapters."""
    return listed(_drivers(), driver)[1]


def _adapter(device: str, number: int, found: CAdapter) -> Adapter:
    return Adapter(
        device=device,
        number=number,
        name=found.name.decode(errors="replace"),
        driver=found.driver.decode(errors="replace"),
        kind=KINDS[found.kind],
        features=tuple(name for bit, name in FEATURES.items() if found.features & bit),
        subgroup=found.subgroup,
        memory_bytes=found.memory_bytes,
        buffer_bytes=found.buffer_bytes,
        binding_bytes=found.binding_bytes,
        unusable=found.unusable and found.unusable.decode(),
    )


@cache
def _drivers() -> ctypes.CDLL:
    """A library with the drivers."""
    compiler = find_c_compiler()
    sources = [path for path in runtime.gpu_sources(CODE, instances=False) if path.suffix == ".c"]
    with Scratch() as folder:
        objects = []
        for source in (path for path in sources if path != runtime.DRIVER):
            objects.append(Path(folder) / f"{source.stem}.o")
            objects[-1].write_bytes(compiled(compiler, source, "-O2", "-fPIC", f"-I{runtime.INCLUDE}"))
        library = Path(folder) / "libdrivers.so"
        compiler.link_shared(objects, library, "-ldl")
        return load(library)

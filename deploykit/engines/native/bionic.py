"""Runs a library for Android on a Linux system with the GNU C library, which has all functions that the library calls.

The library asks for Android's C library by a name that means something else here. `without_needed` removes the request;
the functions are then found in the process that loads the library.
"""

from __future__ import annotations

import os
import platform
import shutil
import struct
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from deploykit.artifact.manifest import Manifest
from deploykit.basics.toolchain import find_cross_compiler
from deploykit.engines import Engine, EngineOptions
from deploykit.engines.native.auto import AUTO, Auto
from deploykit.engines.native.functions import Functions, once
from deploykit.engines.native.loading import CPU, load_on_cpu, load_on_gpu
from deploykit.engines.native.process import Build, Process
from deploykit.errors import ArtifactError, ToolchainError, UsageError

_SYSTEMS = {
    "aarch64": ("qemu-aarch64", "aarch64", "gnu", "/usr/aarch64-linux-gnu"),
    "arm": ("qemu-arm", "arm", "gnueabi", "/usr/arm-linux-gnueabi"),
    "x86_64": ("qemu-x86_64", "x86_64", "gnu", "/"),
}
"""By machine: the emulator, how a compiler is called, and where Debian puts the C library for it."""

C_LIBRARIES = {"aarch64": "libc6-dev-arm64-cross", "arm": "libc6-dev-armel-cross", "x86_64": "libc6"}
"""Debian's packages with the C library of each machine, without which an emulator runs nothing."""

_DYNAMIC, _NEEDED, _IGNORED = 2, 1, 21
"""Types in ELF files: the segment of dynamic entries, the name of a library, and an entry that loaders ignore."""


def without_needed(library: bytes) -> bytes:
    """A shared library that asks for no other one. Raises `ArtifactError` for other data."""
    if not library.startswith(b"\x7fELF"):
        raise ArtifactError("not a shared library in the ELF format")
    wide = library[4] == 2
    start, size, count = struct.unpack_from("<Q14xHH" if wide else "<I10xHH", library, 32 if wide else 28)
    entry = struct.Struct("<qQ" if wide else "<iI")
    changed = bytearray(library)
    for at in range(start, start + size * count, size):
        if struct.unpack_from("<I", library, at)[0] != _DYNAMIC:
            continue
        fields = struct.unpack_from("<8xQ16xQ" if wide else "<4xI8xI", library, at)
        for place in range(fields[0], fields[0] + fields[1], entry.size):
            tag, value = entry.unpack_from(library, place)
            if tag == _NEEDED:
                entry.pack_into(changed, place, _IGNORED, value)
    return bytes(changed)


def open_bionic(
    machine: str,
    library: Path,
    include: Path,
    folder: Path,
    manifest: Manifest,
    scratch: Path,
    options: EngineOptions,
) -> Engine:
    """An engine for a library for `machine` (as in `platform.machine`, or `arm`), with its headers in `include` and its
    weights and the code of its kernels for GPUs in `folder`. It runs in this process, or else under an emulator, with a
    program built in `scratch`.

    Raises `ToolchainError`, `ArtifactError`, `DeviceError`, and `UsageError` if that supports neither the threads nor
    the device."""
    adapted = scratch / library.name
    if not adapted.exists():  # an earlier engine may still have it in memory
        adapted.write_bytes(without_needed(library.read_bytes()))
    if machine == platform.machine() and options.device not in (None, CPU):
        return _on_device(adapted, folder, manifest, options.device, options)
    if options.device not in (None, CPU):
        raise UsageError(f"the library is for {machine}: under an emulator it runs on the CPU only")
    if machine == platform.machine():
        return _on_cpu(adapted, folder, manifest, options)
    if options.threads > 1:
        raise UsageError(f"the library is for {machine}: under an emulator it has one thread")
    build = _emulated(machine, adapted, include)
    where = f"the library for {machine}, under {Path(build.launcher[0]).name}"
    start = once(lambda part: Process([], folder, part, scratch, build))
    return Functions(manifest, start, where=where, most=options.lanes)


def _on_cpu(library: Path, folder: Path, manifest: Manifest, options: EngineOptions) -> Engine:
    where = f"the library for {platform.machine()}, in this process"
    return load_on_cpu(library, folder, manifest, replace(options, cpu=None), where)


def _on_device(library: Path, folder: Path, manifest: Manifest, device: str, options: EngineOptions) -> Engine:
    """An engine on a GPU of this machine, or with the device `auto` on the fastest of its devices."""
    if device != AUTO:
        return load_on_gpu(library, folder, manifest, device, options)
    starts = {name: partial(load_on_gpu, library, folder, manifest, name, options) for name in manifest.devices}
    return Auto(manifest, {CPU: lambda: _on_cpu(library, folder, manifest, options), **starts})


def has_c_library(machine: str) -> bool:
    """Whether an emulator of a machine finds the C library for it."""
    return Path(_SYSTEMS[machine][3], "lib").is_dir()


def can_run(machine: str) -> bool:
    """Whether libraries for a machine run here."""
    return machine == platform.machine() or (shutil.which(_SYSTEMS[machine][0]) is not None and has_c_library(machine))


def first_that_runs(machines: Sequence[str]) -> str:
    """The first machine whose libraries run here, this machine itself before all others. Raises `ToolchainError`."""
    for machine in sorted(machines, key=lambda name: name != platform.machine()):
        if can_run(machine):
            return machine
    raise ToolchainError(
        "to run a library for Android here, install QEMU's user mode emulation and a C library "
        "(Debian: `apt-get install qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross`)"
    )


def _emulated(machine: str, library: Path, include: Path) -> Build:
    """A build of a program that loads `library`, started under QEMU."""
    emulator, name, libc, root = _SYSTEMS[machine]
    path = shutil.which(emulator)
    if path is None:
        raise ToolchainError(f"the library is for {machine}: to run it here, install QEMU (Debian: qemu-user)")
    if not has_c_library(machine):
        install = f"Debian: `apt-get install {C_LIBRARIES[name]}`"
        raise ToolchainError(f"the library is for {machine}: to run it here, QEMU needs a C library for it ({install})")
    compiler = find_cross_compiler(name, libc)
    link = (os.fspath(library), f"-Wl,-rpath,{os.fspath(library.parent)}")
    return Build(compiler, (f"-I{include}",), link, (path, "-L", root))

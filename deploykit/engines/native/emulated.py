"""Running a model for another kind of CPU under QEMU's user mode emulation, in a process of its own.

The program is linked statically, so that it needs nothing of the other system but its compiler.
"""

from __future__ import annotations

import platform
import shutil
from pathlib import Path

from deploykit.engines.native.process import Build
from deploykit.errors import ArtifactError, ToolchainError
from deploykit.toolchain import find_cross_compiler

MACHINES = {62: "x86_64", 183: "aarch64"}
"""Machines by their number in ELF files."""

_MACHINE_OFFSET = 18


def machine_of(library: Path) -> str:
    """The kind of CPU that a shared library is for, as `platform.machine` names it; this one for other formats.

    Raises `ArtifactError` for an ELF file for a CPU that is not known.
    """
    with library.open("rb") as file:
        header = file.read(_MACHINE_OFFSET + 2)
    if not header.startswith(b"\x7fELF"):
        return platform.machine()
    number = int.from_bytes(header[_MACHINE_OFFSET:], "little")
    if number not in MACHINES:
        raise ArtifactError(f"{library} is for machine {number} of the ELF format, which is not known here")
    return MACHINES[number]


def emulated(machine: str) -> Build:
    """With a compiler and QEMU for `machine`. Raises `ToolchainError` when one is missing."""
    emulator = shutil.which(f"qemu-{machine}") or shutil.which(f"qemu-{machine}-static")
    if emulator is None:
        raise ToolchainError(
            f"the artifact is for {machine}, this machine is {platform.machine()}: to run it here, install QEMU's user "
            "mode emulation (Debian: `apt-get install qemu-user`)"
        )
    return Build(find_cross_compiler(machine, "musl"), (), link=("-static",), launcher=(emulator,))

"""Runs a model for another kind of CPU under QEMU's user mode emulation, in a process of its own.

The program is linked statically, so that it needs no libraries of the other system.
"""

from __future__ import annotations

import platform
import shutil
from pathlib import Path

from deploykit.basics.toolchain import find_cross_compiler
from deploykit.engines.native.process import Build
from deploykit.errors import ArtifactError, ToolchainError

MACHINES = {62: "x86_64", 183: "aarch64"}
"""Machine names by their number in ELF files."""

_MACHINE_OFFSET = 18


def machine_of(library: Path) -> str:
    """The kind of CPU that a shared library is for, named as in `platform.machine`.

    For formats other than ELF it is that of this machine. Raises `ArtifactError` for an ELF file for an unknown CPU.
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
    """A build with a compiler for `machine`, started under QEMU. Raises `ToolchainError` if one of them is missing."""
    emulator = shutil.which(f"qemu-{machine}") or shutil.which(f"qemu-{machine}-static")
    if emulator is None:
        raise ToolchainError(
            f"the artifact is for {machine}, this machine is {platform.machine()}: to run it here, install QEMU's user "
            "mode emulation (Debian: `apt-get install qemu-user`)"
        )
    return Build(find_cross_compiler(machine, "musl"), (), link=("-static",), launcher=(emulator,))

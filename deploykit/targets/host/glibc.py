"""Makes a library run with old versions of the GNU C library, too.

A linker takes each function in the newest version that this machine has, so a library linked on a new system does not
load on an older one: `pthread_create` has a new version since 2.34, `exp` since 2.29, `fmod` since 2.38. All have kept
their first version, and no source depends on what changed.

ziglang links for the version that its target names. Any other compiler gets libraries that have the functions in their
first version only, before those of the system. A linker ignores a second library of a name. `.symver` in the sources
would not do: it does not reach the kernels, libraries with static linking refuse it, and a system older than 2.34 also
needs the name of the library that held the function then.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from pathlib import Path

from deploykit.basics.toolchain import Compiler
from deploykit.targets.stubs import LOADER, MATHEMATICS, stub

_FIRST: Mapping[str, str] = {"x86_64": "GLIBC_2.2.5", "aarch64": "GLIBC_2.17"}
"""The first version of the C library for a machine, which all functions below have."""

_LIBRARIES = {
    "libm.so.6": MATHEMATICS,
    "libpthread.so.0": ("pthread_create", "pthread_join"),
    "libdl.so.2": LOADER,
}


def old_libraries(compiler: Compiler, machine: str, folder: Path) -> list[Path]:
    """Libraries to link before those of the system, written into `folder`. There are none for ziglang, and none if the
    C library is another one."""
    foreign = machine == platform.machine() and platform.libc_ver()[0] != "glibc"
    if foreign or compiler.family == "zig" or machine not in _FIRST:
        return []
    paths = [folder / file for file in _LIBRARIES]
    for path in paths:
        path.write_bytes(stub(compiler, path.name, _LIBRARIES[path.name], version=_FIRST[machine]))
    return paths

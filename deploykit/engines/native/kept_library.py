"""Parts of the runtime for Python itself: sources that are compiled once.

Such a library is kept among the files that deploykit keeps between processes, under a name that depends on the sources
and on how they are compiled; later processes need no compiler. The library of an artifact for this machine may have the
same functions.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import platform
from collections.abc import Sequence
from pathlib import Path

from deploykit import runtime
from deploykit.basics.caches import cache_folder
from deploykit.basics.scratch import Scratch
from deploykit.basics.toolchain import find_c_compiler
from deploykit.basics.whole_file import whole_file
from deploykit.engines.native.emulated import machine_of
from deploykit.engines.native.library import load
from deploykit.errors import ArtifactError


def kept_library(name: str, sources: Sequence[Path]) -> ctypes.CDLL:
    """The library of these C files and headers, from an earlier process or compiled now. Raises `ToolchainError` if it
    must be compiled and there is no C compiler."""
    place = _place(name, sources)
    return _loaded(place) or _compiled(sources, place)


def library_with(folder: Path, symbol: str) -> ctypes.CDLL | None:
    """The library of an artifact, if it runs on this machine and exports this function."""
    for path in folder.glob("lib*.so"):
        with contextlib.suppress(ArtifactError):
            if machine_of(path) == platform.machine() and hasattr(found := load(path), symbol):
                return found
    return None


def _place(name: str, sources: Sequence[Path]) -> Path | None:
    """Where a library is kept; None if there is no such place."""
    folder = cache_folder()
    if folder is None:
        return None
    digest = hashlib.sha256()
    for source in (*sources, *sorted(runtime.INCLUDE.glob("*.h"))):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    settings = (os.environ.get("CC"), os.environ.get("CFLAGS"), platform.machine(), platform.libc_ver())
    digest.update(repr(settings).encode())
    return folder / f"{name}-{digest.hexdigest()[:32]}.so"


def _loaded(place: Path | None) -> ctypes.CDLL | None:
    """The library that an earlier process compiled; None if there is none that can be loaded."""
    try:
        return None if place is None or not place.exists() else load(place)
    except ArtifactError:
        return None


def _compiled(sources: Sequence[Path], place: Path | None) -> ctypes.CDLL:
    """The library, compiled, and kept for later processes."""
    compiler = find_c_compiler()
    with Scratch() as folder:
        objects = []
        for source in sources:
            if source.suffix == ".c":
                objects.append(Path(folder) / f"{source.stem}.o")
                compiler.compile(source, objects[-1], "-O2", "-fPIC", f"-I{runtime.INCLUDE}")
        library = Path(folder) / "kept.so"
        compiler.link_shared(objects, library, "-lm")
        if place is not None:
            _keep(library, place)
        return load(library)


def _keep(library: Path, place: Path) -> None:
    """Copy a library to its place, whole or not at all. Without room for it, later processes compile it again."""
    with contextlib.suppress(OSError), whole_file(place) as file:
        file.write(library.read_bytes())

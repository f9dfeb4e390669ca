"""The runtime of models with answers as programs and libraries for this machine."""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

from deploykit import runtime
from deploykit.basics.toolchain import compiled, find_c_compiler
from deploykit.engines.native.sanitized import SANITIZERS
from deploykit.targets.answers import INCLUDED

STRICT = ("-O1", "-D_ISOC11_SOURCE", "-Wall", "-Wextra", "-Wpedantic", "-Wcast-qual", "-Wshadow", "-Werror")

_PLACES = tuple(f"-I{path}" for path in (runtime.INCLUDE, *INCLUDED))


def program(source: Path, further: Iterable[Path], place: Path) -> Path:
    """A program that sanitizers watch, from a source of tests and those of the runtime."""
    compiler, objects = find_c_compiler(), []
    for path in (source, *further):
        objects.append(place / f"{path.stem}.o")
        compiler.compile(path, objects[-1], *STRICT, *SANITIZERS, *_PLACES)
    compiler.link_program(objects, place / source.stem, *SANITIZERS)
    return place / source.stem


def output_of(path: Path, given: bytes) -> bytes:
    """What a program writes."""
    own = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}
    done = subprocess.run([str(path)], input=given, capture_output=True, check=False, env=own)
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    return done.stdout


def library(sources: Iterable[Path], place: Path) -> ctypes.CDLL:
    """A library of sources of the runtime."""
    compiler, objects = find_c_compiler(), []
    for path in sources:
        objects.append(place / f"{path.stem}.o")
        objects[-1].write_bytes(compiled(compiler, path, "-O2", "-fPIC", *_PLACES))
    compiler.link_shared(objects, place / "library.so")
    return ctypes.CDLL(str(place / "library.so"))

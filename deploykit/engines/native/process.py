"""Runs a model in a process of its own.

The program is built from the artifact's sources and `runner.c`. It reads the inputs from its standard input and writes
the outputs to its standard output.
"""

from __future__ import annotations

import os
import struct
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path

import numpy as np

from deploykit import runtime
from deploykit.artifact.manifest import Manifest
from deploykit.basics.dtypes import logical_dtype
from deploykit.basics.toolchain import Compiler, compile_shared
from deploykit.engines import failure
from deploykit.errors import DeploykitError

_CORE = frozenset(source.name for source in runtime.CORE)


@dataclass(frozen=True)
class Build:
    """How the program is built and started. `options` are for compiling and linking, `link` for linking only.
    `launcher` is put before the program's name, and `environment` is added to this process's environment."""

    compiler: Compiler
    options: tuple[str, ...]
    link: tuple[str, ...] = ()
    launcher: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


def started(build: Build, *options: str) -> Build:
    """The build with further options of its launcher."""
    return replace(build, launcher=(*build.launcher, *options))


class Process:
    """The model made of `sources`, the C files and objects of an artifact folder; built in `scratch`.

    Raises `ToolchainError` if it cannot be built.
    """

    def __init__(self, sources: Sequence[Path], folder: Path, manifest: Manifest, scratch: Path, build: Build) -> None:
        self._manifest = manifest
        self._state: np.ndarray | None = None
        self._weights = folder / "weights.bin"
        program = scratch / f"run_{manifest.prefix}"
        self._command = [*build.launcher, str(program)]
        self._environment = os.environ | build.environment
        _build(sources, folder, manifest, program, build)

    def run(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        request = b"".join(_request(array) for array in inputs)
        if self._state is not None:
            request = _request(self._state) + request
        reply = self._call(["run", str(self._weights)], request)
        (status,) = struct.unpack_from("<q", reply)
        if status != 0:
            raise failure(status, reply[8:].decode("utf-8", "replace"))
        outputs, at = [], 8
        if self._state is not None:
            self._state[:], at = read_array(reply, at, self._state.dtype)
        for port in self._manifest.outputs:
            array, at = read_array(reply, at, logical_dtype(port.dtype).storage)
            outputs.append(array)
        return outputs

    def new_state(self, sizes: Mapping[str, int]) -> np.ndarray:
        """A new block of states, all zeros; `sizes` gives their sizes by the names of dims."""
        dims = [str(sizes.get(dim.name, dim.minimum)) for dim in self._manifest.dims]
        return np.frombuffer(self._call(["state", *dims], b""), np.uint8).copy()

    def set_state(self, block: np.ndarray) -> None:
        """Use this block of states from now on."""
        self._state = block

    def arena_bytes(self, dims: Sequence[int]) -> int:
        return int(self._call(["arena", *map(str, dims)], b""))

    @property
    def memory(self) -> int:
        """None in this process."""
        return 0

    def close(self) -> None:
        """Do nothing: the process of a run ends with the run."""

    def _call(self, arguments: list[str], request: bytes) -> bytes:
        """Start the program and return its output. Raises `DeploykitError` with its message if it fails."""
        call = [*self._command, *arguments]
        result = subprocess.run(call, input=request, capture_output=True, check=False, env=self._environment)
        self._require(result)
        return result.stdout

    def _require(self, result: subprocess.CompletedProcess[bytes]) -> None:
        """Raise `DeploykitError` with the program's message if it failed."""
        if result.returncode != 0:
            words = result.stderr.decode("utf-8", "replace").strip() or f"exit code {result.returncode}"
            raise DeploykitError(f"the model '{self._manifest.name}' is faulty:\n{words}")


def _build(sources: Sequence[Path], folder: Path, manifest: Manifest, program: Path, build: Build) -> None:
    options = [
        "-O1",
        *build.options,
        *build.compiler.threads,
        *_headers(folder, sources),
        f"-DDK_PREFIX={manifest.prefix}",
    ]
    options.append(f"-DDK_SHARED_PREFIX={manifest.shared_prefix or manifest.prefix}")
    if manifest.states is not None:
        options.append("-DDK_STATES")
    if any(source.name == "weights.c" for source in sources):
        options.append("-DDK_WEIGHTS_C")
    objects = []
    for source in (*sources, runtime.RUNNER):
        made = source
        if source.suffix == ".c":
            made = program.with_name(f"{source.stem}.o")
        if source.name in _CORE:
            compile_shared(build.compiler, source, made, "-O1", *build.options, *build.compiler.threads)
        elif source.suffix == ".c":
            build.compiler.compile_kept(source, made, *options, *(("-O0",) if source.name == "weights.c" else ()))
        objects.append(made)
    build.compiler.link_program(objects, program, *build.options, *build.link)


def _headers(folder: Path, sources: Sequence[Path]) -> list[str]:
    """Where headers are, as options."""
    return [f"-I{place}" for place in dict.fromkeys((folder, *(source.parent for source in sources)))]


def _request(array: np.ndarray) -> bytes:
    return struct.pack(f"<{array.ndim + 2}q", array.ndim, *array.shape, array.nbytes) + array.tobytes()


def read_array(reply: bytes, at: int, storage: np.dtype[np.generic]) -> tuple[np.ndarray, int]:
    """The array whose rank is at a place of a reply, and the place after it."""
    (rank,) = struct.unpack_from("<q", reply, at)
    shape = struct.unpack_from(f"<{rank}q", reply, at + 8)
    start = at + 8 * (rank + 2)
    array = np.frombuffer(reply, storage, prod(shape), start).reshape(shape).copy()
    return array, start + array.nbytes

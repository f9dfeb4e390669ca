"""Running a model in a process of its own, instrumented to stop at the first read or write outside its memory and at
undefined behaviour. Slow; objects without C source are linked as they are.
"""

from __future__ import annotations

import os
import struct
import subprocess
from collections.abc import Sequence
from math import prod
from pathlib import Path

import numpy as np

from deploykit import runtime
from deploykit.dtypes import logical_dtype
from deploykit.engines import failure
from deploykit.errors import DeploykitError
from deploykit.manifest import Manifest
from deploykit.toolchain import find_c_compiler

SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-g1")

_ENVIRONMENT = {"ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "print_stacktrace=1"}


class Sanitized:
    """The model of `sources`, C files and objects of an artifact folder, built in `scratch`.

    Raises `ToolchainError` when the compiler has no sanitizers.
    """

    def __init__(self, sources: Sequence[Path], folder: Path, manifest: Manifest, scratch: Path) -> None:
        self._manifest = manifest
        self._weights = folder / "weights.bin"
        self._program = scratch / "runner"
        _build(sources, folder, manifest.prefix, self._program)

    def run(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        request = b"".join(_request(array) for array in inputs)
        reply = self._call(["run", str(self._weights)], request)
        (status,) = struct.unpack_from("<q", reply)
        if status != 0:
            raise failure(status, reply[8:].decode("utf-8", "replace"))
        outputs, at = [], 8
        for port in self._manifest.outputs:
            array, at = _output(reply, at, logical_dtype(port.dtype).storage)
            outputs.append(array)
        return outputs

    def arena_bytes(self, dims: Sequence[int]) -> int:
        return int(self._call(["arena", *map(str, dims)], b""))

    def close(self) -> None:
        """The process of a run ends with it."""

    def _call(self, arguments: list[str], request: bytes) -> bytes:
        """Raises `DeploykitError` with what the sanitizers say."""
        call = [str(self._program), *arguments]
        result = subprocess.run(call, input=request, capture_output=True, check=False, env=os.environ | _ENVIRONMENT)
        if result.returncode != 0:
            words = result.stderr.decode("utf-8", "replace").strip()
            raise DeploykitError(f"the model '{self._manifest.name}' is faulty:\n{words}")
        return result.stdout


def _build(sources: Sequence[Path], folder: Path, prefix: str, program: Path) -> None:
    compiler = find_c_compiler()
    options = [*SANITIZERS, "-O1", "-pthread", f"-I{folder}", f"-DDK_PREFIX={prefix}"]
    if any(source.name == "weights.c" for source in sources):
        options.append("-DDK_WEIGHTS_C")
    objects = []
    for source in (*sources, runtime.RUNNER):
        made = source
        if source.suffix == ".c":
            made = program.with_name(f"{source.stem}.o")
            compiler.compile(source, made, *options, *(("-O0",) if source.name == "weights.c" else ()))
        objects.append(made)
    compiler.link_program(objects, program, *SANITIZERS)


def _request(array: np.ndarray) -> bytes:
    return struct.pack(f"<{array.ndim + 2}q", array.ndim, *array.shape, array.nbytes) + array.tobytes()


def _output(reply: bytes, at: int, storage: np.dtype[np.generic]) -> tuple[np.ndarray, int]:
    (rank,) = struct.unpack_from("<q", reply, at)
    shape = struct.unpack_from(f"<{rank}q", reply, at + 8)
    start = at + 8 * (rank + 2)
    array = np.frombuffer(reply, storage, prod(shape), start).reshape(shape).copy()
    return array, start + array.nbytes

"""Runs the Java classes of an AAR on a JVM of this machine, with the library for its CPU.

The program is `templates/desktop/Runner.java`, in a process that lives as long as the session. A request is the number
of a function (32 bits), how many tensors it takes (32) and the tensors; or -1, how many sizes states have (32) and the
sizes (64 each), which makes the states zeros. A reply is a 0 and the tensors of the outputs, or a 1 and an error.
Numbers are big-endian, the elements of tensors little-endian:

    tensor     the number of its type (requests only, 8 bits), rank (32), sizes (64 each), bytes (32), elements
    error      the name of its class (16 bits of length, text), the message (32 bits of length, text)

The program makes the instances of ragged inputs from their values and lengths, and gives the values of ragged outputs.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from deploykit.artifact.manifest import Manifest, PortEntry
from deploykit.basics.dtypes import logical_dtype
from deploykit.engines import ELSEWHERE, Engine, EngineOptions, Memory, StreamEngine, no_stream
from deploykit.engines.lanes import Lanes
from deploykit.engines.native.bionic import without_needed
from deploykit.errors import DataError, DeploykitError, DeviceError, ShapeError, ToolchainError, UsageError
from deploykit.sessions.ragged_ports import is_flat
from deploykit.targets.android.jars import INSTALL_HINT
from deploykit.targets.android.java import KINDS
from deploykit.targets.android.java_words import methods, output_words, result_name
from deploykit.targets.templates import render

_TYPES = ("float", "double", "byte", "short", "int", "long")
"""The order of `Tensor.Type`."""

_OPTIONS = ("-Xcheck:jni", "-XX:+DisplayVMOutputToStderr", "-XX:TieredStopAtLevel=1")
"""Of the JVM: check calls of native code, keep words out of replies, start fast."""

_MISUSE = "in native method"
"""What a JVM says, with `-Xcheck:jni`, when native code misuses its interface."""

_ERRORS: Mapping[str, type[DeploykitError]] = {
    "ShapeException": ShapeError,
    "DataException": DataError,
    "DeviceException": DeviceError,
    "MemoryException": UsageError,
}


class OnJvm:
    """The model of an AAR that is unpacked in `place`, with this library. `native` gives an engine that runs the
    library without Java. Threads take turns.

    Raises `ToolchainError` if there is no Java, and what the classes raise when the model is loaded."""

    def __init__(
        self, place: Path, library: Path, manifest: Manifest, options: EngineOptions, native: Callable[[], Engine]
    ) -> None:
        self._manifest = manifest
        self._native = native
        self._functions = {name: manifest.function(name) for name in _names(manifest)}
        java = shutil.which("java")
        if java is None:
            raise ToolchainError(f"to run the classes of an AAR: {INSTALL_HINT}")
        self.where = f"the Java classes, with the library for {library.parent.name}, on {java}"
        library.write_bytes(without_needed(library.read_bytes()))
        source = place / "Runner.java"
        package = _package_of(place / "classes.jar")
        view = {
            "package": package,
            "class": _class_of(manifest),
            "functions": [
                _call(part, method)
                for part, method in zip(self._functions.values(), methods(_names(manifest)), strict=True)
            ],
            "states": len(manifest.states.dims) if manifest.states else None,
        }
        source.write_text(render("deploykit.targets.android", "desktop/Runner.java", view), encoding="utf-8")
        cache = place / "cache"
        cache.mkdir()
        own = [str(place / "assets"), str(options.threads), options.device or "cpu", str(cache)]
        call = [java, *_OPTIONS, f"-Djava.library.path={library.parent}"]
        call += ["-cp", str(place / "classes.jar"), str(source), *own]
        self._words = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the process
        self._process = subprocess.Popen(call, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._words)
        self._check()
        self._process_id = os.getpid()
        self._turns = Lanes(self._here)

    def run(self, inputs: Sequence[np.ndarray], function: str | None = None) -> list[np.ndarray]:
        request = [struct.pack(">ii", list(self._functions).index(function), len(inputs))]
        for array in inputs:
            kind = _TYPES.index(KINDS[array.dtype.name])
            request += [
                struct.pack(f">bi{array.ndim}qi", kind, array.ndim, *array.shape, array.nbytes),
                array.tobytes(),
            ]
        dtypes = [logical_dtype(port.dtype).storage for port in self._functions[function].outputs]
        outputs = self._ask(b"".join(request), dtypes)
        if _MISUSE in (words := self._said()):
            raise DeploykitError(f"the model '{self._manifest.name}' is faulty:\n{words}")
        return outputs

    def arena_bytes(self, dims: Sequence[int], function: str | None = None) -> int:
        engine = self._native()
        try:
            return engine.arena_bytes(dims, function)
        finally:
            engine.close()

    def reset(self, sizes: Mapping[str, int]) -> None:
        if self._manifest.states is None:
            raise UsageError("the model has no states")
        self._ask(struct.pack(f">ii{len(sizes)}q", -1, len(sizes), *sizes.values()))

    @property
    def memory(self) -> Memory:
        return ELSEWHERE

    def stream(self) -> StreamEngine:
        raise no_stream(self._manifest.name)

    def close(self) -> None:
        for process in self._turns.close():
            if process.poll() is None:
                assert process.stdin is not None
                process.stdin.close()
                process.wait()

    def __del__(self) -> None:
        if hasattr(self, "_turns") and self._turns.idle:
            self.close()

    def _here(self) -> subprocess.Popen[bytes]:
        """Java, which two processes cannot talk to at a time."""
        if self._process_id != os.getpid():
            raise UsageError("Java cannot be used in a forked process: open the session there")
        return self._process

    def _ask(self, request: bytes, outputs: Sequence[np.dtype[np.generic]] = ()) -> list[np.ndarray]:
        """Send a request and read the reply, with tensors of these dtypes. Raises the error that it tells. After an
        interruption the rest of a reply would be taken for the next one: Java ends then."""
        with self._turns.one() as process:
            try:
                return self._replied(process, request, outputs)
            except DeploykitError:
                raise
            except BaseException:
                process.kill()
                raise

    def _replied(
        self, process: subprocess.Popen[bytes], request: bytes, outputs: Sequence[np.dtype[np.generic]]
    ) -> list[np.ndarray]:
        assert process.stdin is not None
        try:
            process.stdin.write(request)
            process.stdin.flush()
        except OSError:
            self._fail()
        self._check()
        return [self._output(storage) for storage in outputs]

    def _check(self) -> None:
        """Read the beginning of a reply. Raises the error that it tells."""
        if self._read(1) == b"\0":
            return
        (length,) = struct.unpack(">H", self._read(2))
        name = self._read(length).decode()
        (length,) = struct.unpack(">i", self._read(4))
        raise _ERRORS.get(name, DeploykitError)(self._read(length).decode())

    def _output(self, storage: np.dtype[np.generic]) -> np.ndarray:
        (rank,) = struct.unpack(">i", self._read(4))
        shape = struct.unpack(f">{rank}q", self._read(8 * rank))
        (length,) = struct.unpack(">i", self._read(4))
        return np.frombuffer(self._read(length), storage, prod(shape)).reshape(shape).copy()

    def _read(self, count: int) -> bytes:
        assert self._process.stdout is not None
        data = self._process.stdout.read(count)
        if len(data) < count:
            self._fail()
        return data

    def _fail(self) -> None:
        """Raise `DeploykitError` with what Java said."""
        self._process.wait()
        raise DeploykitError(f"the model '{self._manifest.name}' is faulty:\n{self._said() or 'Java ended'}")

    def _said(self) -> str:
        """The error output of Java."""
        self._words.seek(0)
        return self._words.read().decode("utf-8", "replace").strip()


def _names(manifest: Manifest) -> list[str | None]:
    """The functions; None stands for the only one."""
    return [*(entry.name for entry in manifest.functions)] or [None]


def _call(manifest: Manifest, method: str) -> dict[str, Any]:
    """The call of a function's method: its arguments, and the tensors of its result."""
    numbers = {port.name: index for index, port in enumerate(manifest.inputs)}
    follow = {extent for port in manifest.inputs for extent in port.instance or ()}
    given = [port for port in manifest.inputs if port.name not in follow]
    words = output_words(port.name for port in manifest.outputs)
    return {
        "method": method or "run",
        "result": result_name(method),
        "ragged": any(port.instance for port in given),
        "arguments": [_argument(port, numbers) for port in given],
        "outputs": [
            f"{word}.values()" if port.instance else word for port, word in zip(manifest.outputs, words, strict=True)
        ],
    }


def _argument(port: PortEntry, numbers: Mapping[str, int]) -> str:
    """The argument for an input, of which the tensor and those of lengths are in `inputs`."""
    own = f"inputs[{numbers[port.name]}]"
    if port.instance is None:
        return own
    extents = [f"inputs[{numbers[str(each)]}]" if each in numbers else f"{each}L" for each in port.instance]
    if is_flat(port, numbers):
        return f"flat({', '.join([own, *extents])})"
    return f"Ragged.of({own}, numbers({extents[0]}))"


def _class_of(manifest: Manifest) -> str:
    """The name of the model's class, as the source in Kotlin has it."""
    (path,) = (Path(file.name) for file in manifest.files if file.name.startswith("kotlin/"))
    return path.stem.removesuffix("Coroutines")


def _package_of(jar: Path) -> str:
    """The package of the classes in a jar."""
    with zipfile.ZipFile(jar) as archive:
        paths = [Path(name) for name in archive.namelist() if name.endswith(".class")]
    library = next(path for path in paths if path.stem == "Library")
    return str(library.parent).replace("/", ".")

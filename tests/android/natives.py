"""Native methods of the class `Native` in a process for any kind of CPU, with the Java machine of `jni/machine.c`.

An argument is a number; a `bytearray` or None for an array of bytes; an array of int64 for one of longs; a list of
`Buffer`. The native method changes them in place.
"""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from deploykit.basics.toolchain import find_cross_compiler
from deploykit.engines.native.bionic import without_needed
from deploykit.targets.android.java_words import package_name
from tests.android.conftest import aar_of

SYSTEMS = {
    "arm64-v8a": ("aarch64", "gnu", ("qemu-aarch64", "-L", "/usr/aarch64-linux-gnu")),
    "armeabi-v7a": ("arm", "gnueabi", ("qemu-arm", "-L", "/usr/arm-linux-gnueabi")),
    "x86_64": ("x86_64", "gnu", ()),
}
"""By ABI: how a compiler for Linux on its CPUs is called, and what starts a program."""

MISUSE = 3
"""The exit code of a process that found a call which the Java Native Interface does not allow."""

_TYPES = {
    "int": "I",
    "long": "J",
    "boolean": "Z",
    "void": "V",
    "byte[]": "[B",
    "long[]": "[J",
    "ByteBuffer[]": "[Ljava/nio/ByteBuffer;",
}


def signatures(package: Path) -> dict[str, str]:
    """The native methods of a package's class, as its source declares them."""
    path = aar_of(package)
    with zipfile.ZipFile(path.with_name(f"{path.stem}-sources.jar")) as archive:
        source = next(name for name in archive.namelist() if name.endswith("/Native.java"))
        text = archive.read(source).decode()
    found = re.findall(r"static native (\w+) (\w+)\(([^)]*)\)", text)
    return {
        name: f"({''.join(_TYPES[each.split()[0]] for each in parameters.split(','))}){_TYPES[result]}"
        for result, name, parameters in found
    }


@dataclass(frozen=True)
class Buffer:
    """A direct buffer of the process, and its contents after the last call that had it as an argument."""

    number: int
    array: np.ndarray


class Natives:
    """The native methods of the library for `abi` in an AAR that is unpacked in `place`. `refused` is what the Java
    machine refuses: nothing, "class" or "methods". `version` is what the library returned when it was loaded."""

    def __init__(self, package: Path, abi: str, place: Path, refused: str = "") -> None:
        with zipfile.ZipFile(aar_of(package)) as archive:
            archive.extractall(place)
            (library,) = (place / "jni" / abi).iterdir()
        (self.assets,) = (place / "assets").iterdir()
        library.write_bytes(without_needed(library.read_bytes()))
        methods = place / "methods.txt"
        methods.write_text("".join(f"{name} {types}\n" for name, types in signatures(package).items()))
        *launcher, program = [*SYSTEMS[abi][2], str(_program(abi, place))]
        name = f"{package_name(self.assets.name)}.Native".replace(".", "/")
        call = [*launcher, program, str(library), name, str(methods), refused]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(call, stdin=pipe, stdout=pipe, stderr=pipe)
        self.called: set[str] = set()
        (self.version,) = struct.unpack("<q", self._read(8))

    def __call__(self, name: str, *arguments: Any) -> int:
        self.called.add(name)
        self._send(b"".join([struct.pack("<i", len(name)), name.encode(), *map(_written, arguments)]))
        (result,) = struct.unpack("<q", self._read(8))
        for argument in arguments:
            for each in argument if isinstance(argument, list) else [argument]:
                self._update(each)
        return int(result)

    def buffer(self, array: np.ndarray) -> Buffer:
        """A new buffer with a copy of the elements."""
        self._send(struct.pack("<iq", 0, array.nbytes) + array.tobytes())
        (number,) = struct.unpack("<q", self._read(8))
        return Buffer(number, np.array(array))

    def _send(self, request: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(request)
        self._process.stdin.flush()

    def _update(self, argument: Any) -> None:
        if isinstance(argument, Buffer):
            self._update(argument.array)
        if isinstance(argument, bytearray):
            argument[:] = self._read(len(argument))
        elif isinstance(argument, np.ndarray):
            argument[...] = np.frombuffer(self._read(argument.nbytes), argument.dtype).reshape(argument.shape)

    def _read(self, count: int) -> bytes:
        assert self._process.stdout is not None
        data = self._process.stdout.read(count)
        if len(data) < count:
            code, words = self.end()
            raise EOFError(f"exit code {code}: {words}")
        return data

    def end(self) -> tuple[int, str]:
        """Let the process end. Returns its exit code and what it said."""
        _, words = self._process.communicate()
        return self._process.returncode, words.decode()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


def _written(argument: Any) -> bytes:
    if argument is None:
        return struct.pack("<i", -1)
    if isinstance(argument, int):
        return struct.pack("<q", argument)
    if isinstance(argument, list):
        return struct.pack(f"<i{len(argument)}i", len(argument), *(buffer.number for buffer in argument))
    return struct.pack("<i", len(argument)) + bytes(argument)


def _program(abi: str, place: Path) -> Path:
    machine, libc, _ = SYSTEMS[abi]
    sources = [str(Path(__file__).with_name("jni") / name) for name in ("machine.c", "calls.c")]
    include = Path(str(shutil.which("javac"))).resolve().parents[1] / "include"
    compiler = find_cross_compiler(machine, libc).command
    warnings = ("-std=c99", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Wpedantic", "-Werror")
    places = (f"-I{include}", f"-I{include / 'linux'}")
    program = place / f"calls-{abi}"
    # The library finds the functions of C, of mathematics and of threads in the program.
    libraries = ("-Wl,--no-as-needed", "-lm", "-ldl", "-lpthread")
    call = [*compiler, *warnings, *places, "-O1", *sources, "-o", str(program), *libraries]
    subprocess.run(call, check=True)
    return program

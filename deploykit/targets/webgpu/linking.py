"""Linking a WebAssembly module, with the compiler in the Python package ziglang."""

from __future__ import annotations

import importlib.util
import shlex
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from deploykit import runtime
from deploykit.errors import ToolchainError
from deploykit.toolchain import probe

STACK_BYTES = 128 << 10
"""Of the module: kernels keep no more than their profile's limit there."""

_OPTIONS = (
    *("-std=c99", "-O2", "-g0", "-s", "-msimd128", "-mbulk-memory", "-nostdlib"),
    *("-fno-builtin", "-fno-sanitize=undefined"),  # no calls of functions that libc.c consists of
    *("-Wl,--no-entry", f"-Wl,-z,stack-size={STACK_BYTES}", "-Wl,--export=__heap_base"),
)


@dataclass(frozen=True)
class WasmToolchain:
    """A compiler and linker for WebAssembly without a C library."""

    command: tuple[str, ...]
    version: str

    def link(self, inputs: Iterable[Path], output: Path, folder: Path, macros: Mapping[str, str | int]) -> None:
        """Link C files and objects to a module; headers are those of the runtime and of `folder`.

        Raises `ToolchainError` with the linker's words.
        """
        defined = [f"-D{name}={value}" for name, value in macros.items()]
        headers = [f"-I{path}" for path in (folder, runtime.INCLUDE, runtime.WASM_INCLUDE)]
        call = [*self.command, *_OPTIONS, *defined, *headers, "-o", str(output), *map(str, inputs)]
        result = subprocess.run(call, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            words = result.stderr.strip()[-4000:]
            raise ToolchainError(f"{shlex.join(call)}\nfailed with exit code {result.returncode}:\n{words}")


def find_wasm_toolchain() -> WasmToolchain:
    """Raises `ToolchainError`, with what to install, when there is none."""
    command = (sys.executable, "-m", "ziglang", "cc")
    found = probe(command) if importlib.util.find_spec("ziglang") else None
    if found is None:
        raise ToolchainError("no compiler for WebAssembly found: `pip install ziglang`")
    return WasmToolchain((*command, "-target", "wasm32-freestanding"), found[1])

"""Linking a model's WebAssembly module: kernels, host code, the C runtime, and what these need of the C library.

The module imports its memory, which threads share. With one byte of it changed, it takes one that belongs to a single
thread (`js/memory.mjs`): atomic operations are valid on both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from deploykit import runtime
from deploykit.toolchain import find_wasm_compiler

STACK_BYTES = 128 << 10
"""Of each thread: kernels keep no more than their profile's limit there."""

MOST_BYTES = (4 << 30) - (64 << 10)
"""Of memory: addresses have 32 bits, and sizes too."""

_OPTIONS = (
    *("-O2", "-g0", "-msimd128", "-mbulk-memory", "-matomics", "-DDK_PROFILE"),
    "-fno-builtin",  # no calls of functions that libc.c consists of
    *(f"-Wl,-z,stack-size={STACK_BYTES}", "-Wl,--export=__heap_base"),
    *("-Wl,--strip-all", "-Wl,--import-memory", "-Wl,--shared-memory", f"-Wl,--max-memory={MOST_BYTES}"),
    f"-DDK_STACK_BYTES={STACK_BYTES}",
)

_SOURCES = (runtime.CORE, runtime.DRIVER, runtime.WASM_ENTRY, runtime.WASM_THREADS, runtime.WASM_LIBC)


def link(folder: Path, objects: Iterable[Path], output: Path, macros: Mapping[str, str | int]) -> None:
    """Link `objects` and the `model.c` of `folder`; `macros` are those of `entry.c`.

    Raises `ToolchainError` with the linker's words.
    """
    defined = [f"-D{name}={value}" for name, value in macros.items()]
    headers = [f"-I{path}" for path in (folder, runtime.INCLUDE, runtime.WASM_INCLUDE)]
    inputs = [folder / "model.c", *_SOURCES, *objects]
    find_wasm_compiler().link_module(inputs, output, *_OPTIONS, *defined, *headers)

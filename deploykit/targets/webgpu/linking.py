"""Linking a model's WebAssembly module: kernels, host code, the C runtime, and what these need of the C library.

The module imports its memory, which threads share. With one byte of it changed, it takes one that belongs to a single
thread (`js/memory.mjs`): atomic operations are valid on both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from deploykit import runtime
from deploykit.compiler.devices.gpu import WEBGPU
from deploykit.toolchain import compiled, find_wasm_compiler

STACK_BYTES = 128 << 10
"""Of each thread: kernels keep no more than their variant's limit there."""

MOST_BYTES = (4 << 30) - (64 << 10)
"""Of memory: addresses have 32 bits, and sizes too."""

_COMPILER_OPTIONS = (
    *("-O2", "-g0", "-msimd128", "-mbulk-memory", "-matomics", "-DDK_PROFILE"),
    "-fno-builtin",  # no calls of functions that libc.c consists of
    f"-DDK_STACK_BYTES={STACK_BYTES}",
    f"-DDK_MAX_SCALARS={WEBGPU.scalars}",
    *(f"-I{path}" for path in (runtime.INCLUDE, runtime.WASM_INCLUDE)),
)

_LINKER_OPTIONS = (
    *(f"-Wl,-z,stack-size={STACK_BYTES}", "-Wl,--export=__heap_base"),
    *("-Wl,--strip-all", "-Wl,--import-memory", "-Wl,--shared-memory", f"-Wl,--max-memory={MOST_BYTES}"),
)

_SHARED_SOURCES = (
    runtime.CORE,
    runtime.STATES[1],
    runtime.DRIVER,
    runtime.WASM_MODULE,
    runtime.WASM_THREADS,
    runtime.WASM_GPU,
    runtime.WASM_LIBC,
)
"""They know nothing of the model, and are compiled once."""


def link(folder: Path, objects: Iterable[Path], output: Path, entries: Iterable[Mapping[str, str | int]]) -> None:
    """Link `objects` and the C files of `folder`; `entries` are the macros of `entry.c` for each function.

    Raises `ToolchainError` with the linker's words.
    """
    compiler = find_wasm_compiler()
    inputs = [*sorted(folder.glob("*.c")), *objects]
    for number, macros in enumerate(entries):
        inputs.append(folder / f"{output.stem}-entry-{number}.o")
        defined = [f"-D{name}={value}" for name, value in macros.items()]
        compiler.compile(runtime.WASM_ENTRY, inputs[-1], *_COMPILER_OPTIONS, *defined, f"-I{folder}")
    for source in _SHARED_SOURCES:
        inputs.append(folder / f"{output.stem}-{source.stem}.o")
        inputs[-1].write_bytes(compiled(compiler, source, *_COMPILER_OPTIONS))
    compiler.link_module(inputs, output, *_COMPILER_OPTIONS, *_LINKER_OPTIONS, f"-I{folder}")

"""Links a model's WebAssembly module: kernels, host code, the C runtime, and the parts of the C library that they need.

The module imports its memory, which threads share. JavaScript can change one byte of the module (`js/memory.mjs`) so
that it imports a memory of a single thread; atomic operations are valid on both kinds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from deploykit import runtime
from deploykit.basics.toolchain import compiled, find_wasm_compiler
from deploykit.targets.webgpu.devices import WEBGPU

STACK_BYTES = 128 << 10
"""The stack of each thread, in bytes. Kernels use no more of it than the limit of their variant."""

MOST_BYTES = (4 << 30) - (64 << 10)
"""The largest memory, in bytes: addresses and sizes have 32 bits."""

_COMPILER_OPTIONS = (
    *("-O2", "-g0", "-msimd128", "-mbulk-memory", "-matomics", "-DDK_PROFILE"),
    "-fno-builtin",  # otherwise libc.c would call the functions that it defines
    f"-DDK_STACK_BYTES={STACK_BYTES}",
    f"-DDK_MAX_SCALARS={WEBGPU.scalars}",
    *(f"-I{path}" for path in (runtime.INCLUDE, runtime.BATCHING, runtime.WASM_INCLUDE)),
)

_TEXT_OPTIONS = (
    *("-Os", "-g0", "-msimd128", "-mbulk-memory", "-fno-builtin"),
    *(f"-I{path}" for path in (runtime.INCLUDE, runtime.TEXT_INCLUDE, runtime.WASM_INCLUDE)),
    *(f"-Wl,-z,stack-size={STACK_BYTES}", "-Wl,--export=__heap_base", "-Wl,--strip-all", "-Wl,--gc-sections"),
)

_LANGUAGE_OPTIONS = (*_TEXT_OPTIONS, f"-I{runtime.LANGUAGE_INCLUDE}")
_SPEAKING = (*(runtime.LANGUAGE_INCLUDE / name for name in ("pages.c", "saved.c", "sampling.c")), *runtime.TEMPLATE)
"""The sources for pages, what is saved, the choice of tokens and templates; JavaScript has stops of its own."""

_LINKER_OPTIONS = (
    *(f"-Wl,-z,stack-size={STACK_BYTES}", "-Wl,--export=__heap_base"),
    *("-Wl,--strip-all", "-Wl,--import-memory", "-Wl,--shared-memory", f"-Wl,--max-memory={MOST_BYTES}"),
)

_SHARED_SOURCES = (
    *runtime.CORE,
    runtime.STATES[1],
    runtime.DRIVER,
    runtime.WASM_MODULE,
    runtime.WASM_THREADS,
    runtime.WASM_GPU,
    runtime.WASM_LIBC,
)
"""These sources do not depend on the model, and are compiled once per process."""


def link(
    folder: Path,
    objects: Iterable[Path],
    output: Path,
    entries: Iterable[Mapping[str, str | int]],
    *,
    instances: bool = False,
) -> None:
    """Link `objects` and the C files of `folder`; `entries` are the macros of `entry.c` for each function. `instances`:
    the model is dynamic.

    Raises `ToolchainError` with the linker's message.
    """
    compiler = find_wasm_compiler()
    inputs = [*sorted(folder.glob("*.c")), *objects]
    for number, macros in enumerate(entries):
        inputs.append(folder / f"{output.stem}-entry-{number}.o")
        defined = [f"-D{name}={value}" for name, value in macros.items()]
        compiler.compile(runtime.WASM_ENTRY, inputs[-1], *_COMPILER_OPTIONS, *defined, f"-I{folder}")
    further = (*runtime.further_sources(states=False, instances=instances), *(runtime.DEVICE if instances else ()))
    for source in (*_SHARED_SOURCES, *(path for path in further if path.suffix == ".c")):
        inputs.append(folder / f"{output.stem}-{source.stem}.o")
        inputs[-1].write_bytes(compiled(compiler, source, *_COMPILER_OPTIONS))
    compiler.link_module(inputs, output, *_COMPILER_OPTIONS, *_LINKER_OPTIONS, f"-I{folder}")


def link_language(output: Path) -> None:
    """Link the module that has the pages of sequences, chooses tokens and runs templates, the same for all models. It
    has a memory of its own. Raises `ToolchainError` with the linker's message."""
    sources = [source for source in _SPEAKING if source.suffix == ".c"]
    find_wasm_compiler().link_module([*sources, runtime.WASM_LANGUAGE, runtime.WASM_LIBC], output, *_LANGUAGE_OPTIONS)


def link_text(output: Path) -> None:
    """Link the module that encodes and decodes texts, the same for all models. It has a memory of its own.

    Raises `ToolchainError` with the linker's message.
    """
    sources = [source for source in runtime.TEXT if source.suffix == ".c"]
    find_wasm_compiler().link_module([*sources, runtime.WASM_TEXT, runtime.WASM_LIBC], output, *_TEXT_OPTIONS)

"""Plain C99 for a microcontroller or any other machine: no heap, no threads, memory sizes known at compile time.

model.h model.c     the interface and the host code of the model; deploykit.h deploykit.c errors.c are the same for all
                    models
kernels.c           the kernels
weights.h weights.c the constants, as const data that can stay in flash
states.h states.c   for a model with states
model_texts.h model_texts.c   for a model of texts: its functions for texts; tokenizer.h and tokenizer.c
                    the tables as const data; text.h, texts.h and others the sources
model_pictures.h model_pictures.c   for a model of pictures: its functions for pictures; pictures.h and others
                    the sources. For a model that generates they are called
                    messages and generate. For a model of sound they are called sounds
example/main.c      an example with static memory and made-up inputs, which prints the outputs
Makefile CMakeLists.txt
board.mk board.cmake   for a board: its compiler and flags, and an emulator, if there is one
board.json          for a board: what it is, and what the model takes of its memories

These are the files of the form `c`; `forms` has the others, for build systems of vendors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from deploykit.basics.toolchain import find_c_compiler
from deploykit.errors import ToolchainError, UsageError
from deploykit.options.option import option
from deploykit.targets import answers
from deploykit.targets.base import Availability, PackageOptions, require_no_devices
from deploykit.targets.embedded.boards import Board, find_board
from deploykit.targets.embedded.boards.footprint import read_footprint
from deploykit.targets.embedded.forms import FORMS, C
from deploykit.targets.embedded.forms.packages import PackageSettings
from deploykit.targets.embedded.sources import OPTIMIZED

if TYPE_CHECKING:
    from deploykit.artifact.manifest import Manifest
    from deploykit.compiler.program.ir import Program
    from deploykit.compiler.variant import Variant
    from deploykit.engines import Engine, EngineOptions

THIS_MACHINE = "cpu"
"""The device that runs the C of an artifact for a board on this machine."""
UNASKED_CPU = "native"
"""What `--cpu` is if nobody asked for a CPU."""


@dataclass(frozen=True)
class EmbeddedOptions(PackageSettings):
    board: str | None = option(None, "the board that the sources are for")


class EmbeddedTarget:
    """The target for microcontrollers. `board` is the one that the sources are for; without one they are for any."""

    name = "embedded"
    description = "C99 sources for any C compiler, with static memory and the weights as const data"
    formats = tuple(FORMS)
    alone = C
    Options = EmbeddedOptions
    least_quantized = 256

    def __init__(self, board: Board | None = None) -> None:
        self.board = board

    def configured(self, own: EmbeddedOptions) -> EmbeddedTarget:
        return self if own.board is None else EmbeddedTarget(find_board(own.board))

    def check(self) -> Availability:
        try:
            compiler = find_c_compiler()
        except ToolchainError as error:
            return Availability(build=True, run=False, detail=f"to run it here: {error}")
        return Availability(build=True, run=True, detail=f"run here with {compiler.family}: {compiler.version}")

    def variants(self, cpu: str, devices: Sequence[str] = ()) -> list[Variant]:
        from deploykit.compiler.devices.microcontrollers import GENERIC, MICROCONTROLLERS
        from deploykit.compiler.variant import PORTABLE_C

        require_no_devices(self, devices)
        core = None if self.board is None else self.board.core.name
        if core is not None and cpu not in (UNASKED_CPU, core):
            raise UsageError(f"the board has the core {core}: build without --cpu {cpu}")
        name = core or (GENERIC if cpu == UNASKED_CPU else cpu)
        if name not in MICROCONTROLLERS:
            raise UsageError(
                f"target embedded has no CPU '{cpu}': choose one of {', '.join(MICROCONTROLLERS)}; "
                f"{GENERIC} is C for any CPU"
            )
        return [replace(PORTABLE_C, device=MICROCONTROLLERS[name])]

    def emit(self, programs: Sequence[Program], options: PackageOptions) -> dict[str, bytes]:
        from deploykit.compiler.codegen.c.kernels import emit_c
        from deploykit.compiler.codegen.host.scope import prefix_of
        from deploykit.compiler.codegen.host.source import emit_host

        (program,) = programs
        _require_bounds(program)
        if options.compiling.fast_math:
            raise UsageError("target embedded calls the functions of the C library: build without --fast-math")
        written = emit_host(programs, options.version) | answers.emit(program, options.version)
        written["kernels.c"] = emit_c(program.kernels, prefix_of(program), share=options.compiling.saves_code)
        return {name: text.encode() for name, text in written.items()}

    def package(
        self, programs: Sequence[Program], emitted: Mapping[str, bytes], folder: Path, options: PackageOptions
    ) -> list[str]:
        from deploykit.targets.embedded.writing import write_files

        (program,) = programs
        return write_files(program, emitted, folder, options, self.board)

    def package_together(
        self, models: Sequence[tuple[Sequence[Program], Mapping[str, bytes], PackageOptions]], folder: Path
    ) -> list[str]:
        from deploykit.targets.embedded.together import write_together

        return write_together(models, self.board, folder)

    def engine(self, folder: Path, manifest: Manifest, scratch: Path, options: EngineOptions) -> Engine:
        from deploykit.engines.native.loading import load_library

        found = read_footprint(folder)
        if found is not None and options.device != THIS_MACHINE:
            return _emulated(self.sources(folder), folder, manifest, found.board, scratch, options)
        library = _library(self.sources(folder), scratch)
        return load_library(library, self.sources(folder), folder, manifest, scratch, options)

    def sources(self, folder: Path) -> list[Path]:
        return sorted(path for pattern in ("*.c", "src/*/*.c") for path in folder.glob(pattern))


def _emulated(
    sources: Sequence[Path], folder: Path, manifest: Manifest, board: Board, scratch: Path, options: EngineOptions
) -> Engine:
    """An engine in the emulator of the board's core."""
    from deploykit.engines.native.functions import Functions, once
    from deploykit.engines.native.semihosted import Semihosted
    from deploykit.targets.embedded.boards.image import emulated_build

    if options.device is not None or options.cpu is not None or options.threads > 1:
        raise UsageError(
            f"the artifact is for the board '{board.name}', whose core is emulated, with one thread: "
            f"--device {THIS_MACHINE} runs its C on this machine"
        )
    try:
        build = emulated_build(board)
    except ToolchainError as error:
        raise ToolchainError(f"{error}; --device {THIS_MACHINE} runs the C on this machine") from error
    start = once(lambda part: Semihosted(sources, folder, part, scratch, build))
    return Functions(manifest, start, where=f"{board.core.title}, emulated", most=options.lanes)


def _library(sources: Sequence[Path], scratch: Path) -> Path:
    """A shared library of the C files, built in `scratch`."""
    compiler = find_c_compiler()
    objects = [scratch / f"{source.name}.o" for source in sources]
    for source, made in zip(sources, objects, strict=True):
        compiler.compile(source, made, "-O0" if OPTIMIZED.get(source.name) == "-O0" else "-O2", "-fPIC")
    library = scratch / "libmodel.so"
    compiler.link_shared(objects, library)
    return library


def _require_bounds(program: Program) -> None:
    """Raise `UsageError` if a dim has no upper bound, which static memory needs."""
    dims = dict.fromkeys(dim for function in program.public for dim in function.dims)
    unbounded = [dim.name for dim in dims if dim.maximum is None and dim.capacity_of is None]
    if unbounded:
        asked = " ".join(f"--dim {name}=1..N" for name in unbounded)
        raise UsageError(
            f"target embedded needs an upper bound for every dim; {', '.join(unbounded)} has none: add {asked}"
        )

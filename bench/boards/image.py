"""Images of models for a board's core: what they take of its memories, and what is seen when they run under QEMU."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.boards.sides import Side
from bench.instructions.counters import RESULT, Counts, counted, plugin
from deploykit.basics.toolchain import Compiler
from deploykit.errors import DeploykitError
from deploykit.targets.embedded.boards import Board
from deploykit.targets.embedded.boards.image import PICOLIBC, SEMIHOSTING, compiler_for, launcher, memory_of, start_of
from deploykit.targets.embedded.boards.measuring import sections, symbols

HERE = Path(__file__).parent
OPTIONS = (*PICOLIBC, "-std=gnu11", "-O3", "-ffunction-sections", "-fdata-sections", f"-I{HERE}")
"""How every side is compiled. Gcc fuses products and sums in this dialect, if the core can."""
KEPT = ("side_open", "side_run", "side_output")
"""The functions of a side, from which all that it needs is reached."""
_LONGEST = 120
"""Seconds after which a run is given up."""


@dataclass(frozen=True)
class Seen:
    """What was seen of a side on a core. Bytes are those of what the side needs, without the C library: `code` are
    instructions, `constants` are weights and all other constant data, `ram` are variables; `stack` is the deepest."""

    counts: Counts
    code: int
    constants: int
    ram: int
    stack: int
    output: np.ndarray

    @property
    def instructions(self) -> int:
        return self.counts.kinds["all"]


def measure(board: Board, side: Side, given: np.ndarray, expected: np.ndarray, folder: Path) -> Seen:
    """Build and run a side once with the input `given`, in `folder`; the output is like `expected`. Raises
    `ToolchainError` if it cannot be built, and `DeploykitError` if it fails."""
    folder.mkdir(parents=True, exist_ok=True)
    if side.channels_last and given.ndim == 4:
        given = given.transpose(0, 2, 3, 1)
    (folder / "given.c").write_text(_given(given, expected))
    compiler = compiler_for(board.core)
    objects = compiled(compiler, side.sources, folder, side.options)
    sizes = _sizes(compiler, [*objects, *side.libraries], folder / "linked.o")
    objects += compiled(compiler, [HERE / "main.c", folder / "given.c"], folder)
    words = run(board, compiler, [*objects, *side.libraries], folder / "image.elf")
    found = re.fullmatch(r"stack (\d+)\noutput ([0-9a-f]+)\n", words)
    if found is None:
        raise DeploykitError(words.strip() or "it prints nothing")
    output = np.frombuffer(bytes.fromhex(found[2]), expected.dtype).reshape(expected.shape)
    ram = sizes["data"] + sizes["bss"]
    return Seen(counted(folder / RESULT), sizes["text"], sizes["rodata"] + sizes["data"], ram, int(found[1]), output)


def compiled(compiler: Compiler, sources: Sequence[Path], folder: Path, options: Sequence[str] = ()) -> list[Path]:
    """Compile C files into `folder`; returns the objects."""
    made = []
    for source in sources:
        made.append(folder / f"{source.stem}.o")
        compiler.compile(source, made[-1], *OPTIONS, *options)
    return made


def run(board: Board, compiler: Compiler, objects: Sequence[Path], image: Path) -> str:
    """Link and run an image; returns what it prints. Its instructions are counted if it has `count_begin` and
    `count_end`. Raises `DeploykitError` if it fails."""
    emulator = board.core.emulator
    assert emulator is not None
    memory = memory_of(emulator.flash, emulator.ram)
    compiler.link_program(
        [*objects, *start_of(board.core)], image, *PICOLIBC, *SEMIHOSTING, "-Wl,--gc-sections", *memory
    )
    places = symbols(compiler, image)
    call = [*launcher(emulator), str(image)]
    if "count_begin" in places:
        arguments = [
            f"begin={places['count_begin'].address:x}",
            f"end={places['count_end'].address:x}",
            f"result={image.parent / RESULT}",
        ]
        call += ["-plugin", ",".join([str(plugin(HERE / "count.c", image.parent)), *arguments])]
    try:
        done = subprocess.run(
            call, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=_LONGEST
        )
    except subprocess.TimeoutExpired as error:
        raise DeploykitError(f"it takes more than {_LONGEST} seconds") from error
    if done.returncode != 0:
        words = done.stdout.strip().splitlines()
        raise DeploykitError(words[-1] if words else f"it ends with {done.returncode}")
    return done.stdout


def _given(given: np.ndarray, expected: np.ndarray) -> str:
    numbers = ",".join(map(str, given.tobytes()))
    return (
        '#include "side.h"\n'
        f"_Alignas(8) const unsigned char given_input[] = {{{numbers}}};\n"
        f"const unsigned given_input_bytes = {given.nbytes}, given_output_bytes = {expected.nbytes};\n"
    )


def _sizes(compiler: Compiler, objects: Sequence[Path], linked: Path) -> Mapping[str, int]:
    """Bytes by kind of section of what the functions of a side reach, without the C library."""
    compiler.link_image(objects, linked, "-r", "-Wl,--gc-sections", *(f"-Wl,-u,{name}" for name in KEPT))
    return sections(compiler, linked)

"""What a model takes of a board: bytes of flash and RAM, and of the stack.

The memories of tensors are known without a compiler. Code, constants and structs are those of the sources compiled for
the board's core and linked without a C library, with what no call reaches left out. The stack is that of the deepest
call, which gcc tells for every function (`-fcallgraph-info=su`); functions of the C library are not in it.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from deploykit.basics.scratch import Scratch
from deploykit.basics.toolchain import Compiler
from deploykit.targets.embedded.boards.image import PICOLIBC

OPTIMISED = {"kernels.c": "-O3", "weights.c": "-O0", "deploykit.c": "-Os"}
"""How a file is compiled, if not with -O2."""

_NODE = re.compile(r'node: \{ title: "([^"]+)" label: "[^"]*?(\d+) bytes \((static|dynamic[^)]*)\)')
_EDGE = re.compile(r'edge: \{ sourcename: "([^"]+)" targetname: "([^"]+)"')


@dataclass(frozen=True)
class Measured:
    """What a compiler makes of a model, in bytes. `constants` are those other than weights, `structs` the structs of
    its functions, which the application provides, and `data` are variables. `stack` is `None` if a depth is not
    known."""

    compiler: str
    code: int
    constants: int
    weights: int
    data: int
    structs: int
    stack: int | None


def measure(
    compiler: Compiler, folder: Path, sources: Sequence[Path], functions: Sequence[str], prefix: str
) -> Measured:
    """Compile and link `sources` of the artifact in `folder`; `functions` are the prefixes of its functions, and
    `prefix` that of what they share. Raises `ToolchainError`."""
    with Scratch() as place:
        scratch = Path(place)
        options = (*PICOLIBC, "-ffunction-sections", "-fdata-sections", f"-I{folder}")
        objects = []
        for source in sources:
            objects.append(scratch / f"{source.stem}.o")
            compiler.compile(source, objects[-1], OPTIMISED.get(source.name, "-O2"), *options, "-fcallgraph-info=su")
        probe = scratch / "structs.c"
        lines = [f"char structs_of_{name}[sizeof({name}_model)];" for name in functions]
        probe.write_text("\n".join(['#include "model.h"', *lines, ""]), encoding="ascii")
        compiler.compile(probe, scratch / "structs.o", *options)
        image = scratch / "image.elf"
        kept = [f"{name}_{call}" for name in functions for call in ("init", "run")] + [f"{prefix}_weights"]
        roots = (f"-Wl,-e,{kept[1]}", *(f"-Wl,-u,{name}" for name in kept))
        compiler.link_image(objects, image, "-Wl,--gc-sections,--unresolved-symbols=ignore-all,--no-warnings", *roots)
        sizes = _sections(compiler, image)
        weights = _symbols(compiler, image).get(f"{prefix}_weights", 0)
        stacks = _stacks(scratch.glob("*.ci"), [f"{name}_{call}" for name in functions for call in ("init", "run")])
        structs = sum(_symbols(compiler, scratch / "structs.o").values())
    return Measured(
        compiler.version,
        sizes["text"],
        sizes["rodata"] - weights,
        weights,
        sizes["data"] + sizes["bss"],
        structs,
        stacks,
    )


def _tool(compiler: Compiler, name: str, *arguments: str) -> str:
    command = compiler.command[0].removesuffix("gcc") + name
    return subprocess.run([command, *arguments], capture_output=True, text=True, check=True).stdout


def _sections(compiler: Compiler, image: Path) -> Mapping[str, int]:
    """Bytes of the sections of an image, by kind."""
    sizes = dict.fromkeys(("text", "rodata", "data", "bss"), 0)
    for line in _tool(compiler, "size", "-A", str(image)).splitlines():
        match line.split():
            case [name, size, _] if (kind := name.lstrip(".").split(".")[0].removeprefix("s")) in sizes:
                sizes[kind] += int(size)
    return sizes


def _symbols(compiler: Compiler, image: Path) -> Mapping[str, int]:
    """The bytes of each symbol that has a size."""
    lines = (line.split() for line in _tool(compiler, "nm", "-S", str(image)).splitlines())
    return {line[3]: int(line[1], 16) for line in lines if len(line) == 4}


def _stacks(files: Iterable[Path], entries: Sequence[str]) -> int | None:
    """The stack of the deepest call from one of `entries`."""
    bytes_of: dict[str, int] = {}
    calls: dict[str, set[str]] = {}
    for file in files:
        text = file.read_text(encoding="utf-8")
        for name, size, kind in _NODE.findall(text):
            if kind.startswith("dynamic") and "bounded" not in kind:
                return None
            bytes_of[name] = int(size)
        for caller, callee in _EDGE.findall(text):
            calls.setdefault(caller, set()).add(callee)

    @cache
    def depth(name: str) -> int:
        return bytes_of.get(name, 0) + max((depth(callee) for callee in calls.get(name, ())), default=0)

    return max(depth(name) for name in entries)

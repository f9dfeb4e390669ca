"""What a model takes of a board: bytes of flash and RAM, and of the stack.

The memories of tensors are known without a compiler. Code, constants and structs are those of the sources compiled for
the board's core and linked without a C library: the functions of the model's headers, and what they call. The stack is
that of their deepest call, which gcc tells for every function (`-fcallgraph-info=su`); functions of the C library are
not in it.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from deploykit.basics.scratch import Scratch
from deploykit.basics.toolchain import Compiler, compile_shared
from deploykit.targets.embedded.boards.image import PICOLIBC
from deploykit.targets.embedded.sources import KERNELS

_NODE = re.compile(r'node: \{ title: "([^"]+)" label: "[^"]*?(\d+) bytes \((static|dynamic[^)]*)\)')
_EDGE = re.compile(r'edge: \{ sourcename: "([^"]+)" targetname: "([^"]+)"')
_SYMBOL = re.compile(r"^([0-9a-f]+) (.{7}) (\S+)\t([0-9a-f]+) +(?:\.hidden )?(\S+)$", re.MULTILINE)
"""A line of `objdump -t`: address, flags, section, bytes and name. nm would say the same, and loads plugins first."""


@dataclass(frozen=True)
class Measured:
    """What a compiler makes of a model, in bytes. `constants` are those other than weights, `structs` the structs of
    its functions, which the application provides, and `data` are variables. `stack` is `None` if it has no bound that
    is known."""

    compiler: str
    code: int
    constants: int
    data: int
    structs: int
    stack: int | None


def measure(
    compiler: Compiler,
    folder: Path,
    sources: Mapping[Path, str],
    shared: Collection[str],
    structs: Mapping[str, str],
) -> Measured:
    """Compile and link `sources` of the artifact in `folder`, each with its option for how much a compiler works; those
    with the names `shared` are the same for all models. `structs` are what an application
    provides, with the header of each. Raises `ToolchainError`."""
    with Scratch() as place:
        scratch = Path(place)
        options = (*PICOLIBC, "-ffunction-sections", "-fdata-sections")
        objects = {source.name: scratch / f"{source.stem}.o" for source in sources}
        for source, option in sources.items():
            chosen = (option, *options, "-fcallgraph-info=su")
            if source.name in shared:
                compile_shared(compiler, source, objects[source.name], *chosen)
            else:
                compiler.compile(source, objects[source.name], *chosen, f"-I{folder}")
        probe = scratch / "structs.c"
        lines = [f'#include "{header}"\nchar bytes_of_{name}[sizeof({name})];\n' for name, header in structs.items()]
        probe.write_text("".join(lines), encoding="ascii")
        compiler.compile(probe, scratch / "structs.o", *options, f"-I{folder}")
        own = [made for name, made in objects.items() if name not in shared and name != KERNELS]
        roots = sorted(name for made in own for name, symbol in symbols(compiler, made).items() if symbol.public)
        image = scratch / "image.elf"
        kept = (f"-Wl,-e,{roots[0]}", *(f"-Wl,-u,{name}" for name in roots))
        compiler.link_image(
            objects.values(), image, "-Wl,--gc-sections,--unresolved-symbols=ignore-all,--no-warnings", *kept
        )
        sizes = sections(compiler, image)
        constants = [scratch / "weights.o", scratch / "tokenizer.o"]
        data = sum(s.bytes for made in constants if made.exists() for s in symbols(compiler, made).values())
        return Measured(
            compiler.version,
            sizes["text"],
            sizes["rodata"] - data,
            sizes["data"] + sizes["bss"],
            sum(symbol.bytes for symbol in symbols(compiler, scratch / "structs.o").values()),
            _stack(scratch.glob("*.ci"), roots),
        )


def sections(compiler: Compiler, image: Path) -> Mapping[str, int]:
    """Bytes of the sections of an image or an object, by kind: `text`, `rodata`, `data` and `bss`."""
    sizes = dict.fromkeys(("text", "rodata", "data", "bss"), 0)
    for line in _tool(compiler, "size", "-A", str(image)).splitlines():
        match line.split():
            case [name, size, _] if (kind := name.lstrip(".").split(".")[0].removeprefix("s")) in sizes:
                sizes[kind] += int(size)
    return sizes


@dataclass(frozen=True)
class Symbol:
    """Where a symbol is, its bytes, 0 if they are not known, and whether other files see it."""

    address: int
    bytes: int
    public: bool


def symbols(compiler: Compiler, image: Path) -> Mapping[str, Symbol]:
    """The symbols that an image or an object defines."""
    found = {}
    for address, flags, section, size, name in _SYMBOL.findall(_tool(compiler, "objdump", "-t", str(image))):
        if section != "*UND*" and not set(flags) & set("df"):
            found[name] = Symbol(int(address, 16), int(size, 16), flags[0] != "l")
    return found


def _tool(compiler: Compiler, name: str, *arguments: str) -> str:
    command = compiler.command[0].removesuffix("gcc") + name
    return subprocess.run([command, *arguments], capture_output=True, text=True, check=True).stdout


def _stack(files: Iterable[Path], entries: Sequence[str]) -> int | None:
    """The stack of the deepest call from one of `entries`; `None` if a function calls itself, or takes a stack that
    depends on data."""
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
    try:
        order = TopologicalSorter(calls).static_order()
        deepest: dict[str, int] = {}
        for name in order:  # what is called comes first
            deepest[name] = bytes_of.get(name, 0) + max((deepest[callee] for callee in calls.get(name, ())), default=0)
    except CycleError:
        return None
    return max(deepest.get(name, 0) for name in entries)

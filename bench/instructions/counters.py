"""Ways to count the instructions that a function executes, including the functions that it calls."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

from deploykit.basics.toolchain import find_c_compiler
from deploykit.engines.native.emulated import emulated
from deploykit.engines.native.process import Build, started

PLUGIN = Path(__file__).with_name("count.c")
RESULT = "instructions.txt"


class Tool(Protocol):
    """`cpu`: the CPU for which models are built."""

    cpu: str

    def missing(self) -> str | None:
        """The reason why this machine cannot count in this way, or `None`."""
        ...

    def build(self, function: str, folder: Path) -> Build:
        """How to build and run a program in which this function is counted."""
        ...

    def read(self, folder: Path) -> int:
        """The number of instructions of the run."""
        ...


class Callgrind:
    """Counts under valgrind, which does not support AVX-512."""

    cpu = "x86-64-v3"

    def missing(self) -> str | None:
        if platform.machine() != "x86_64":
            return "counts are those of x86-64"
        return None if shutil.which("valgrind") else "needs valgrind"

    def build(self, function: str, folder: Path) -> Build:
        settings = (f"--toggle-collect={function}", f"--callgrind-out-file={folder / RESULT}", "--log-file=/dev/null")
        return Build(find_c_compiler(), (), launcher=("valgrind", "--tool=callgrind", *settings))

    def read(self, folder: Path) -> int:
        (total,) = re.findall(r"^totals: (\d+)$", (folder / RESULT).read_text(), re.MULTILINE)
        return int(total)


class Emulator:
    """Counts under QEMU, with the plugin `count.c`."""

    cpu = "armv8.2-a+dotprod"

    def missing(self) -> str | None:
        return without_emulator()

    def build(self, function: str, folder: Path) -> Build:
        return started(emulated("aarch64"), *counting(function, folder))

    def read(self, folder: Path) -> int:
        return counted(folder / RESULT).kinds["all"]


@dataclass(frozen=True)
class Counts:
    """What the plugin found: instructions by kind, and those of blocks of code by address and symbol."""

    kinds: Mapping[str, int]
    blocks: Mapping[tuple[int, str], int]

    def by_symbol(self) -> dict[str, int]:
        """The instructions of each function, the most first."""
        found: Counter[str] = Counter()
        for (_, symbol), number in self.blocks.items():
            found[symbol] += number
        return dict(found.most_common())


def counted(result: Path) -> Counts:
    """Read a file that the plugin wrote."""
    kinds: dict[str, int] = {}
    blocks: Counter[tuple[int, str]] = Counter()
    for line in result.read_text().splitlines():
        kind, *words = line.split(" ", 3)
        if kind == "at":
            blocks[int(words[0], 16), words[2]] += int(words[1])
        else:
            kinds[kind] = int(words[0])
    return Counts(kinds, blocks)


def without_emulator() -> str | None:
    """The reason why instructions of arm64 cannot be counted here, or `None`."""
    if platform.machine() == "aarch64":
        return "arm64 is not emulated here"
    if not shutil.which("qemu-aarch64"):
        return "needs qemu-user"
    if not shutil.which("aarch64-linux-gnu-gcc"):
        return "counts are those of the host code of aarch64-linux-gnu-gcc"
    return None if _plugins_work() else "qemu-aarch64 does not take plugins of version 1"


def counting(function: str, folder: Path) -> tuple[str, ...]:
    """Options of QEMU that count a function; `counted(folder / RESULT)` reads what was found."""
    return ("-plugin", f"{plugin(PLUGIN, folder)},function={function},result={folder / RESULT}")


def plugin(source: Path, folder: Path) -> Path:
    """Build a plugin of QEMU in `folder`."""
    compiler = find_c_compiler()
    compiler.compile(source, folder / "count.o", "-O2", "-fPIC")
    compiler.link_shared([folder / "count.o"], folder / "count.so", "-Wl,-z,undefs")  # QEMU defines the other symbols
    return folder / "count.so"


@cache
def _plugins_work() -> bool:
    """Whether QEMU accepts the plugin. It loads plugins first, so its message is about the plugin if it refuses it."""
    with TemporaryDirectory() as folder:
        command = ["qemu-aarch64", "-plugin", f"{plugin(PLUGIN, Path(folder))},function=none", f"{folder}/none"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "plugin" not in done.stderr


COUNTERS: tuple[Tool, ...] = (Callgrind(), Emulator())

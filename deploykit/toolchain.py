"""Finding and calling a C compiler of this machine.

In order: `$CC`; `cc`, `gcc`, `clang` on the PATH; the one inside the Python package ziglang. All speak the same
options here, save that zig would instrument unoptimised code unless told not to.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from deploykit.errors import ToolchainError

INSTALL_HINT = "install one (Debian: `apt-get install gcc`), set CC to one, or `pip install ziglang`"

WARNINGS = ("-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror")
"""What every C file of this project and every generated one passes."""


@dataclass(frozen=True)
class Compiler:
    """A C compiler that answered to `--version`. `family` is `gcc`, `clang` or `zig`."""

    command: tuple[str, ...]
    family: str
    version: str

    def compile(self, source: Path, output: Path, *options: str) -> None:
        """Compile one C file to an object. Raises `ToolchainError` with the compiler's words."""
        self._run("-c", str(source), "-o", str(output), *options)

    def link_shared(self, objects: Iterable[Path], output: Path, *options: str) -> None:
        """Link a shared library that binds to its own symbols first and has no undefined ones."""
        flags = ("-shared", "-Wl,-Bsymbolic", "-Wl,-z,defs", "-pthread", *options, "-lm")
        self._run("-o", str(output), *map(str, objects), *flags)

    def link_program(self, objects: Iterable[Path], output: Path, *options: str) -> None:
        """Link an executable."""
        self._run("-o", str(output), *map(str, objects), "-pthread", *options, "-lm")

    def _run(self, *arguments: str) -> None:
        quiet = ("-fno-sanitize=undefined",) if self.family == "zig" else ()
        call = [*self.command, *quiet, *arguments]
        try:
            result = subprocess.run(call, capture_output=True, text=True, check=False)
        except OSError as error:
            raise ToolchainError(f"{shlex.join(self.command)} cannot be started: {error}") from error
        if result.returncode != 0:
            words = result.stderr.strip()[-4000:]
            raise ToolchainError(f"{shlex.join(call)}\nfailed with exit code {result.returncode}:\n{words}")


def find_c_compiler() -> Compiler:
    """The first C compiler found. Raises `ToolchainError`, with what to install, when there is none."""
    for command in _candidates():
        found = probe(command)
        if found is not None:
            return found
        if command == _from_environment():
            raise ToolchainError(f"CC is {shlex.join(command)!r}, which is no C compiler that can be started")
    raise ToolchainError(f"no C compiler found: {INSTALL_HINT}")


def probe(command: tuple[str, ...]) -> Compiler | None:
    """The compiler that `command` starts, or None when it starts none."""
    try:
        result = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    first_line = next(iter(result.stdout.splitlines()), "")
    if result.returncode != 0 or not first_line:
        return None
    zig = "zig" in " ".join(command)
    family = "zig" if zig else "clang" if "clang" in first_line else "gcc"
    return Compiler(command, family, first_line)


def _from_environment() -> tuple[str, ...]:
    return tuple(shlex.split(os.environ.get("CC", "")))


def _candidates() -> Iterator[tuple[str, ...]]:
    if _from_environment():
        yield _from_environment()
    for name in ("cc", "gcc", "clang"):
        path = shutil.which(name)
        if path:
            yield (path,)
    if importlib.util.find_spec("ziglang"):
        yield (sys.executable, "-m", "ziglang", "cc")

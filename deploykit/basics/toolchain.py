"""Finding and calling a C compiler, for this machine or another one.

For this machine, in order: `$CC`; `cc`, `gcc`, `clang` on the PATH; the compiler in the Python package ziglang.
`$CFLAGS` is added to every call. For another machine: a GNU cross compiler on the PATH, or ziglang's. For Android:
ziglang's. For WebAssembly: `$WASM_CC`, which must be Emscripten's `emcc`, else ziglang's. All take the same options,
with two exceptions: zig instruments code unless told not to, and Emscripten's compiler and linker are called
separately.
"""

from __future__ import annotations

import errno
import importlib.util
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

from deploykit.basics.caches import kept
from deploykit.basics.parallel import run_program
from deploykit.basics.scratch import Scratch
from deploykit.errors import ToolchainError

INSTALL_HINT = "install one (Debian: `apt-get install gcc`), set CC to one, or `pip install ziglang`"

_PROBE_SECONDS = 60
_LEAST_ROOM = 1 << 16
"""Bytes: when a compiler fails and a disk has less than this free, the disk counts as full."""
_ZIG_CACHE = "ZIG_GLOBAL_CACHE_DIR"
_ZIG = (sys.executable, "-m", "ziglang", "cc")
_OLDEST = ".2.17"
"""The version of the GNU C library that ziglang links for."""


@dataclass(frozen=True)
class Compiler:
    """A C compiler that answered to `--version`.

    `family` is `gcc`, `clang`, `zig` or `emscripten`; `flags` are added to every call. `threads` are the options of
    programs with threads, none for machines without an operating system. `link` are further flags of programs."""

    command: tuple[str, ...]
    family: str
    version: str
    flags: tuple[str, ...] = ()
    threads: tuple[str, ...] = ("-pthread",)
    link: tuple[str, ...] = ()

    def compile(self, source: Path, output: Path, *options: str) -> None:
        """Compile one C99 file to an object. Raises `ToolchainError` with the compiler's message."""
        self._run("-std=c99", "-c", str(source), "-o", str(output), *options)

    def compile_kept(self, source: Path, output: Path, *options: str) -> None:
        """Like `compile`. An object for the same contents, options and compiler may be an earlier one (`caches`). Zig
        keeps objects itself; those of sanitizers name their source."""
        sanitized = any(option.startswith("-fsanitize") for option in (*options, *self.flags))
        if self.family not in ("gcc", "clang") or sanitized:
            self.compile(source, output, *options)
            return

        def made_from() -> Iterator[str]:
            yield from (*self.command, self.version, *self.flags, *options)
            yield self._run("-std=c99", "-E", "-P", str(source), *options)

        def made() -> bytes:
            self.compile(source, output, *options)
            return output.read_bytes()

        output.write_bytes(kept(made_from(), made))

    def link_shared(self, objects: Iterable[Path], output: Path, *options: str) -> None:
        """Link a shared library that prefers its own symbols and has no undefined ones. Libraries among `objects` are
        needed at run time only if they are used."""
        flags = ("-shared", "-Wl,-Bsymbolic", "-Wl,-z,defs", "-pthread", *options, "-lm")
        self._run("-o", str(output), "-Wl,--as-needed", *map(str, objects), *flags)

    def link_program(self, objects: Iterable[Path], output: Path, *options: str) -> None:
        """Link an executable."""
        self._run("-o", str(output), *map(str, objects), *self.threads, *options, "-lm", last=self.link)

    def link_alone(self, inputs: Iterable[Path], output: Path, *options: str) -> None:
        """Link a shared library from nothing but `inputs`, objects and libraries."""
        self._run("-shared", "-nostdlib", *options, "-o", str(output), *map(str, inputs))

    def link_library(self, inputs: Iterable[Path], output: Path, *options: str) -> None:
        """Link a shared library with the C library of the compiler's system."""
        self._run("-shared", *options, "-o", str(output), *map(str, inputs))

    def link_image(self, inputs: Iterable[Path], output: Path, *options: str) -> None:
        """Link an image from nothing but `inputs`, for a machine without an operating system."""
        self._run("-nostdlib", *options, "-o", str(output), *map(str, inputs))

    def link_module(self, inputs: Iterable[Path], output: Path, *options: str) -> None:
        """Compile C99 files and link them with objects into a WebAssembly module without a C library."""
        self._run("-std=c99", "-nostdlib", "-Wl,--no-entry", *options, "-o", str(output), *map(str, inputs))

    def _run(self, *arguments: str, last: Sequence[str] = ()) -> str:
        quiet = ("-fno-sanitize=undefined",) if self.family == "zig" else ()
        return _call([*self.command, *quiet, *arguments, *self.flags, *last])


def _call(call: Sequence[str]) -> str:
    """Run a program and return its output. Raises `ToolchainError` with its message, or `OSError` for a full disk."""
    try:
        result = run_program(call)
    except OSError as error:
        raise ToolchainError(f"{call[0]} cannot be started: {error}") from error
    if result.returncode != 0:
        words = result.stderr.strip()[-4000:]
        if _disk_is_full(call, words):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        raise ToolchainError(f"{shlex.join(call)}\nfailed with exit code {result.returncode}:\n{words}")
    return result.stdout


def _disk_is_full(call: Sequence[str], words: str) -> bool:
    """Whether a program failed because the disk is full.

    Some programs crash without a message when there is no room for a file that they have mapped into memory, so the
    free space of the disks counts too."""
    if re.search(r"no space left|nospaceleft|enospc", words, re.IGNORECASE):
        return True
    outputs = (Path(path).parent for option, path in pairwise(call) if option == "-o")
    places = [*outputs, Path(tempfile.gettempdir())]
    return any(place.is_dir() and shutil.disk_usage(place).free < _LEAST_ROOM for place in places)


@dataclass(frozen=True)
class Emscripten(Compiler):
    """`emcc` as a compiler, and `linker`, the linker that it would call.

    Linking goes to `linker` directly: `emcc` itself would adapt modules to its own JavaScript, and its optimizer does
    not know all instructions."""

    linker: str = ""

    def link_module(self, inputs: Iterable[Path], output: Path, *options: str) -> None:
        linked = [word for option in options if option.startswith("-Wl,") for word in option.split(",")[1:]]
        compiled_by = [option for option in options if not option.startswith("-Wl,")]
        with Scratch() as scratch:
            objects = []
            for number, path in enumerate(inputs):
                objects.append(path if path.suffix == ".o" else Path(scratch) / f"{number}.o")
                if path.suffix != ".o":
                    self.compile(path, objects[-1], *compiled_by)
            _call([self.linker, "--no-entry", *linked, "-o", str(output), *map(str, objects)])


@cache
def compiled(compiler: Compiler, source: Path, *options: str) -> bytes:
    """The object of a C file, compiled once per process: the file must not change while the process runs."""
    with Scratch() as folder:
        output = Path(folder) / "object.o"
        compiler.compile_kept(source, output, *options)
        return output.read_bytes()


def compile_shared(compiler: Compiler, source: Path, output: Path, *options: str) -> None:
    """Compile a C file that other artifacts have, too, which includes no headers but those beside it: the same contents
    are compiled once per process. What a compiler writes beside the object is then beside `output`."""
    for suffix, data in _compiled_apart(compiler, _included(source), *options):
        output.with_suffix(suffix).write_bytes(data)


@cache
def _compiled_apart(
    compiler: Compiler, files: tuple[tuple[str, bytes], ...], *options: str
) -> tuple[tuple[str, bytes], ...]:
    """What a compiler makes of the first of some files, by suffix."""
    with Scratch() as place:
        folder = Path(place)
        for name, data in files:
            (folder / name).write_bytes(data)
        compiler.compile(folder / files[0][0], folder / "made.o", *options)
        return tuple((path.suffix, path.read_bytes()) for path in sorted(folder.glob("made.*")))


def _included(source: Path) -> tuple[tuple[str, bytes], ...]:
    """Names and contents of a C file and of the headers beside it that it includes, itself first."""
    found: dict[str, bytes] = {}
    left = [source.name]
    while left:
        path = source.with_name(left.pop())
        if path.name not in found and path.exists():
            found[path.name] = path.read_bytes()
            left += [name.decode() for name in re.findall(rb'^#include "([^"]+)"', found[path.name], re.MULTILINE)]
    return tuple(found.items())


def find_c_compiler() -> Compiler:
    """The first C compiler found. Raises `ToolchainError`, with what to install, when there is none."""
    flags = tuple(shlex.split(os.environ.get("CFLAGS", "")))
    chosen = tuple(shlex.split(os.environ.get("CC", "")))
    for command in (chosen,) if chosen else _candidates():
        found = probe(command)
        if found is not None:
            return Compiler((*command, *_portable(command, found[0])), *found, flags)
    if chosen:
        raise ToolchainError(f"CC is '{shlex.join(chosen)}', which is no C compiler that can be started")
    raise ToolchainError(f"no C compiler found: {INSTALL_HINT}")


def _portable(command: Sequence[str], family: str) -> tuple[str, ...]:
    """Options for ziglang, which otherwise compiles for exactly the CPU and the C library that it finds."""
    if family != "zig" or "-target" in command or platform.libc_ver()[0] != "glibc":
        return ()
    return ("-target", f"{platform.machine()}-linux-gnu{_OLDEST}")


def find_cross_compiler(machine: str, libc: str = "gnu") -> Compiler:
    """A compiler for Linux on another machine, named as in `platform.machine`. `libc`, `gnu` or `musl` (for 32-bit
    Arm `gnueabi`), chooses the C library if the compiler has several.

    Raises `ToolchainError`, with what to install, when there is none.
    """
    candidates: list[tuple[str, ...]] = [(f"{machine}-linux-{libc if libc.startswith('gnu') else 'gnu'}-gcc",)]
    if importlib.util.find_spec("ziglang"):
        candidates.append((*_ZIG, "-target", f"{machine}-linux-{libc}{_OLDEST if libc == 'gnu' else ''}"))
    for command in candidates:
        found = probe(command)
        if found is not None:
            return Compiler(command, *found)
    hint = f"Debian: `apt-get install gcc-{machine.replace('_', '-')}-linux-gnu`"
    raise ToolchainError(f"no C compiler for {machine} found: install one ({hint}), or `pip install ziglang`")


def find_bare_compiler(prefix: str, flags: Sequence[str], link: Sequence[str] = ()) -> Compiler:
    """A GNU compiler for machines without an operating system, such as `arm-none-eabi`; `flags` choose the processor,
    and `link` the libraries, if they are those of another one.

    Raises `ToolchainError`, with what to install, when there is none."""
    command = (f"{prefix}-gcc",)
    found = probe(command)
    if found is None:
        raise ToolchainError(
            f"{prefix}-gcc is not installed (Debian: `apt-get install gcc-{prefix} picolibc-{prefix}`)"
        )
    return Compiler(command, *found, flags=tuple(flags), threads=(), link=tuple(link))


def find_android_compiler(triple: str) -> Compiler:
    """A compiler for Android without its headers and libraries, for a target triple.

    Raises `ToolchainError`, with what to install, when there is none."""
    found = probe(_ZIG) if importlib.util.find_spec("ziglang") else None
    if found is None:
        raise ToolchainError("no compiler for Android found: `pip install ziglang`")
    return Compiler((*_ZIG, "-target", triple), *found)


def find_wasm_compiler() -> Compiler:
    """A compiler for WebAssembly. Raises `ToolchainError`, with what to install, when there is none."""
    chosen = tuple(shlex.split(os.environ.get("WASM_CC", "")))
    if chosen:
        return _emscripten(chosen)
    found = probe(_ZIG) if importlib.util.find_spec("ziglang") else None
    if found is None:
        raise ToolchainError("no compiler for WebAssembly found: `pip install ziglang`")
    return Compiler((*_ZIG, "-target", "wasm32-freestanding"), *found)


def _emscripten(command: tuple[str, ...]) -> Emscripten:
    """Emscripten, started with `command`. `em-config`, in the same folder as `emcc`, tells where the linker is."""
    found = probe(command)
    if found is None or "emcc" not in found[1]:
        raise ToolchainError(f"WASM_CC is '{shlex.join(command)}', which is no emcc that can be started")
    config = str(Path(shutil.which(command[0]) or command[0]).with_name("em-config"))
    root, version = (_call([config, name]).strip() for name in ("LLVM_ROOT", "LLVM_ADD_VERSION"))
    linker = Path(root) / ("wasm-ld" if version in ("", "None") else f"wasm-ld-{version}")
    return Emscripten(command, "emscripten", found[1], linker=str(linker))


def _provide_cache() -> None:
    """Provide a folder for zig's cache, because zig does not start without one.

    The folder is in `$XDG_CACHE_HOME` or `$HOME`, as usual, else among temporary files. Raises `ToolchainError` if
    neither can be written."""
    if os.environ.get(_ZIG_CACHE):
        return
    xdg, home = os.environ.get("XDG_CACHE_HOME", ""), os.environ.get("HOME", "")
    usual = Path(xdg) / "zig" if xdg else Path(home) / ".cache" / "zig" if home else None
    if usual is not None and _writable(usual):
        return
    own = Path(tempfile.gettempdir()) / f"deploykit-zig-{os.getuid()}"
    if not _writable(own) or own.stat().st_uid != os.getuid():
        places = " and ".join(str(place) for place in (usual, own) if place is not None)
        raise ToolchainError(
            f"ziglang needs a folder for its cache, and cannot write {places}: set {_ZIG_CACHE} to one"
        )
    os.environ[_ZIG_CACHE] = str(own)


def _writable(folder: Path) -> bool:
    """Whether files can be written in `folder`, which is created if it does not exist."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


@cache
def probe(command: tuple[str, ...]) -> tuple[str, str] | None:
    """Family and version of the compiler that `command` starts, or None if it does not start one."""
    if "ziglang" in command:
        _provide_cache()
    try:
        result = subprocess.run(
            [*command, "--version"], capture_output=True, text=True, check=False, timeout=_PROBE_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    first_line = next(iter(result.stdout.splitlines()), "")
    if result.returncode != 0 or not first_line:
        return None
    zig = any("zig" in Path(word).name for word in command)
    return ("zig" if zig else "clang" if "clang" in first_line else "gcc"), first_line


def _candidates() -> Iterator[tuple[str, ...]]:
    for name in ("cc", "gcc", "clang"):
        path = shutil.which(name)
        if path:
            yield (path,)
    if importlib.util.find_spec("ziglang"):
        yield _ZIG

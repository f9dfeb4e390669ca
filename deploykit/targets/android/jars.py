"""Compiles Java sources, and writes zip files whose bytes depend on nothing but their contents."""

from __future__ import annotations

import os
import shutil
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from deploykit.basics.parallel import run_program
from deploykit.basics.scratch import Scratch
from deploykit.basics.toolchain import probe
from deploykit.errors import ToolchainError

INSTALL_HINT = "install a JDK (Debian: `apt-get install default-jdk-headless`), or set JAVA_HOME to one"

_OPTIONS = (
    *("--release", "8", "-Xlint:-options", "-proc:none", "-encoding", "UTF-8", "-g", "-parameters"),
    "-J-XX:TieredStopAtLevel=1",  # the compiler ends before more optimized code of its own would pay
)

_TIME = (1980, 1, 1, 0, 0, 0)
"""The time of every file in a zip file: the first one that there is."""
_MODE = 0o644 << 16
_CHUNK = 1 << 20


@dataclass(frozen=True)
class JavaCompiler:
    path: str
    version: str

    def compile(self, sources: Mapping[str, str], declared: Mapping[str, str]) -> dict[str, bytes]:
        """The classes of `sources`, by path. `declared` are further sources that those name, whose classes are left
        out. Raises `ToolchainError` with the compiler's message."""
        with Scratch() as scratch:
            place, made = Path(scratch) / "src", Path(scratch) / "out"
            for name, text in {**sources, **declared}.items():
                (place / name).parent.mkdir(parents=True, exist_ok=True)
                (place / name).write_text(text, encoding="utf-8")
            files = [str(place / name) for name in (*sources, *declared)]
            result = run_program([self.path, *_OPTIONS, "-d", str(made), *files])
            if result.returncode != 0:
                raise ToolchainError(f"{self.path} failed with exit code {result.returncode}:\n{result.stderr[-4000:]}")
            left_out = {str(Path(name).parent) for name in declared}
            found = {path.relative_to(made): path for path in sorted(made.rglob("*.class"))}
            return {str(name): path.read_bytes() for name, path in found.items() if str(name.parent) not in left_out}


def find_java_compiler() -> JavaCompiler:
    """The Java compiler in `$JAVA_HOME`, else on the PATH. Raises `ToolchainError`, with what to install."""
    home = os.environ.get("JAVA_HOME")
    path = str(Path(home) / "bin" / "javac") if home else shutil.which("javac")
    found = probe((path,)) if path else None
    if path is None or found is None:
        raise ToolchainError(f"an AAR holds Java classes, and no Java compiler was found: {INSTALL_HINT}")
    return JavaCompiler(path, found[1])


def write_zip(path: Path, entries: Mapping[str, bytes | Path], stored: Iterable[str] = ()) -> None:
    """Write a zip file. An entry is its contents, or a file that holds them; those in `stored` are not compressed."""
    plain = set(stored)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, contents in entries.items():
            entry = zipfile.ZipInfo(name, _TIME)
            entry.external_attr = _MODE
            entry.create_system = 3
            entry.compress_type = zipfile.ZIP_STORED if name in plain else zipfile.ZIP_DEFLATED
            if isinstance(contents, bytes):
                archive.writestr(entry, contents)
                continue
            entry.file_size = contents.stat().st_size
            with contents.open("rb") as source, archive.open(entry, "w") as target:
                shutil.copyfileobj(source, target, _CHUNK)


def jar(classes: Mapping[str, bytes]) -> dict[str, bytes]:
    """The entries of a jar."""
    return {"META-INF/MANIFEST.MF": b"Manifest-Version: 1.0\r\n\r\n", **classes}

"""What a target is, and which there are.

A target turns a `Program` into the files that one platform's developers expect. It registers itself as an entry
point of the group `deploykit.targets`, in this package and in others alike. Modules of targets import the compiler
only when they compile, so that artifacts can be listed and run without it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.metadata import EntryPoint, entry_points, version
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from deploykit.errors import UsageError

if TYPE_CHECKING:
    from deploykit.artifact.manifest import Manifest, SourceEntry
    from deploykit.compiler.program.ir import Program
    from deploykit.compiler.variant import Variant
    from deploykit.engines import Engine, EngineOptions

GROUP = "deploykit.targets"


@dataclass(frozen=True)
class Availability:
    """Whether artifacts of a target can be built and run on this machine. `detail`: with what, or what is missing."""

    build: bool
    run: bool
    detail: str


@dataclass(frozen=True)
class PackageOptions:
    """`cpu`: what native kernels are compiled for, `native` for this machine. `version`: the version of deploykit that
    generated files name. `source`: the model file, where there is one. `fast_math`: kernels have the shorter forms of
    elementwise functions. Before the complete folder is put in its place, which an exception prevents,
    `require_unchanged` is called, and `check` with the folder; its result are notes."""

    cpu: str = "native"
    fast_math: bool = False
    source: SourceEntry | None = None
    require_unchanged: Callable[[], None] = lambda: None
    check: Callable[[Path], tuple[str, ...]] | None = None
    version: str = field(default_factory=partial(version, "deploykit"))


class Target(Protocol):
    """One platform. `name` is what the user types, `description` one line; `native`: kernels are machine code for one
    kind of CPU."""

    name: str
    description: str

    def check(self) -> Availability:
        """What this machine can do with the target."""
        ...

    def variants(self, cpu: str) -> Sequence[Variant]:
        """What a model is compiled for when the user asks for `cpu`, the best first: a program for each, of one
        interface, is in the artifact. Raises `UsageError` for an unknown CPU."""
        ...

    def emit(self, programs: Sequence[Program], options: PackageOptions) -> dict[str, bytes]:
        """Sources and objects by file name, of a program for each variant.

        Raises `UsageError` when the model does not fit the target.
        """
        ...

    def package(
        self, programs: Sequence[Program], emitted: Mapping[str, bytes], folder: Path, options: PackageOptions
    ) -> list[str]:
        """Write the artifact's files into `folder`, which is empty; their names, in the order to show them.

        Raises `ToolchainError`.
        """
        ...

    def engine(self, folder: Path, manifest: Manifest, scratch: Path, options: EngineOptions) -> Engine:
        """The model of an artifact folder, ready to run; what has to be built for that, is in `scratch`.

        Raises `ToolchainError`, and `UsageError` when it cannot have so many threads, kernels for the CPU,
        or the device.
        """
        ...

    def sources(self, folder: Path) -> list[Path]:
        """The C files and objects of an artifact folder that make up the model. Raises `UsageError` for none."""
        ...


def target_names() -> tuple[str, ...]:
    """The names of the registered targets, sorted."""
    return tuple(sorted(_entries(tuple(sys.path))))


def targets() -> dict[str, Target]:
    """Every registered target by name, sorted."""
    return {name: find_target(name) for name in target_names()}


def find_target(name: str) -> Target:
    """Raises `UsageError`, with the names there are, for an unknown one."""
    entries = _entries(tuple(sys.path))
    if name not in entries:
        raise UsageError(f"there is no target '{name}'; there are {', '.join(sorted(entries)) or 'none'}")
    target: Target = entries[name].load()()
    return target


@cache
def _entries(path: tuple[str, ...]) -> dict[str, EntryPoint]:  # noqa: ARG001
    """What packages on `path`, which is that of this process, register."""
    return {entry.name: entry for entry in entry_points(group=GROUP)}

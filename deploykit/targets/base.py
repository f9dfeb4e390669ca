"""What a target is, and which there are.

A target turns a `Program` into the files that one platform's developers expect. It registers itself as an entry
point of the group `deploykit.targets`, in this package and in others alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from deploykit.artifact import Artifact, artifact_folder
from deploykit.errors import UsageError
from deploykit.manifest import MANIFEST, Manifest, describe_files, generator_version

if TYPE_CHECKING:
    from deploykit.compiler.program.ir import Program

GROUP = "deploykit.targets"


@dataclass(frozen=True)
class Availability:
    """Whether artifacts of a target can be built and run on this machine. `detail`: with what, or what is missing."""

    build: bool
    run: bool
    detail: str


@dataclass(frozen=True)
class PackageOptions:
    """`cpu`: what native kernels are compiled for, `native` for this machine. `times`: seconds by stage, so far.
    `version`: the version of deploykit that generated files name."""

    cpu: str = "native"
    times: Mapping[str, float] = field(default_factory=dict)
    version: str = field(default_factory=generator_version)


class Target(Protocol):
    """One platform. `name` is what the user types, `description` one line."""

    name: str
    description: str

    def check(self) -> Availability: ...

    def package(self, program: Program, folder: Path, options: PackageOptions) -> list[str]:
        """Write the artifact's files into `folder`, which is empty; their names, in the order to show them.

        Raises `ToolchainError`, and `UsageError` when the program does not fit the target.
        """
        ...

    def library(self, folder: Path, scratch: Path) -> Path:
        """The shared library of an artifact folder that this machine can load; built in `scratch` if need be.

        Raises `ToolchainError`, and `UsageError` when artifacts of this target do not run on this machine.
        """
        ...


def targets() -> dict[str, Target]:
    """Every registered target by name, sorted."""
    return {name: find_target(name) for name in sorted(entry_points(group=GROUP).names)}


def find_target(name: str) -> Target:
    """Raises `UsageError`, with the names there are, for an unknown one."""
    entries = {entry.name: entry for entry in entry_points(group=GROUP)}
    if name not in entries:
        raise UsageError(f"there is no target '{name}'; there are {', '.join(sorted(entries)) or 'none'}")
    target: Target = entries[name].load()()
    return target


def write_artifact(program: Program, target: Target, output: Path, options: PackageOptions) -> Artifact:
    """Package `program` at `output`, whole or not at all, with its manifest.

    Raises `UsageError` when `output` cannot be written or holds something else, and what `Target.package` raises.
    """
    from deploykit.compiler.codegen.interface import describe

    with artifact_folder(output) as folder:
        names = target.package(program, folder, options)
        manifest = Manifest(
            generator=f"deploykit {options.version}",
            target=target.name,
            cpu=options.cpu,
            files=describe_files(folder, names),
            times=dict(options.times),
            **describe(program),
        )
        (folder / MANIFEST).write_text(manifest.to_json(), encoding="utf-8")
    return Artifact(output, manifest)

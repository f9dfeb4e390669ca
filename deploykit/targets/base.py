"""The interface of a target, and the list of registered targets.

A target turns `Program`s into the files that the developers of one platform expect. It is registered as an entry point
of the group `deploykit.targets`, in this package or in another one. Modules of targets import the compiler only when
they compile, so that artifacts can be listed and run without it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from deploykit.basics.installation import installed_version
from deploykit.errors import UsageError
from deploykit.options.option import options_of
from deploykit.options.parts import USUAL, CompileOptions

if TYPE_CHECKING:
    from deploykit.artifact.manifest import Manifest, SourceEntry
    from deploykit.compiler.program.ir import Program
    from deploykit.compiler.variant import Variant
    from deploykit.engines import Engine, EngineOptions

GROUP = "deploykit.targets"


@dataclass(frozen=True)
class Availability:
    """Whether artifacts of a target can be built and run on this machine. `detail` names the tools, found or
    missing."""

    build: bool
    run: bool
    detail: str


@dataclass(frozen=True)
class FinalCheck:
    """What is done with a complete artifact before it is put in its place. `run` takes its folder and returns notes. A
    model with more than `most_bytes` of weights is left alone."""

    run: Callable[[Path], tuple[str, ...]]
    most_bytes: int | None = None


@dataclass(frozen=True)
class PackageOptions:
    """The options of a build that targets and the packaging use.

    `cpu` is the CPU that native kernels are compiled for, `native` for this machine. `devices` are what else kernels
    are for, such as `vulkan`. `compiling` is what the compiler is asked for. `source` is the model file, if there is
    one, and `place` its path. `version` is the version of deploykit named in generated files. Before the complete
    folder is put in its place, `require_unchanged` is called, then `check`; an exception of either prevents the folder.
    `format` is one of the target's formats, empty for the usual one. `own` are the target's own options, of the type
    `Target.Options`; `None` is as if none was given."""

    cpu: str = "native"
    devices: tuple[str, ...] = ()
    compiling: CompileOptions = USUAL
    source: SourceEntry | None = None
    place: Path | None = None
    require_unchanged: Callable[[], None] = lambda: None
    check: FinalCheck | None = None
    format: str = ""
    own: Any = None
    version: str = field(default_factory=installed_version)


class Target(Protocol):
    """One platform. `name` is what the user types, `description` is one line.

    A target may also have `formats`, the forms of its artifacts, the usual one first, and `Options`, a frozen dataclass
    of what only this target can be told, as texts (`deploykit.options.option`). Where the variants depend on them,
    `configured` gives the target with these options. `least_quantized` is the fewest elements of a weight that
    `--quantize` changes, if it is not the usual number: where all weights are small, their bytes count, too.
    `greatest_quantized` is the greatest integer of weights in int8, if it is not 127: where instructions take 7 bits of
    one operand."""

    name: str
    description: str

    def check(self) -> Availability:
        """Whether this machine can build and run artifacts of the target."""
        ...

    def variants(self, cpu: str, devices: Sequence[str] = ()) -> Sequence[Variant]:
        """The variants of a model when the user asks for `cpu` and `devices`, the best first.

        The artifact holds a program for each variant, all with one interface. Raises `UsageError` for an unknown CPU or
        device.
        """
        ...

    def emit(self, programs: Sequence[Program], options: PackageOptions) -> dict[str, bytes]:
        """Generate sources and objects, by file name, from the programs of all variants.

        Raises `UsageError` if the model does not fit the target.
        """
        ...

    def package(
        self, programs: Sequence[Program], emitted: Mapping[str, bytes], folder: Path, options: PackageOptions
    ) -> list[str]:
        """Write the artifact's files into the empty `folder`; returns their names, in the order to show them.

        Raises `ToolchainError`.
        """
        ...

    def engine(self, folder: Path, manifest: Manifest, scratch: Path, options: EngineOptions) -> Engine:
        """Make an engine for an artifact folder; files that must be built for that are put into `scratch`.

        Raises `ToolchainError`, and `UsageError` if the artifact does not support the threads, the CPU or the device.
        """
        ...

    def sources(self, folder: Path) -> list[Path]:
        """The C files and objects in an artifact folder that make up the model. Raises `UsageError` if it has none."""
        ...


class TargetOfSeveral(Target, Protocol):
    """A target that makes one artifact of several models, in the first of its formats. With it come those of each model
    alone, in the format `alone`."""

    formats: tuple[str, ...]
    alone: str

    def package_together(
        self, models: Sequence[tuple[Sequence[Program], Mapping[str, bytes], PackageOptions]], folder: Path
    ) -> list[str]:
        """Write the files of all models into the empty `folder`, those of one model into a folder of its prefix;
        returns their names. `models` are programs, what was emitted, and options.

        Raises `UsageError` if they cannot be in one artifact, and `ToolchainError`."""
        ...


def require_no_devices(target: Target, devices: Sequence[str]) -> None:
    """Raise `UsageError` if there are any devices: the target has none to choose."""
    if devices:
        raise UsageError(f"target {target.name} has no devices to choose: build without --device {','.join(devices)}")


def target_names() -> tuple[str, ...]:
    """The names of the registered targets, sorted."""
    return tuple(sorted(_entries(tuple(sys.path))))


def targets() -> dict[str, Target]:
    """Every registered target by name, sorted."""
    return {name: find_target(name) for name in target_names()}


def find_target(name: str) -> Target:
    """The target called `name`. Raises `UsageError`, with the known names, for an unknown one."""
    entries = _entries(tuple(sys.path))
    if name not in entries:
        raise UsageError(f"there is no target '{name}'; there are {', '.join(sorted(entries)) or 'none'}")
    target: Target = entries[name].load()()
    return target


@dataclass(frozen=True)
class NoOptions:
    """The own options of a target that has none."""


def options_of_target(target: Target) -> type[Any]:
    return getattr(target, "Options", NoOptions)


def own_options(target: Target, form: str, given: Mapping[str, str]) -> Any:
    """The target's own options. Raises `UsageError` unless it has this format (empty: the usual one), and these
    options."""
    formats: Sequence[str] = getattr(target, "formats", ())
    kind = options_of_target(target)
    if form and form not in formats:
        raise UsageError(f"target {target.name} has no format '{form}': it has {', '.join(formats) or 'one form'}")
    known = {name.removesuffix("_"): name for name in options_of(kind)}  # words of Python have a suffix, as `class_`
    for name in given:
        if name not in known:
            raise UsageError(f"target {target.name} has no setting '{name}': it has {', '.join(known) or 'none'}")
    return kind(**{known[name]: value for name, value in given.items()})


def configured(target: Target, own: Any) -> Target:
    """The target with its own options, if its variants depend on them."""
    change: Callable[[Any], Target] | None = getattr(target, "configured", None)
    return target if change is None else change(own)


@cache
def _entries(path: tuple[str, ...]) -> dict[str, EntryPoint]:  # noqa: ARG001
    """The targets that packages on `path` register; `path` is `sys.path`, so that a changed one is read again."""
    return {entry.name: entry for entry in entry_points(group=GROUP)}

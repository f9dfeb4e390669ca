"""`manifest.json`: what an artifact folder holds and how to call it. The same input gives the same text, `times` apart.

Extents are numbers, or formulas over dims as text; an extent that is neither a number nor over dims is the name of a
size that only a run can tell.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path, PurePosixPath

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from deploykit.errors import ArtifactError
from deploykit.parallel import each

MANIFEST = "manifest.json"
SCHEMA_VERSION = 1

_THOROUGH_BELOW = 8 << 20
"""Bytes: larger files are compressed with gzip's fastest level; weights hardly shrink at any."""


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PortEntry(_Entry):
    name: str
    dtype: str
    shape: tuple[int | str, ...]


class DimEntry(_Entry):
    """`capacity_of` names the tensor for whose elements a caller-chosen dim makes room."""

    name: str
    minimum: int
    maximum: int | None = None
    capacity_of: str | None = None


class MemoryEntry(_Entry):
    """Bytes. `formula` is over dims; `at_bounds` its value at all upper bounds, None while one is unbounded."""

    formula: str
    at_bounds: int | None = None
    weights: int


class FileEntry(_Entry):
    """A file of the folder by its relative path. `gzip_bytes` is what a transfer with gzip takes."""

    name: str
    bytes: int
    gzip_bytes: int
    sha256: str

    @field_validator("name")
    @classmethod
    def _inside(cls, name: str) -> str:
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            raise ValueError(f"'{name}' is not inside the folder")
        return name


class SourceEntry(_Entry):
    """The model file that an artifact was built from: its name without folder, and its checksum."""

    file: str
    sha256: str


class Manifest(_Entry):
    """`prefix` starts every public C symbol; `cpu` is what native kernels were compiled for; `levels` are the CPUs, the
    best first, where there are kernels for several; `fast_math`: whether elementwise functions have their shorter
    forms; `times` are seconds a stage of the build."""

    schema_version: int = SCHEMA_VERSION
    generator: str
    name: str
    prefix: str
    target: str
    cpu: str | None = None
    levels: tuple[str, ...] = ()
    fast_math: bool = False
    inputs: tuple[PortEntry, ...]
    outputs: tuple[PortEntry, ...]
    dims: tuple[DimEntry, ...]
    peak_memory: MemoryEntry
    files: tuple[FileEntry, ...]
    source: SourceEntry | None = None
    notes: tuple[str, ...] = ()
    times: Mapping[str, float] = {}

    @property
    def machine(self) -> str:
        """What the artifact is for, for people: the target, and how its kernels are compiled."""
        parts = (self.target, self.cpu, "fast math" if self.fast_math else None)
        return ", ".join(part for part in parts if part)

    def to_json(self) -> str:
        return self.model_dump_json(indent=2) + "\n"


def generator_version() -> str:
    """The version of deploykit that is installed."""
    return version("deploykit")


def read_manifest(folder: Path) -> Manifest:
    """The manifest of an artifact folder.

    Raises `ArtifactError` when the folder holds none, or one that is damaged or of another schema version.
    """
    path = folder / MANIFEST
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ArtifactError(f"{folder} is no artifact folder: {path} cannot be read ({error})") from error
    try:
        found = json.loads(text).get("schema_version")
        if found != SCHEMA_VERSION:
            raise ArtifactError(
                f"{path} has schema version {found}, this is deploykit {generator_version()} with version "
                f"{SCHEMA_VERSION}: build the model again"
            )
        return Manifest.model_validate_json(text)
    except (ValidationError, ValueError, AttributeError, RecursionError) as error:
        raise ArtifactError(f"{path} is damaged: {error}") from error


def describe_source(path: Path) -> SourceEntry:
    """The entry of a model file. Raises `OSError` as the file system does."""
    with path.open("rb") as file:
        return SourceEntry(file=path.name, sha256=hashlib.file_digest(file, "sha256").hexdigest())


def describe_files(folder: Path, names: Iterable[str]) -> tuple[FileEntry, ...]:
    """An entry for each of `names`, in order."""
    return tuple(each(lambda name: _describe(folder, name), names))


def _describe(folder: Path, name: str) -> FileEntry:
    data = (folder / name).read_bytes()
    return FileEntry(name=name, bytes=len(data), gzip_bytes=_gzip_bytes(data), sha256=hashlib.sha256(data).hexdigest())


def _gzip_bytes(data: bytes) -> int:
    """The size of a gzip file, which for large data has several members."""
    if len(data) < _THOROUGH_BELOW:
        return len(gzip.compress(data, compresslevel=9, mtime=0))
    members = [memoryview(data)[start : start + _THOROUGH_BELOW] for start in range(0, len(data), _THOROUGH_BELOW)]
    return sum(each(lambda member: len(gzip.compress(member, compresslevel=1, mtime=0)), members))


def verify_files(folder: Path, manifest: Manifest) -> None:
    """Raises `ArtifactError`, naming the file, unless every file is there and has its checksum."""
    for entry in manifest.files:
        path = folder / entry.name
        try:
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise ArtifactError(f"{path} is missing or cannot be read ({error}): build the model again") from error
        if digest != entry.sha256:
            raise ArtifactError(f"{path} has changed since it was built (sha256 {digest}): build the model again")

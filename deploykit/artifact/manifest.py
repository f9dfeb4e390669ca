"""`manifest.json`: what an artifact folder holds and how to call it. Equal builds give equal texts.

An extent is a number, a formula over dims as text, or the name of a size that is known only during a run.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, BinaryIO, Literal

from pydantic import (
    BaseModel,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    field_serializer,
    field_validator,
    model_serializer,
)

from deploykit.artifact.entries import Entry
from deploykit.artifact.streams import StreamEntry
from deploykit.artifact.tasks import TaskEntry
from deploykit.basics.dtypes import logical_dtype
from deploykit.basics.installation import installed_version
from deploykit.basics.parallel import each
from deploykit.errors import ArtifactError, UsageError
from deploykit.sessions.structure import Structure

MANIFEST = "manifest.json"
SCHEMA_VERSION = 2

MEASURED_BELOW = 8 << 20
"""Bytes: the gzip size of files from this size on is estimated, because compressing them all would take longer than the
rest of a build."""

_SAMPLES, _SAMPLE_BYTES = 64, 64 << 10
"""How many pieces of a large file are compressed for that estimate, and the bytes of each."""


class AffineEntry(Entry):
    """What the integers of a quantised tensor mean: `(integer - zero_point) * scale`."""

    scale: float
    zero_point: int


class PortEntry(Entry):
    """An input, output or state. `instance` is the shape of one instance of a ragged tensor (see
    `deploykit.compiler.model.Port`); a text that is no name of an input is a formula. `quantization` is set for
    quantised integers with a single scale."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]
    instance: tuple[int | str, ...] | None = None
    quantization: AffineEntry | None = None

    @model_serializer(mode="wrap")
    def _without_absent(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields: dict[str, Any] = handler(self)
        return {name: value for name, value in fields.items() if value is not None}


class DimEntry(Entry):
    """A dim with its bounds. `capacity_of` is set if the caller chooses the dim: the tensor that it makes room for."""

    name: str
    minimum: int
    maximum: int | None = None
    capacity_of: str | None = None


class MemoryEntry(Entry):
    """Peak memory in bytes: `formula` over dims, and `at_bounds`, its value at all upper bounds, None if a dim has
    none."""

    formula: str
    at_bounds: int | None = None
    weights: int


class FileEntry(Entry):
    """A file of the folder by its relative path. `gzip_bytes` is its size after gzip, estimated from samples for files
    of `MEASURED_BELOW` bytes and more."""

    name: str
    bytes: int
    gzip_bytes: int
    sha256: str

    @field_validator("name")
    @classmethod
    def _inside(cls, name: str) -> str:
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts or "\0" in name:
            raise ValueError(f"'{name}' is not inside the folder")
        return name


class SourceEntry(Entry):
    """The model file that an artifact was built from: its name without folder, and its checksum."""

    file: str
    sha256: str


class StatesEntry(Entry):
    """The states: tensors that keep their contents between runs. Their shapes are over `dims`, which the caller
    chooses; `formula` gives their total bytes."""

    tensors: tuple[PortEntry, ...]
    dims: tuple[DimEntry, ...]
    formula: str

    @property
    def item_bytes(self) -> tuple[int, ...]:
        """Of each state, the bytes of an item of its first axis, where no other axis has a dim."""
        return tuple(
            logical_dtype(port.dtype).storage.itemsize * math.prod(int(extent) for extent in port.shape[1:])
            for port in self.tensors
        )


class FunctionEntry(Entry):
    """One of several functions, with the fields that `Manifest` has for a single one. Its public C symbols start with
    `prefix`; `states` says whether it uses the states of the artifact."""

    name: str
    prefix: str
    inputs: tuple[PortEntry, ...]
    outputs: tuple[PortEntry, ...]
    inputs_as: tuple[Structure, ...] = ()
    outputs_as: tuple[Structure, ...] = ()
    dims: tuple[DimEntry, ...]
    peak_memory: MemoryEntry
    states: bool = False


class PaddedEntry(Entry):
    """The model that an artifact was converted from, where it pads: what its inputs are for one ragged dim.

    There, ragged inputs have the shape [`batch`, `dim`, ...], and the inputs `masks` are 1 at the elements of an
    instance and 0 at padding. The artifact takes the `lengths` in their place. `maximum` is the largest length. `flops`
    is the number of operations of that model, as a formula over its dims. `squares` names the sum of the squared
    lengths in the plan."""

    dim: str
    batch: str
    lengths: str
    masks: tuple[str, ...] = ()
    maximum: int | None = None
    flops: str | None = None
    squares: str = "squares"


class VariantEntry(Entry):
    """A dataclass of a dynamic model: its fields with their types, in order."""

    name: str
    fields: dict[str, str]


class CellEntry(Entry):
    """A cell of a dynamic model: the types of the tensors that it takes for a node and gives, and how many integers it
    takes. A node takes `words` of the memory of the control flow, and its results `elements` of the pool of tensors.

    The source has `written` operators for it, which have become `operators` (see docs/dynamic.md). `beside` counts the
    tensors that they find side by side, so that nothing is copied, `gathered` those that are copied for that. With
    `looked_up`, its results were computed for each integer when the model was built.

    `after`, `phase` and `depth` are described in `deploykit.compiler.batching.flow`; `after` has the names of cells."""

    name: str
    takes: tuple[str, ...]
    numbers: int
    gives: tuple[str, ...]
    words: int
    elements: int
    written: int
    operators: int
    beside: int
    gathered: int
    looked_up: bool
    after: tuple[str, ...]
    phase: int
    depth: int | None


class ControlEntry(Entry):
    """A function of the control flow of a dynamic model: the functions that it calls, those of them that it calls
    several times at once, the cells that it records, and whether it waits for the value of a tensor."""

    name: str
    calls: tuple[str, ...]
    together: tuple[str, ...]
    cells: tuple[str, ...]
    waits: bool


class DynamicEntry(Entry):
    """How a dynamic model is called: the parameters of its `main` with their types, and the type that it returns, as in
    Python (`deploykit.dynamic.signatures`). `functions` are its control flow, the first one runs an instance; `cells`
    are what they launch; `policy` is the order in which they do."""

    takes: dict[str, str]
    gives: str
    unions: dict[str, tuple[VariantEntry, ...]]
    functions: tuple[ControlEntry, ...]
    cells: tuple[CellEntry, ...]
    policy: str


class Manifest(Entry):
    """The contents of `manifest.json`.

    Every public C symbol starts with `prefix`. `cpu` is the CPU that native kernels were compiled for; if there are
    kernels for several CPUs, `levels` lists them, the best first. `devices` are what else there are kernels for, such
    as `vulkan`. `glibc` is the least version of the GNU C library that its libraries need, if they do. `fast_math` says
    whether elementwise functions have their shorter forms, `precision` in which numbers products are computed.
    `inputs_as` and `outputs_as` give the structure of the user's values; they are empty if each is a tensor. If there
    are several `functions`, they hold the inputs, outputs and dims instead of the manifest; the manifest of one of them
    has the `shared_prefix` of all. `padded` has an entry for each ragged dim that the model has as a padded one.
    `stream` says which frames a run of a stream takes.
    `dynamic` says how a dynamic model is called, `task` what the model is for in the user's terms. `times` gives the
    seconds of each stage, where the artifact was built in this process."""

    schema_version: int = SCHEMA_VERSION
    generator: str
    name: str
    prefix: str
    target: str
    cpu: str | None = None
    levels: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    glibc: str = ""
    fast_math: bool = False
    precision: Literal["float32", "bf16"] = "float32"
    inputs: tuple[PortEntry, ...]
    outputs: tuple[PortEntry, ...]
    inputs_as: tuple[Structure, ...] = ()
    outputs_as: tuple[Structure, ...] = ()
    dims: tuple[DimEntry, ...]
    peak_memory: MemoryEntry
    functions: tuple[FunctionEntry, ...] = ()
    states: StatesEntry | None = None
    shared_prefix: str = ""
    padded: tuple[PaddedEntry, ...] = ()
    stream: StreamEntry | None = None
    dynamic: DynamicEntry | None = None
    task: TaskEntry | None = None
    files: tuple[FileEntry, ...]
    source: SourceEntry | None = None
    notes: tuple[str, ...] = ()
    times: Mapping[str, float] = {}

    @field_serializer("notes")
    def _printable(self, notes: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(printable, notes))

    @property
    def machine(self) -> str:
        """The target and how the kernels are compiled, as a text for people."""
        needs = f"needs glibc {self.glibc}" if self.glibc else None
        narrow = None if self.precision == "float32" else self.precision
        parts = (self.target, self.cpu, "fast math" if self.fast_math else None, narrow, needs)
        return ", ".join(part for part in parts if part)

    @property
    def taken(self) -> tuple[Structure, ...]:
        """The inputs as the user gives them."""
        return self.inputs_as or tuple(Structure(port.name, "tensor") for port in self.inputs)

    @property
    def given(self) -> tuple[Structure, ...]:
        """The outputs as the user gets them."""
        return self.outputs_as or tuple(Structure(port.name, "tensor") for port in self.outputs)

    def function(self, name: str | None = None) -> Manifest:
        """The manifest as if the artifact had only the function `name`; None stands for the only function.

        Raises `UsageError` if there is no such function, or if `name` is None and there are several.
        """
        names = ", ".join(entry.name for entry in self.functions)
        if name is None and self.functions:
            raise UsageError(f"'{self.name}' has several functions, {names}: say which one to run")
        if not self.functions:
            if name is not None:
                raise UsageError(f"'{self.name}' has one function, without a name")
            return self
        for entry in self.functions:
            if entry.name == name:
                own = {field: getattr(entry, field) for field in FunctionEntry.model_fields}
                own |= {"name": f"{self.name}.{name}", "states": self.states if entry.states else None}
                own["shared_prefix"] = self.prefix
                return self.model_copy(update=own | {"functions": ()})
        raise UsageError(f"'{self.name}' has no function '{name}': it has {names}")

    def to_json(self) -> str:
        """The text of `manifest.json`: without the times, so that two builds are the same bytes."""
        optional = (
            "inputs_as",
            "outputs_as",
            "functions",
            "states",
            "shared_prefix",
            "padded",
            "stream",
            "dynamic",
            "task",
            "devices",
            "glibc",
        )
        plain = {name for name in optional if not getattr(self, name)}
        return self.model_dump_json(indent=2, exclude=plain | {"times"}) + "\n"


class SeveralManifest(Entry):
    """The contents of `manifest.json` of an artifact of several `models`. The folder of each, with its own manifest, is
    the artifact of the model alone."""

    schema_version: int = SCHEMA_VERSION
    generator: str
    target: str
    models: tuple[str, ...]
    files: tuple[FileEntry, ...]
    times: Mapping[str, float] = {}

    def to_json(self) -> str:
        """The text of `manifest.json`."""
        return self.model_dump_json(indent=2, exclude={"times"}) + "\n"


class _Listing(BaseModel):
    """What all manifests have, also those of earlier schema versions."""

    schema_version: Annotated[int, Field(ge=1, le=SCHEMA_VERSION)]
    files: tuple[FileEntry, ...]


def files_of(folder: Path) -> tuple[FileEntry, ...]:
    """The files of an artifact folder, which may be one of an earlier schema version, or of several models.

    Raises `ArtifactError` as `read_manifest` does.
    """
    try:
        return _Listing.model_validate_json(_text_of(folder)).files
    except ValidationError:
        return read_manifest(folder).files


def _text_of(folder: Path) -> str:
    path = folder / MANIFEST
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ArtifactError(f"{folder} is no artifact folder: {path} cannot be read ({error})") from error


def read_manifest(folder: Path) -> Manifest:
    """The manifest of an artifact folder.

    Raises `ArtifactError` if the manifest is missing, damaged, or of another schema version.
    """
    path, text = folder / MANIFEST, _text_of(folder)
    try:
        entries = json.loads(text)
        found = entries.get("schema_version")
        if found != SCHEMA_VERSION:
            raise ArtifactError(
                f"{path} has schema version {found}, this is deploykit {installed_version()} with version "
                f"{SCHEMA_VERSION}: build the model again"
            )
        if models := entries.get("models"):
            names = ", ".join(str(folder / str(name)) for name in models)
            raise ArtifactError(f"{folder} holds several models: name the folder of one: {names}")
        return Manifest.model_validate_json(text)
    except (ValidationError, ValueError, AttributeError, RecursionError) as error:
        raise ArtifactError(f"{path} is damaged: {error}") from error


def printable(text: str) -> str:
    """The name of a file, or what names one, as text: bytes that are not UTF-8 become replacement characters."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def describe_source(path: Path) -> SourceEntry:
    """The entry of a model file. Raises `OSError` as the file system does."""
    with path.open("rb") as file:
        return SourceEntry(file=printable(path.name), sha256=hashlib.file_digest(file, "sha256").hexdigest())


def describe_files(folder: Path, names: Iterable[str]) -> tuple[FileEntry, ...]:
    """An entry for each of `names`, in order."""
    return tuple(each(lambda name: _describe(folder, name), names))


def _describe(folder: Path, name: str) -> FileEntry:
    with (folder / name).open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        size = file.seek(0, os.SEEK_END)
        return FileEntry(name=name, bytes=size, gzip_bytes=_gzip_bytes(file, size), sha256=digest)


def _gzip_bytes(file: BinaryIO, size: int) -> int:
    """The size of a file after gzip; for a large file estimated from evenly spaced samples."""
    if size < MEASURED_BELOW:
        file.seek(0)
        return len(gzip.compress(file.read(), compresslevel=9, mtime=0))
    samples = b""
    for sample in range(_SAMPLES):
        file.seek((size - _SAMPLE_BYTES) * sample // (_SAMPLES - 1))
        samples += file.read(_SAMPLE_BYTES)
    return size * len(gzip.compress(samples, mtime=0)) // len(samples)


def verify_files(folder: Path, manifest: Manifest) -> None:
    """Raise `ArtifactError`, naming the file, unless every file exists and has its checksum."""
    for entry in manifest.files:
        path = folder / entry.name
        try:
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise ArtifactError(f"{path} is missing or cannot be read ({error}): build the model again") from error
        if digest != entry.sha256:
            raise ArtifactError(f"{path} has changed since it was built (sha256 {digest}): build the model again")

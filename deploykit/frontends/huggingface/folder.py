"""Reads a Hugging Face folder: its configuration and its weights.

Weights are in `model.safetensors`, or in the shards that `model.safetensors.index.json` lists. Nothing is unpickled, so
folders with only `.bin` or `.pt` files are refused. Links that lead out of the folder are refused, too, unless they
lead to the blobs of the cache of huggingface_hub, which stores each folder as links.
"""

from __future__ import annotations

import json
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from deploykit.artifact.manifest import printable
from deploykit.basics.mapped import MappedFile
from deploykit.compiler.operators.quantized.groups import Grouped
from deploykit.errors import UsageError
from deploykit.frontends.huggingface.entries import NAME, NAMES, Kind, check_entries, check_settings, null_is_wrong
from deploykit.frontends.huggingface.safetensors import read_safetensors

CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"

Groups: TypeAlias = Callable[[str], Grouped | None]

PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt")
CONVERSION = (
    "python -c \"from transformers import AutoModel; AutoModel.from_pretrained('{folder}')"
    ".save_pretrained('{folder}', safe_serialization=True)\""
)


def is_folder(source: object) -> bool:
    """Whether `source` is the path of a folder with a configuration."""
    return isinstance(source, str | Path) and (Path(source) / CONFIG).is_file()


NO_ALIASES: Mapping[str, str] = {}
NO_KINDS: Mapping[str, Kind] = {}


@dataclass(frozen=True)
class Config(Mapping[str, Any]):
    """The entries of a configuration. A family reads those that it needs as attributes. `defaults` are among the
    entries; `own` are the names in the file of those that it calls otherwise; `read` are the names of those that were
    asked for."""

    path: Path
    entries: Mapping[str, Any]
    defaults: Mapping[str, Any] = field(default_factory=dict, repr=False)
    own: Mapping[str, str] = field(default_factory=dict, repr=False)
    read: set[str] = field(default_factory=set, compare=False, repr=False)

    def __getitem__(self, name: str) -> Any:
        self.read.add(name)
        return self.entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name not in self.entries:
            raise UsageError(f"{self.path} has no '{name}', which a model of type '{self.get('model_type')}' needs")
        value = self[name]
        if value is None and (wanted := null_is_wrong(name, self.defaults)):
            raise UsageError(f"'{self.own.get(name, name)}' is null in {self.path}; it must be {wanted}")
        return value

    def completed(self, defaults: Mapping[str, Any], aliases: Mapping[str, str] = NO_ALIASES) -> Config:
        """The configuration with these values for entries that it lacks. `aliases` are names of entries and the usual
        names that take their place. Raises `UsageError` for an entry of another type or out of its range."""
        check_entries(self.path, self.entries, defaults, aliases)
        own = {aliases[name]: name for name in self.entries.keys() & aliases.keys()}
        named: Any = self.entries
        if own:
            named = {aliases.get(name, name): value for name, value in self.entries.items()}
        return Config(self.path, ChainMap(named, dict(defaults)), defaults, own)

    def part(self, name: str) -> Config:
        """The configuration of a part, such as `vision_config`."""
        found = getattr(self, name)
        if not isinstance(found, dict):
            raise UsageError(f"'{name}' in {self.path} is no JSON object")
        return Config(self.path, found)


def no_groups(_name: str) -> None:
    """Of a folder whose weights are in no groups."""


@dataclass(frozen=True)
class Folder:
    """A folder: `config` is its configuration, `weights` are its tensors by name, as views of the mapped `files`. Of a
    single file that holds all of it, `documents` are what the JSON files of a folder would say, by their names.
    `groups` gives a weight in groups of few bits, by its name; None for one that is not."""

    path: Path
    config: Config
    weights: Mapping[str, np.ndarray] = field(repr=False)
    files: tuple[MappedFile, ...] = field(repr=False)
    documents: Mapping[str, Any] | None = field(default=None, repr=False)
    groups: Groups = field(default=no_groups, repr=False)

    @property
    def name(self) -> str:
        """The name of the folder or file, as text."""
        return printable(self.path.resolve().name)

    def has(self, name: str) -> bool:
        """Whether there is a file of this name."""
        return (self.path / name).exists() if self.documents is None else name in self.documents

    def json(self, name: str) -> Any:
        """The JSON of a file of the folder; None if there is no such file. Raises `UsageError` if it is damaged."""
        if self.documents is not None:
            return self.documents.get(name)
        path = inside(self.path, name)
        return read_json(path) if path.exists() else None

    def object(self, name: str, kinds: Mapping[str, Kind] = NO_KINDS) -> dict[str, Any] | None:
        """The JSON object of a file; None if there is no such file. Raises `UsageError` for other JSON, and for an
        entry that is not of its kind."""
        found = self.json(name)
        if not isinstance(found, dict | None):
            raise UsageError(f"{self.path / name} is no JSON object")
        check_settings(self.path / name, found or {}, kinds)
        return found

    def objects(self, name: str, kinds: Mapping[str, Kind] = NO_KINDS) -> list[dict[str, Any]]:
        """The JSON objects that a file lists. Raises `UsageError` for other JSON, and for an entry that is not of its
        kind."""
        found = self.json(name)
        if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
            raise UsageError(f"{self.path / name} is no list of JSON objects")
        for each in found:
            check_settings(self.path / name, each, kinds)
        return found

    def part(self, name: str, part: str) -> Any:
        """An entry of the JSON object of a file; None if there is no such file or entry."""
        return (self.object(name) or {}).get(part)


def read_folder(path: Path) -> Folder:
    """Read a folder. Raises `UsageError` if it has no configuration or no weights that can be read."""
    entries = read_json(inside(path, CONFIG))
    if not isinstance(entries, dict) or not NAME.holds(entries.get("model_type")):
        raise UsageError(f"{path / CONFIG} says no 'model_type', so it is not the configuration of a model")
    if (named := entries.get("architectures")) is not None and not NAMES.holds(named):
        raise UsageError(f"'architectures' is {named!r} in {path / CONFIG}; it must be {NAMES.text}")
    files, weights = _weights(path)
    return Folder(path, Config(path / CONFIG, entries), weights, files)


def read_json(path: Path) -> Any:
    """The content of a JSON file. Raises `UsageError` if it cannot be read."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error


def inside(folder: Path, name: str) -> Path:
    """The path of a file of the folder. Raises `UsageError` for one outside, by its name or by a link, and for a name
    that no file can have."""
    path = folder / name
    try:
        is_broken, target, home = path.is_symlink() and not path.exists(), path.resolve(), folder.resolve()
    except (OSError, ValueError) as error:
        raise UsageError(f"{folder} names a file {name!r:.60}, which cannot be: {error!s:.60}") from error
    if is_broken:
        raise UsageError(f"{path} is a link to {path.readlink()}, which is not there: download the folder again")
    blobs = home.parent.parent / "blobs" if home.parent.name == "snapshots" else home
    if not target.is_relative_to(home) and not target.is_relative_to(blobs):
        raise UsageError(f"{path} leads out of the folder, to {target}: copy the file into the folder")
    return path


def _weights(folder: Path) -> tuple[tuple[MappedFile, ...], dict[str, np.ndarray]]:
    names = _shards(folder)
    files: list[MappedFile] = []
    weights: dict[str, np.ndarray] = {}
    for name, expected in names.items():
        path = inside(folder, name)
        if not path.is_file():
            raise UsageError(f"{folder} lacks {name}, a part of the weights: download the folder again")
        file, tensors = read_safetensors(path)
        if missing := expected - tensors.keys():
            raise UsageError(f"{path} lacks '{min(missing)}', which {INDEX} says is there: download the folder again")
        files.append(file)
        weights |= {_named(tensor): array for tensor, array in tensors.items()}
    return tuple(files), weights


def _named(tensor: str) -> str:
    """The name of a tensor. The oldest files have the names that TensorFlow gives scales and shifts."""
    for old, name in {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}.items():
        if tensor.endswith(old):
            return tensor.removesuffix(old) + name
    return tensor


def _shards(folder: Path) -> dict[str, set[str]]:
    """The files with weights, and the names of the tensors that the index says are in each."""
    if (folder / INDEX).exists():
        found = read_json(inside(folder, INDEX))
        places = found.get("weight_map") if isinstance(found, dict) else None
        if not isinstance(places, dict) or not all(isinstance(file, str) for file in places.values()):
            raise UsageError(f"{folder / INDEX} has no 'weight_map' from tensors to files")
        shards: dict[str, set[str]] = {}
        for tensor, file in places.items():
            shards.setdefault(file, set()).add(tensor)
        return shards
    if (folder / WEIGHTS).exists() or (folder / WEIGHTS).is_symlink():
        return {WEIGHTS: set()}
    pickles = sorted(found.name for pattern in PICKLES for found in folder.glob(pattern))
    if pickles:
        raise UsageError(
            f"the weights of {folder} are in {pickles[0]}, which can run any code when it is read. Convert them, if "
            f"you trust it:\n    {CONVERSION.format(folder=folder)}"
        )
    if next(folder.rglob("*.incomplete"), None) is not None:
        raise UsageError(f"{folder} has no weights: its download was interrupted; run it again to continue")
    raise UsageError(f"{folder} has no weights: neither {WEIGHTS} nor {INDEX}; download one of them")

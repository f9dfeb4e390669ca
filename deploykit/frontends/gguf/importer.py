"""`read_model`: a GGUF file as the folder that the importer of Hugging Face folders takes."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from deploykit.compiler.operators.quantized.groups import Grouped
from deploykit.frontends.gguf.families import (
    FACTORS,
    GgufFamily,
    config_of,
    entries_of,
    family_of,
    name_in_folder,
)
from deploykit.frontends.gguf.formats import array_of, blocks, groups_of, is_plain, name_of
from deploykit.frontends.gguf.reader import Gguf, read_gguf
from deploykit.frontends.gguf.tokenizers import documents_of, tokenizer_of, words_of
from deploykit.frontends.huggingface.folder import CONFIG, Config, Folder, no_groups
from deploykit.frontends.huggingface.special import TOKENIZER

LEAST = 1 << 10
"""The fewest elements of a weight that keeps its bits."""


def read_model(path: Path, *, keep_bits: bool = False) -> Folder:
    """With `keep_bits`, the folder has large weights in groups where the file has them so.

    Raises `UsageError` for a file that is damaged, and `UnsupportedModelError` for an architecture or a tokenizer that
    is not supported."""
    file = read_gguf(path, blocks())
    family = family_of(file)
    factors = {name: array_of(file.tensors[name]) for name in FACTORS if name in file.tensors}
    config = config_of(file, len(words_of(file)), factors)
    documents = {CONFIG: config, TOKENIZER: tokenizer_of(file), **documents_of(file)}
    weights = GgufWeights(file, family)
    groups = GgufGroups(weights) if keep_bits else no_groups
    return Folder(path, Config(path, config), weights, (file.file,), documents, groups)


def notes_on(folder: Folder) -> tuple[str, ...]:
    """Notes on weights that keep their bits, and on others that were stored in fewer bits, if there are any. The model
    was imported from the folder."""
    weights, groups = folder.weights, folder.groups
    assert isinstance(weights, GgufWeights)
    counts, notes = weights.in_blocks(), []
    if isinstance(groups, GgufGroups) and groups.kept:
        names, sizes = zip(*groups.kept.values(), strict=True)
        kept = ", ".join(f"{names.count(name)} {name}" for name in dict.fromkeys(names))
        notes.append(f"large weights are as in {folder.path.name}: {kept}, {sum(sizes) / 1e6:,.1f} MB")
        counts = weights.in_blocks(groups.kept)
    if counts:
        words = ", ".join(f"{count} in {name}" for name, count in counts.items())
        notes.append(
            f"some weights that are in blocks in {folder.path.name} are float32 here: {words}. --no-keep-bits "
            "--quantize q4 makes all of them small"
        )
    return tuple(notes)


class GgufWeights(Mapping[str, np.ndarray]):
    """The weights by the names that a folder gives them. Each is read when it is asked for."""

    def __init__(self, file: Gguf, family: GgufFamily) -> None:
        self._file = file
        self._family = family
        self._entries = entries_of(file)
        self._names = {(name_in_folder(family, name) or name): name for name in file.tensors if name not in FACTORS}

    def in_blocks(self, without: Collection[str] = ()) -> dict[str, int]:
        """How many weights, `without` those of these names, have each format that is not one of floats."""
        tensors = [self._file.tensors[stored] for name, stored in self._names.items() if name not in without]
        names = [name_of(stored.format) for stored in tensors if not is_plain(stored)]
        return {name: names.count(name) for name in sorted({*names})}

    def grouped(self, name: str) -> Grouped | None:
        """A large matrix with its bits; None if it has none that are kept."""
        stored = self._file.tensors[self._names[name]]
        found = groups_of(stored) if math.prod(stored.shape) >= LEAST else None
        if found is None:
            return None
        arrays = [self._family.change(self._entries, self._names[name], array) for array in found.arrays]
        return Grouped(found.format, arrays[0], arrays[1], arrays[2] if len(arrays) > 2 else None)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, name: str) -> np.ndarray:
        stored = self._file.tensors[self._names[name]]
        return self._family.change(self._entries, self._names[name], array_of(stored))

    def __contains__(self, name: object) -> bool:
        return name in self._names


@dataclass
class GgufGroups:
    """Reads the weights that keep their bits. `kept` are the format and the bytes of each that was read."""

    weights: GgufWeights
    kept: dict[str, tuple[str, int]] = field(default_factory=dict)

    def __call__(self, name: str) -> Grouped | None:
        found = self.weights.grouped(name)
        if found is not None:
            self.kept[name] = (found.format.name, found.nbytes)
        return found

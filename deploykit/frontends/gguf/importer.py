"""`read_model`: a GGUF file as the folder that the importer of Hugging Face folders takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from deploykit.basics.mapped import set_aside
from deploykit.frontends.gguf.families import (
    FACTORS,
    GgufFamily,
    config_of,
    entries_of,
    family_of,
    name_in_folder,
)
from deploykit.frontends.gguf.formats import array_of, blocks, is_plain, name_of
from deploykit.frontends.gguf.reader import Gguf, read_gguf
from deploykit.frontends.gguf.tokenizers import documents_of, tokenizer_of, words_of
from deploykit.frontends.huggingface.folder import CONFIG, Config, Folder
from deploykit.frontends.huggingface.special import TOKENIZER


def read_model(path: Path) -> Folder:
    """Raises `UsageError` for a file that is damaged, and `UnsupportedModelError` for an architecture or a tokenizer
    that is not supported."""
    file = read_gguf(path, blocks())
    family = family_of(file)
    factors = {name: array_of(file.tensors[name]) for name in FACTORS if name in file.tensors}
    config = config_of(file, len(words_of(file)), factors)
    documents = {CONFIG: config, TOKENIZER: tokenizer_of(file), **documents_of(file)}
    return Folder(path, Config(path, config), GgufWeights(file, family), (file.file,), documents)


def note_on(folder: Folder) -> tuple[str, ...]:
    """A note on weights that were stored in fewer bits, if there are any."""
    weights = folder.weights
    assert isinstance(weights, GgufWeights)
    counts = weights.in_blocks()
    if not counts:
        return ()
    words = ", ".join(f"{count} in {name}" for name, count in counts.items())
    return (f"the weights are float32 here; in {folder.path.name} some are in blocks: {words}",)


class GgufWeights(Mapping[str, np.ndarray]):
    """The weights by the names that a folder gives them. Each is read when it is asked for."""

    def __init__(self, file: Gguf, family: GgufFamily) -> None:
        self._file = file
        self._family = family
        self._entries = entries_of(file)
        self._names = {(name_in_folder(family, name) or name): name for name in file.tensors if name not in FACTORS}

    def in_blocks(self) -> dict[str, int]:
        """How many weights have each format that is not one of floats."""
        names = [name_of(stored.format) for stored in self._file.tensors.values() if not is_plain(stored)]
        return {name: names.count(name) for name in sorted({*names})}

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, name: str) -> np.ndarray:
        stored = self._file.tensors[self._names[name]]
        found = array_of(stored)
        changed = self._family.change(self._entries, self._names[name], found)
        return found if changed is found and is_plain(stored) else set_aside(changed, np.dtype(np.float32))

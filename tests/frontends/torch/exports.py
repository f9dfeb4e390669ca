"""The stored exports, which let tests do without PyTorch."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from deploykit.frontends.huggingface.folder import read_folder
from deploykit.frontends.huggingface.importer import Imported
from deploykit.frontends.onnx.importer import Finish
from deploykit.frontends.torch.importer import import_export
from tests.frontends.huggingface.seeds import write_folder

EXPORTS = Path(__file__).with_name("exports")

TEXT: Mapping[str, Any] = {
    "vocab_size": 50,
    "hidden_size": 12,
    "embedding_size": 12,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 24,
    "pad_token_id": 0,
}

CASES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "ernie-classes": ("ErnieForSequenceClassification", {"num_labels": 3}),
    "ernie-states": ("ErnieModel", {}),
    "convbert-tokens": ("ConvBertForTokenClassification", {"conv_kernel_size": 3, "head_ratio": 1}),
}
"""Architectures without a family."""


@dataclass(frozen=True)
class Export:
    """A stored export, unpacked at `folder`."""

    folder: Path
    arrays: Mapping[str, np.ndarray]

    def imported(self, dims: Mapping[str, Any] | None = None, finish: Finish | None = None) -> Imported:
        """The model, as `import_folder` gives it."""
        read = read_folder(self.folder)
        model, facts = import_export(read, self.folder, dims or {}, finish)
        longest = facts.bounds["seq"][1]
        return Imported(model, read, "torch", "no family", facts.words, longest, facts.padding)

    def runs(self) -> Iterator[tuple[dict[str, np.ndarray], dict[str, np.ndarray]]]:
        """The inputs and the results of eager mode at each size."""
        count = len({key.split("/")[0] for key in self.arrays})
        for number in range(count):
            inputs = {key: value.astype(np.int64) for key, value in self._part(f"{number}/in/").items()}
            yield inputs, self._part(f"{number}/out/")

    def _part(self, start: str) -> dict[str, np.ndarray]:
        return {key.removeprefix(start): value for key, value in self.arrays.items() if key.startswith(start)}


def unpacked(name: str, folder: Path) -> Export:
    with zipfile.ZipFile(EXPORTS / f"{name}.zip") as file:
        write_folder(folder, json.loads(file.read("config.json")), json.loads(file.read("shapes.json")))
        for part in ("model.onnx", "facts.json"):
            (folder / part).write_bytes(file.read(part))
        with np.load(io.BytesIO(file.read("results.npz"))) as arrays:
            return Export(folder, dict(arrays))

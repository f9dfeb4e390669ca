"""Weights of a GGUF file that stay in few bits."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from deploykit.compiler.graph.quantize_weights import STORED, quantize_weights
from deploykit.frontends.gguf.importer import GgufWeights

if TYPE_CHECKING:
    from deploykit.compiler.model import ImportedModel
    from deploykit.frontends.huggingface.folder import Folder

LEAST = 1 << 10
"""The fewest elements of a weight that keeps its bits."""


def with_bits(model: ImportedModel, folder: Folder) -> ImportedModel:
    """The model, whose large weights are stored as in the file where there are kernels for their format. Notes say how
    many there are of each format, and which others became float32."""
    module, found = quantize_weights(model.module, STORED, LEAST)
    weights = folder.weights
    assert isinstance(weights, GgufWeights)
    notes = list(model.notes)
    if found.names:
        kept = ", ".join(f"{count} {name}" for name, count in found.names.items())
        notes.append(f"large weights are as in {folder.path.name}: {kept}, {found.after / 1e6:,.1f} MB")
    formats = ", ".join(f"{count} {name}" for name, count in weights.in_blocks().items())
    if found.beyond:
        notes.append(
            f"{found.beyond} large weights are float32 here; the formats of the file are {formats}. --no-keep-bits "
            "--quantize q4 makes all of them small"
        )
    return replace(model, module=module, notes=tuple(notes))

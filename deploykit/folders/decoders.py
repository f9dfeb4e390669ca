"""ONNX files of decoders, with the tokenizer that lies beside them."""

from __future__ import annotations

from pathlib import Path

from deploykit.compiler.model import DimBounds, ImportedModel
from deploykit.folders.language import with_language
from deploykit.frontends.onnx.decoders.files import folder_of, longest_of
from deploykit.frontends.onnx.decoders.importer import import_decoder
from deploykit.frontends.stepping import Generating


def generating_file(
    path: Path, dims: DimBounds | None = None, *, keep_bits: bool = True, cache: str = "float32"
) -> ImportedModel | None:
    """The decoder in an ONNX file as a model that generates; None for a model that does not take what it remembers.

    Raises what `import_decoder` raises, and `UsageError` for a tokenizer or a configuration that does not belong to
    the model."""
    folder = folder_of(path)
    found = import_decoder(path, dims, longest_of(folder), keep_bits=keep_bits, cache=cache)
    if found is None:
        return None
    return with_language(Generating(found.model, folder, found.words, found.context, found.window, found.memory))

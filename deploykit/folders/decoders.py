"""ONNX files of decoders, with the tokenizer that lies beside them."""

from __future__ import annotations

from pathlib import Path

import onnx_ir as ir

from deploykit.artifact.manifest import printable
from deploykit.compiler.model import DimBounds, ImportedModel
from deploykit.folders.language import with_language
from deploykit.frontends.onnx.decoders.files import folder_of, longest_of
from deploykit.frontends.onnx.decoders.importer import import_decoder
from deploykit.frontends.stepping import Generating


def generating_file(
    path: Path, model: ir.Model, dims: DimBounds | None = None, *, keep_bits: bool = True, cache: str = "float32"
) -> ImportedModel:
    """The decoder in an ONNX file as a model that generates. `model` was read from the file, takes what it remembers,
    and is changed.

    Raises what `import_decoder` raises, and `UsageError` for a tokenizer or a configuration that does not belong to
    the model."""
    folder = folder_of(path)
    name = printable(path.stem)
    found = import_decoder(model, dims, longest_of(folder), name=name, keep_bits=keep_bits, cache=cache)
    assert found is not None
    return with_language(Generating(found.model, folder, found.words, found.context, found.window, found.memory))

"""GGUF files: a language model in one file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from deploykit.options.option import option
from deploykit.sources.base import Certainty
from deploykit.sources.folder import CACHE, GENERATE

if TYPE_CHECKING:
    from deploykit.compiler.model import DimBounds, ImportedModel


KEEP_BITS: bool = option(
    True,
    "A GGUF or ONNX file for a model that generates: weights in 4 or 8 bits keep them, in the same groups. With "
    "--no-keep-bits all become float32, or what --quantize says.",
)


@dataclass(frozen=True)
class GgufOptions:
    generate: bool = GENERATE
    cache: Literal["float32", "float16", "int8"] = CACHE
    keep_bits: bool = KEEP_BITS


class GgufFrontend:
    name = "gguf"
    description = "a GGUF file"
    form = "a GGUF file"
    Options = GgufOptions
    unchecked = "ONNX Runtime does not read it"

    def recognises(self, source: object) -> Certainty:
        if not isinstance(source, str | Path):
            return Certainty.NO
        try:
            with Path(source).open("rb") as file:
                if file.read(4) == b"GGUF":
                    return Certainty.CERTAIN
        except (OSError, ValueError):
            pass
        return Certainty.LIKELY if Path(source).suffix == ".gguf" else Certainty.NO

    def load(self, source: Any, dims: DimBounds, options: GgufOptions) -> ImportedModel:
        from deploykit.folders.language import generating_model
        from deploykit.folders.models import load_model
        from deploykit.frontends.gguf.importer import notes_on, read_model

        folder = read_model(Path(source), keep_bits=options.generate and options.keep_bits)
        model = generating_model(folder, dims, options.cache) if options.generate else load_model(folder, dims)
        return replace(model, notes=(*model.notes, *notes_on(folder)))

    def file(self, source: Any) -> Path | None:
        return Path(source)

"""Hugging Face folders, and those on the Hub: `hf://org/name`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from deploykit.options.option import option
from deploykit.sources.base import Certainty

if TYPE_CHECKING:
    from deploykit.compiler.model import DimBounds, ImportedModel

GENERATE: bool = option(
    True,
    "A language model continues texts, token by token, and remembers what it has read. With --no-generate it takes "
    "whole texts and gives the scores of the next word after each token.",
)

CACHE: Literal["float32", "float16", "int8"] = option(
    "float32",
    "How a language model stores what it remembers of texts, its keys and values: in [b]float32[/], in [b]float16[/], "
    "or in [b]int8[/] with a scale for each head of a token.",
    choices=("float32", "float16", "int8"),
)


@dataclass(frozen=True)
class FolderOptions:
    route: Literal["own", "torch"] | None = option(
        None,
        "How a Hugging Face folder is read: by a family of deploykit ([b]own[/]), or exported by PyTorch "
        "([b]torch[/]); by default the first one that covers its architecture.",
        choices=("own", "torch"),
    )
    generate: bool = GENERATE
    cache: Literal["float32", "float16", "int8"] = CACHE


class FolderFrontend:
    name = "huggingface"
    description = "a Hugging Face folder"
    form = "a Hugging Face folder, or one on the Hub, hf://org/name, which is downloaded"
    Options = FolderOptions
    unchecked = "ONNX Runtime does not read it"

    def recognises(self, source: object) -> Certainty:
        from deploykit.frontends.huggingface.folder import is_folder
        from deploykit.frontends.huggingface.hub import is_on_hub

        if is_on_hub(source):
            return Certainty.CERTAIN
        # A folder of an exporter has an ONNX file in the place of weights.
        return Certainty.LIKELY if is_folder(source) else Certainty.NO

    def load(self, source: Any, dims: DimBounds, options: FolderOptions) -> ImportedModel:
        from deploykit.folders.language import generating_model
        from deploykit.folders.models import load_model
        from deploykit.frontends.huggingface.folder import read_folder
        from deploykit.frontends.huggingface.generation import generates
        from deploykit.frontends.huggingface.hub import downloaded

        folder = read_folder(downloaded(source))
        if options.generate and options.route != "torch" and generates(folder):
            return generating_model(folder, dims, options.cache)
        return load_model(folder, dims, options.route)

    def file(self, source: Any) -> Path | None:
        from deploykit.frontends.huggingface.folder import CONFIG
        from deploykit.frontends.huggingface.hub import is_on_hub

        return None if is_on_hub(source) else Path(source) / CONFIG

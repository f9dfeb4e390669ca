"""Models that `deploykit.load` has loaded."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deploykit.errors import UsageError
from deploykit.sources.base import Certainty

if TYPE_CHECKING:
    from deploykit.compiler.model import DimBounds, ImportedModel


@dataclass(frozen=True)
class LoadedOptions:
    """There are none: they were for `deploykit.load`."""


class LoadedFrontend:
    name = "loaded"
    description = "a loaded model"
    form = ""
    Options = LoadedOptions
    unchecked = "its file is not known: give `build` the file, or the onnx.ModelProto"

    def recognises(self, source: object) -> Certainty:
        # Without the import: whoever has one has loaded the compiler.
        kinds = {kind.__module__ for kind in type(source).__mro__}
        return Certainty.CERTAIN if "deploykit.compiler.model" in kinds else Certainty.NO

    def load(self, source: Any, dims: DimBounds, options: LoadedOptions) -> ImportedModel:  # noqa: ARG002
        if dims:
            raise UsageError("the model is loaded already: give dims to deploykit.load")
        model: ImportedModel = source
        model.require_unchanged()
        return model

    def file(self, source: Any) -> Path | None:  # noqa: ARG002
        return None

"""Operators on ragged tensors: of `deploykit.ragged`, or their place, as in `ops.py:attention`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deploykit.errors import UsageError
from deploykit.sources.base import Certainty
from deploykit.sources.places import place_of

if TYPE_CHECKING:
    from deploykit.compiler.model import DimBounds, ImportedModel


@dataclass(frozen=True)
class OperatorOptions:
    """There are none: an operator says itself what its dims are."""


class OperatorFrontend:
    name = "operator"
    description = "an operator of deploykit.ragged"
    form = "ops.py:NAME, an operator of deploykit.ragged"
    Options = OperatorOptions
    unchecked = "ONNX Runtime does not have it"

    def recognises(self, source: object) -> Certainty:
        if isinstance(source, str | Path):
            return Certainty.NO if place_of(source) is None else Certainty.LIKELY
        from deploykit.ragged.operators import Operator

        return Certainty.CERTAIN if isinstance(source, Operator) else Certainty.NO

    def load(self, source: Any, dims: DimBounds, options: OperatorOptions) -> ImportedModel:  # noqa: ARG002
        from deploykit.compiler.ragged.model import ragged_model
        from deploykit.ragged.files import load_operator

        if dims:
            raise UsageError("an operator says itself what its dims are: build it without bounds of dims")
        place = place_of(source)
        return ragged_model(source if place is None else load_operator(*place))

    def file(self, source: Any) -> Path | None:
        place = place_of(source)
        return None if place is None else place[0]

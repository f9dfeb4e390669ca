"""Dynamic models: `models.py:TreeLSTM` is a class of `deploykit.dynamic` in a Python file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deploykit.options.option import option
from deploykit.options.parts import USUAL
from deploykit.sources.base import Certainty
from deploykit.sources.places import is_class, place_of

if TYPE_CHECKING:
    from deploykit.compiler.model import DimBounds, ImportedModel


@dataclass(frozen=True)
class DynamicOptions:
    weights: str | Path | None = option(
        None,
        "For a dynamic model: its weights, a .safetensors or .npz file. Without it they are random.",
        metavar="FILE",
    )
    samples: str | Path | None = option(
        None,
        "For a dynamic model: a .json file with a list of instances. A policy of batches is learned from them, and the "
        "policy with the fewest launches is taken. For --quantize: a list of texts.",
        metavar="FILE",
    )
    policy: str | None = option(
        None,
        "For a dynamic model, how the next batch is chosen: critical, depth, agenda, fsm (learned from --samples) or "
        "alone (no batches).",
        metavar="NAME",
    )
    fuse: bool = option(USUAL.fuse, "Equal products of its cells are joined.")


class DynamicFrontend:
    name = "dynamic"
    description = "a dynamic model"
    form = "models.py:NAME, a dynamic model (class of deploykit.dynamic) in a Python file"
    Options = DynamicOptions
    unchecked = "ONNX Runtime does not have it"

    def recognises(self, source: object) -> Certainty:
        place = place_of(source)
        return Certainty.CERTAIN if place is not None and is_class(*place) else Certainty.NO

    def load(self, source: Any, dims: DimBounds, options: DynamicOptions) -> ImportedModel:
        from deploykit.compiler.batching.choosing import with_policy
        from deploykit.compiler.batching.model import bounded, cells_model
        from deploykit.compiler.batching.techniques import Techniques
        from deploykit.compiler.dims import checked_bounds
        from deploykit.dynamic.files import read_samples, read_weights
        from deploykit.frontends.python.models import import_model

        place = place_of(source)
        assert place is not None
        arrays = None if options.weights is None else read_weights(Path(options.weights))
        samples = None if options.samples is None else read_samples(Path(options.samples))
        model = with_policy(import_model(*place, arrays, Techniques(joining=options.fuse)), samples, options.policy)
        return cells_model(bounded(model, checked_bounds(dims)))

    def file(self, source: Any) -> Path | None:
        place = place_of(source)
        return None if place is None else place[0]

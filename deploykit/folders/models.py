"""A Hugging Face folder as a model with its task: what it takes, and what its answer is.

What a model takes decides who gives it its task: `texts`, `pictures`, `sounds`, or `pairs` of pictures with texts. A
model for which these cannot be prepared takes tensors, and a note says why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from deploykit.artifact.tasks import PictureEntry, SoundEntry
from deploykit.compiler.dims import checked_bounds
from deploykit.compiler.model import DimBounds, ImportedModel
from deploykit.compiler.ragged.conversion import TOKENS
from deploykit.errors import UnsupportedModelError, UsageError
from deploykit.folders.pairs import takes_pairs, with_pair_task
from deploykit.folders.pictures import PIXELS, picture_task
from deploykit.folders.sounds import SAMPLES, VALUES, sound_task
from deploykit.folders.tasks import shortened, without_task
from deploykit.folders.texts import of_texts
from deploykit.frontends.huggingface.folder import Folder
from deploykit.frontends.huggingface.importer import Imported, Route, import_folder
from deploykit.frontends.huggingface.registry import IDS, MASK, TYPES


def load_model(source: Path | Folder, dims: DimBounds | None = None, route: Route | None = None) -> ImportedModel:
    """The model of `import_model`."""
    return import_model(source, dims, route).model


def import_model(source: Path | Folder, dims: DimBounds | None = None, route: Route | None = None) -> Imported:
    """Import a folder, or the one at a path. A model of texts takes batches of mixed lengths, which are not padded;
    `dims` may bound `tokens`, the sum of their lengths. If it cannot be ragged, it takes padded batches, and a note
    says why.

    Raises what `import_folder` raises, and `UsageError` if the tokenizer does not belong to the model."""
    bounds = checked_bounds(dims or {})
    tokens = bounds.pop(TOKENS, None)
    found = import_folder(source, bounds, route)
    names = {port.name for port in found.model.inputs}
    if MASK in names and names <= {IDS, MASK, TYPES}:
        return of_texts(found, bounds, tokens)
    if tokens is not None:
        raise UsageError(f"the model has no dim '{TOKENS}': it takes no texts of mixed lengths")
    give_task = with_pair_task if takes_pairs(found.model) else with_task
    return replace(found, model=give_task(found.model, found.folder))


def with_task(model: ImportedModel, folder: Folder) -> ImportedModel:
    """The model with its task; if it has none, a note says why. Raises `UsageError` if the folder says nonsense about
    it."""
    tasks: Mapping[str, Callable[[ImportedModel, Folder], PictureEntry | SoundEntry]] = {
        PIXELS: picture_task,
        VALUES: sound_task,
        SAMPLES: sound_task,
    }
    names = [port.name for port in model.inputs]
    if len(names) != 1 or names[0] not in tasks:
        prepared = f"texts (input_ids, attention_mask), pictures ({PIXELS}) or sound ({VALUES})"
        return without_task(model, f"sessions prepare {prepared}, and it takes {shortened(names)}")
    try:
        return replace(model, task=tasks[names[0]](model, folder))
    except UnsupportedModelError as error:
        return without_task(model, str(error))

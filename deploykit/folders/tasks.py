"""What the tasks of all models from Hugging Face folders share: classes, scores, tokenizers, and notes on models that
have no task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from deploykit.artifact.tasks import TENSORS_ONLY, Scores
from deploykit.compiler.model import ImportedModel, Port
from deploykit.errors import UnsupportedModelError, UsageError
from deploykit.frontends.huggingface.folder import Folder, inside
from deploykit.frontends.huggingface.special import TOKENIZER
from deploykit.text import facts_of, pack, pack_fields

if TYPE_CHECKING:
    from deploykit.compiler.dims.expressions import IntExpr

SHOWN = 4
"""How many names a note shows."""


def without_task(model: ImportedModel, why: str) -> ImportedModel:
    """The model with the note that sessions quote where one calls a method that it does not have."""
    return replace(model, notes=(*model.notes, f"{TENSORS_ONLY}{why}"))


def no_method(model: ImportedModel, folder: Folder) -> str:
    """Why a model has no task whose outputs are no answer that a session knows."""
    gives = shortened([port.name for port in model.outputs])
    return f"sessions have no method for what {architecture_of(folder) or 'it'} gives ({gives})"


def shortened(names: Sequence[str]) -> str:
    """The first names, and whether there are more."""
    return ", ".join(names[:SHOWN]) + (" and more" if len(names) > SHOWN else "")


def architecture_of(folder: Folder) -> str:
    """The first architecture that the configuration names; empty if there is none."""
    return str((folder.config.get("architectures") or [""])[0])


def tables_of(folder: Folder, words: int | None) -> bytes:
    """The packed tokenizer of a folder whose model knows so many words, if that is known. Raises `UsageError` if the
    tokenizer does not belong to the model."""
    written = folder.documents
    tables = pack(inside(folder.path, TOKENIZER).parent) if written is None else pack_fields(written[TOKENIZER])
    facts = facts_of(tables)
    if words is not None and facts.ids > words:
        raise UsageError(
            f"{folder.path / TOKENIZER} has ids up to {facts.ids - 1}, but {folder.config.path} says that there are "
            f"{words} words: the tokenizer belongs to another model"
        )
    return tables


def require_batch_of_one(model: ImportedModel, port: Port) -> None:
    """Raises `UnsupportedModelError` if the model takes several pictures or sounds at once."""
    smallest, _ = bounds_of(model, port.shape[0])
    if smallest != 1:
        raise UnsupportedModelError(f"pictures and sounds run one after another, but a batch has {smallest} or more")


def bounds_of(model: ImportedModel, extent: IntExpr) -> tuple[int, int | None]:
    """The least and the greatest size of an extent of an input; None: no limit."""
    if isinstance(extent, int):
        return extent, extent
    return next(((dim.minimum, dim.maximum) for dim in model.dims if dim.var.same_as(extent)), (1, None))


def class_names(folder: Folder, count: int) -> tuple[str, ...]:
    """The names of so many classes, by their numbers."""
    names = folder.config.get("id2label") or {}
    return tuple(str(names.get(str(index), f"LABEL_{index}")) for index in range(count))


def scores_of(folder: Folder, usual: Scores) -> Scores:
    """How transformers makes scores of classes: as `problem_type` says, or else in the `usual` way."""
    ways: dict[str, Scores] = {"regression": "as_is", "multi_label_classification": "sigmoid"}
    return ways.get(str(folder.config.get("problem_type")), usual)

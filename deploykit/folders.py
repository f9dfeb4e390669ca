"""Models of texts from Hugging Face folders: batches of mixed lengths, and what a model is for.

The importer gives a model that takes padded batches. Here it becomes ragged, if that is proved to be right, and gets
its task: the tables of the tokenizer, and names of classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from deploykit.artifact.tasks import Scores, TextEntry, TextKind
from deploykit.compiler.dims import checked_bounds
from deploykit.compiler.model import DimBounds, ImportedModel
from deploykit.compiler.ragged.conversion import TOKENS, ragged
from deploykit.errors import UnsupportedModelError, UsageError
from deploykit.folder_tasks import architecture_of, class_names, scores_of, with_task
from deploykit.frontends.huggingface.architectures import BATCH
from deploykit.frontends.huggingface.folder import inside
from deploykit.frontends.huggingface.importer import SEQ, Imported, Route, import_folder
from deploykit.frontends.huggingface.registry import IDS, MASK, TYPES
from deploykit.frontends.huggingface.sentences import MODULES, SENTENCES, VECTOR
from deploykit.text import FILE, facts_of, pack

TOKENIZER = "tokenizer.json"

KINDS: Mapping[str, TextKind] = {
    "ForSequenceClassification": "classify",
    "ForTokenClassification": "tokens",
    "ForQuestionAnswering": "answer",
}
"""By the ending of an architecture's name."""

ANSWERS: Mapping[TextKind, tuple[str, ...]] = {
    "classify": ("logits",),
    "tokens": ("logits",),
    "answer": ("start_logits", "end_logits"),
    "embed": (VECTOR,),
}
"""The outputs that hold the answer. A model without them has no task."""


def load_model(path: Path, dims: DimBounds | None = None, route: Route | None = None) -> ImportedModel:
    """The model of `import_model`."""
    return import_model(path, dims, route).model


def import_model(path: Path, dims: DimBounds | None = None, route: Route | None = None) -> Imported:
    """Import a folder. A model of texts takes batches of mixed lengths, which are not padded; `dims` may bound
    `tokens`, the sum of their lengths. If it cannot be ragged, it takes padded batches, and a note says why.

    Raises what `import_folder` raises, and `UsageError` if the tokenizer does not belong to the model."""
    bounds = checked_bounds(dims or {})
    tokens = bounds.pop(TOKENS, None)
    found = import_folder(path, bounds, route)
    names = {port.name for port in found.model.inputs}
    if MASK not in names or not names <= {IDS, MASK, TYPES}:
        if tokens is not None:
            raise UsageError(f"the model has no dim '{TOKENS}': it takes no texts")
        return replace(found, model=with_task(found.model, found.folder))
    return of_texts(found, bounds, tokens)


def of_texts(found: Imported, bounds: DimBounds, tokens: int | tuple[int, int | None] | None) -> Imported:
    """A model of texts, ragged if that is proved to be right, with its task. `tokens` are the bounds of their sum."""
    for name in (BATCH, SEQ):
        if isinstance(bounds.get(name), int):
            raise UsageError(f"texts have any number and length: bound '{name}' with {name}=1..{bounds[name]}")
    model = with_text_task(found)
    try:
        model = ragged(model, {SEQ: BATCH}, [MASK], (tokens, tokens) if isinstance(tokens, int) else tokens)
    except UnsupportedModelError as error:
        if tokens is not None:
            raise
        notes = [*model.notes, f"texts are padded to one length: {error}"]
        task = model.task
        if not found.padding:
            notes.append("padding changes the results of this model: sessions run each text alone")
            task = task.model_copy(update={"alone": True}) if isinstance(task, TextEntry) else None
        model = replace(model, notes=tuple(notes), task=task)
    return replace(found, model=model)


def with_text_task(found: Imported) -> ImportedModel:
    """The model of texts with its task; it has none if it gives hidden states, or without a tokenizer. Raises
    `UsageError` if the tokenizer does not belong to the model."""
    model, folder = found.model, found.folder
    name = architecture_of(folder)
    kind = next((kind for ending, kind in KINDS.items() if name.endswith(ending)), None)
    if (folder.path / MODULES).exists():
        kind = "embed"
    if kind is None or not (folder.path / TOKENIZER).exists():
        return model
    outputs = {port.name: port for port in model.outputs}
    if not outputs.keys() >= set(ANSWERS[kind]):
        return model
    tables = pack(inside(folder.path, TOKENIZER).parent)
    facts, words = facts_of(tables), found.words
    if facts.ids > words:
        raise UsageError(
            f"{folder.path / TOKENIZER} has ids up to {facts.ids - 1}, but {folder.config.path} says that there are "
            f"{words} words: the tokenizer belongs to another model"
        )
    settings = folder.json(SENTENCES) or {}
    limits = (found.longest, facts.limit, settings.get("max_seq_length"))
    labels: tuple[str, ...] = ()
    if kind in ("classify", "tokens"):
        labels = class_names(folder, int(outputs[ANSWERS[kind][0]].shape[-1]))
    # One class alone is a number, unless the configuration says what it is.
    usual: Scores = "as_is" if len(labels) == 1 and folder.config.get("problem_type") is None else "softmax"
    task = TextEntry(
        kind=kind,
        ids=IDS,
        types=TYPES if any(port.name == TYPES for port in model.inputs) else None,
        outputs=ANSWERS[kind],
        labels=labels,
        scores=scores_of(folder, usual) if kind == "classify" else "softmax",
        most_tokens=min((int(limit) for limit in limits if limit), default=None),
        files=(FILE,),
    )
    return replace(model, task=task, task_files={FILE: tables})

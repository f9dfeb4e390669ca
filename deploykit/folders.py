"""Models of texts from Hugging Face folders: batches of mixed lengths, and what a model is for.

The importer gives a model that takes padded batches. Here it becomes ragged, if that is proved to be right, and gets
its task: the tables of the tokenizer, and names of classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from deploykit.artifact.manifest import Scores, TaskKind
from deploykit.compiler.dims import checked_bounds
from deploykit.compiler.model import DimBounds, ImportedModel, Task
from deploykit.compiler.ragged.conversion import TOKENS, ragged
from deploykit.errors import UnsupportedModelError, UsageError
from deploykit.frontends.huggingface.folder import Folder, inside
from deploykit.frontends.huggingface.importer import BATCH, SEQ, Imported, import_folder
from deploykit.frontends.huggingface.registry import IDS, MASK, TYPES
from deploykit.frontends.huggingface.sentences import MODULES, SENTENCES
from deploykit.text import FILE, facts_of, pack

TOKENIZER = "tokenizer.json"

KINDS: Mapping[str, TaskKind] = {
    "ForSequenceClassification": "classify",
    "ForTokenClassification": "tokens",
    "ForQuestionAnswering": "answer",
}
"""By the ending of an architecture's name."""


def load_model(path: Path, dims: DimBounds | None = None) -> ImportedModel:
    """Import a folder. A model of texts takes batches of mixed lengths, which are not padded; `dims` may bound
    `tokens`, the sum of their lengths. If it cannot be ragged, it takes padded batches, and a note says why.

    Raises what `import_folder` raises, and `UsageError` if the tokenizer does not belong to the model."""
    bounds = checked_bounds(dims or {})
    tokens = bounds.pop(TOKENS, None)
    found = import_folder(path, bounds)
    names = {port.name for port in found.model.inputs}
    if MASK not in names or not names <= {IDS, MASK, TYPES}:
        if tokens is not None:
            raise UsageError(f"the model has no dim '{TOKENS}': it takes no texts")
        return found.model
    for name in (BATCH, SEQ):
        if isinstance(bounds.get(name), int):
            raise UsageError(f"texts have any number and length: bound '{name}' with {name}=1..{bounds[name]}")
    model = replace(found.model, task=task_of(found))
    try:
        return ragged(model, {SEQ: BATCH}, [MASK], (tokens, tokens) if isinstance(tokens, int) else tokens)
    except UnsupportedModelError as error:
        if tokens is not None:
            raise
        return replace(model, notes=(*model.notes, f"texts are padded to one length: {error}"))


def task_of(found: Imported) -> Task | None:
    """What a model is for; None for one that gives hidden states, or without a tokenizer. Raises `UsageError` if the
    tokenizer does not belong to the model."""
    model, folder, family = found.model, found.folder, found.family
    if family is None:
        return None
    name = str((folder.config.get("architectures") or [""])[0])
    kind = KINDS.get(name.removeprefix(family.prefix))
    if (folder.path / MODULES).exists():
        kind = "embed"
    if kind is None or not (folder.path / TOKENIZER).exists():
        return None
    tables = pack(inside(folder.path, TOKENIZER).parent)
    facts, words = facts_of(tables), int(folder.config.vocab_size)
    if facts.ids > words:
        raise UsageError(
            f"{folder.path / TOKENIZER} has ids up to {facts.ids - 1}, but {folder.config.path} says that there are "
            f"{words} words: the tokenizer belongs to another model"
        )
    settings = folder.json(SENTENCES) or {}
    limits = (found.longest, facts.limit, settings.get("max_seq_length"))
    labels: tuple[str, ...] = ()
    if kind in ("classify", "tokens"):
        names = folder.config.get("id2label") or {}
        count = int(model.outputs[0].shape[-1])
        labels = tuple(str(names.get(str(index), f"LABEL_{index}")) for index in range(count))
    return Task(
        kind,
        IDS,
        TYPES if family.types(folder.config) else None,
        tuple(port.name for port in model.outputs),
        labels,
        _scores(folder, len(labels)) if kind == "classify" else "softmax",
        min((int(limit) for limit in limits if limit), default=None),
        {FILE: tables},
    )


def _scores(folder: Folder, classes: int) -> Scores:
    """How transformers makes scores of the classes of a text."""
    problem = folder.config.get("problem_type")
    if problem == "regression" or (problem is None and classes == 1):
        return "as_is"
    return "sigmoid" if problem == "multi_label_classification" else "softmax"

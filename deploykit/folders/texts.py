"""What a model of texts from a Hugging Face folder is for, and batches of mixed lengths.

The importer gives a model that takes padded batches. Here it becomes ragged, if that is proved to be right, and gets
its task: the tables of the tokenizer, and names of classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from deploykit.artifact.tasks import Scores, TextEntry, TextKind
from deploykit.compiler.model import DimBounds, ImportedModel
from deploykit.compiler.ragged.conversion import TOKENS, ragged
from deploykit.errors import UnsupportedModelError, UsageError
from deploykit.folders.tasks import architecture_of, class_names, no_method, scores_of, tables_of, without_task
from deploykit.frontends.huggingface.architectures import BATCH
from deploykit.frontends.huggingface.entries import SENTENCES as ENTRIES
from deploykit.frontends.huggingface.importer import SEQ, Imported
from deploykit.frontends.huggingface.registry import IDS, MASK, TYPES
from deploykit.frontends.huggingface.sentences import MODULES, SENTENCES, VECTOR
from deploykit.frontends.huggingface.special import TOKENIZER, special_token
from deploykit.text import FILE, facts_of

USUAL_MASKS = ("[MASK]", "<mask>")
"""Of tokenizers that do not name their mask."""

KINDS: Mapping[str, TextKind] = {
    "ForSequenceClassification": "classify",
    "ForTokenClassification": "tokens",
    "ForQuestionAnswering": "answer",
    "ForMaskedLM": "fill",
}
"""By the ending of an architecture's name."""

ANSWERS: Mapping[TextKind, tuple[str, ...]] = {
    "classify": ("logits",),
    "tokens": ("logits",),
    "answer": ("start_logits", "end_logits"),
    "fill": ("logits",),
    "embed": (VECTOR,),
}
"""The outputs that hold the answer. A model without them has no task."""


def of_texts(found: Imported, bounds: DimBounds, tokens: int | tuple[int, int | None] | None) -> Imported:
    """A model of texts, ragged if that is proved to be right, with its task. `tokens` are the bounds of their sum."""
    if fixed := {name: size for name in (SEQ, BATCH) if isinstance(size := bounds.get(name), int)}:
        if tokens is not None:
            raise UsageError(f"'{TOKENS}' is for batches of mixed lengths, but '{min(fixed)}' has one size: omit one")
        return replace(found, model=_padded(found, fixed))
    model = with_text_task(found)
    try:
        model = ragged(model, {SEQ: BATCH}, [MASK], (tokens, tokens) if isinstance(tokens, int) else tokens)
    except UnsupportedModelError as error:
        if tokens is not None:
            raise
        notes = [*model.notes, f"texts are padded to one length: {error}"]
        if not found.padding:
            notes.append("padding changes the results of this model: sessions run each text alone")
            model = _one_by_one(model)
        model = replace(model, notes=tuple(notes))
    return replace(found, model=model)


def _padded(found: Imported, fixed: Mapping[str, int]) -> ImportedModel:
    """A model of texts with dims of one size. It runs each text alone if that is the size of its batches; if it is the
    length of texts, it takes tensors."""
    model = with_text_task(found)
    if model.task is None or fixed == {BATCH: 1}:
        return _one_by_one(model)
    name, size = next(iter(fixed.items()))
    why = f"'{name}' is {size}, and texts have any number and length: bound it with {name}=1..{size}"
    return without_task(found.model, why)


def _one_by_one(model: ImportedModel) -> ImportedModel:
    """The model with a task that runs each text alone, if it has one."""
    task = model.task
    return replace(model, task=task.model_copy(update={"alone": True})) if isinstance(task, TextEntry) else model


def with_text_task(found: Imported) -> ImportedModel:
    """The model of texts with its task; if it has none, a note says why. Raises `UsageError` if the tokenizer does not
    belong to the model."""
    model, folder = found.model, found.folder
    name = architecture_of(folder)
    kind = next((kind for ending, kind in KINDS.items() if name.endswith(ending)), None)
    if folder.has(MODULES):
        kind = "embed"
    outputs = {port.name: port for port in model.outputs}
    if kind is None or not outputs.keys() >= set(ANSWERS[kind]):
        return without_task(model, no_method(model, folder))
    if not folder.has(TOKENIZER):
        return without_task(model, f"the folder has no {TOKENIZER}")
    tables = tables_of(folder, found.words)
    facts = facts_of(tables)
    settings = folder.object(SENTENCES, ENTRIES) or {}
    limits = (found.longest, facts.limit, settings.get("max_seq_length"))
    mask = special_token(folder, "mask_token", USUAL_MASKS) if kind == "fill" else ("", -1)
    if mask is None:
        return without_task(model, f"{folder.path / TOKENIZER} has no token for what is masked")
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
        mask=mask[0],
        mask_id=mask[1],
    )
    return replace(model, task=task, task_files={FILE: tables})

"""Models that generate, from Hugging Face folders and GGUF files: their tokenizer, the template of conversations, and
the tokens that end an answer."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from deploykit.artifact.tasks import LanguageEntry
from deploykit.compiler.model import DimBounds, ImportedModel
from deploykit.errors import UsageError
from deploykit.folders.tasks import tables_of, without_task
from deploykit.frontends.huggingface.folder import Folder, inside
from deploykit.frontends.huggingface.generation import import_step
from deploykit.frontends.huggingface.special import SETTINGS, SPECIAL, TOKENIZER
from deploykit.frontends.memory import carries, page_of
from deploykit.frontends.stepping import Generating
from deploykit.language.programs.proof import proved
from deploykit.language.programs.steps import NoProgram
from deploykit.language.template import ChatTemplate
from deploykit.text import FILE

GENERATION, TEMPLATE = "generation_config.json", "chat_template.jinja"

NAMES = ("bos_token", "eos_token", "unk_token", "pad_token")
"""Special tokens that templates know."""


def generating_model(source: Path | Folder, dims: DimBounds | None = None, cache: str = "float32") -> ImportedModel:
    """The decoder of a folder as a model that generates, with a `cache` of that dtype; it takes tokens, without a
    method for texts, if there is no tokenizer. Raises what `import_step` raises, and `UsageError` for a tokenizer that
    does not belong to the model."""
    return with_language(import_step(source, dims, cache))


def with_language(found: Generating) -> ImportedModel:
    """The model with its task; without one, if there is no tokenizer. Raises `UsageError` for a tokenizer that does not
    belong to the model."""
    if not found.folder.has(TOKENIZER):
        return without_task(found.model, f"the folder has no {TOKENIZER}")
    tables = tables_of(found.folder, found.words)
    task, notes = _task(found), found.model.notes
    if task.template:
        try:
            program = proved(ChatTemplate(task.template, task.special))
        except (NoProgram, UsageError) as reason:
            notes = (*notes, f"conversations become texts in Python alone: {reason}")
        else:
            update = {"program": base64.b64encode(program.steps).decode(), "lacks": program.lacks}
            task = task.model_copy(update=update)
            if program.lacks:
                what = ", ".join(program.lacks)
                notes = (*notes, f"some conversations become texts in Python alone, for the template has {what}")
    return replace(found.model, task=task, task_files={FILE: tables}, notes=notes)


def _task(found: Generating) -> LanguageEntry:
    return LanguageEntry(
        outputs=("logits",),
        files=(FILE,),
        context=found.context,
        page=page_of(found.memory),
        words=found.words,
        window=found.window,
        whole=carries(found.memory),
        stops=_stops(found.folder, found.words),
        template=_template(found.folder),
        special=_special(found.folder),
    )


def _stops(folder: Folder, words: int) -> tuple[int, ...]:
    """The tokens that end an answer: what the files say, and the token of that name."""
    stops: list[int] = []
    for where in (folder.object(GENERATION) or {}, folder.config):
        given = where.get("eos_token_id")
        stops += given if isinstance(given, list) else [] if given is None else [given]
    if other := [stop for stop in stops if not isinstance(stop, int) or not 0 <= stop < words]:
        raise UsageError(f"'eos_token_id' in {folder.path} is {other[0]!r:.40}; the model has {words} words")
    return tuple(dict.fromkeys(stops))


def _special(folder: Folder) -> dict[str, str]:
    """The texts of special tokens by their names."""
    found: dict[str, str] = {}
    for name in NAMES:
        for file in (SETTINGS, SPECIAL):
            given: Any = folder.part(file, name)
            text = given.get("content") if isinstance(given, Mapping) else given
            if isinstance(text, str):
                found.setdefault(name, text)
    return found


def _template(folder: Folder) -> str:
    """The template of conversations, in a file of its own or among the settings of the tokenizer; of several, the one
    that is called `default`. Empty if there is none."""
    if folder.documents is None and (path := inside(folder.path, TEMPLATE)).is_file():
        return path.read_text(encoding="utf-8")
    given: Any = folder.part(SETTINGS, "chat_template")
    if isinstance(given, list):
        given = {part.get("name"): part.get("template") for part in given if isinstance(part, Mapping)}.get("default")
    return given if isinstance(given, str) else ""

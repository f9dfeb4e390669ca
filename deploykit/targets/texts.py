"""What a model of texts is in C: `model_texts.h` and `model_texts.c`, with the model's own names and types.

They are for artifacts that hold the tokenizer (`runtime/text/`) and the runtime of such models (`runtime/answers/`,
`runtime/texts/`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from deploykit import runtime
from deploykit.targets.templates import render_shared
from deploykit.text import FILE, facts_of

if TYPE_CHECKING:
    from deploykit.artifact.tasks import TextEntry
    from deploykit.compiler.program.ir import Program

HEADER, SOURCE = "model_texts.h", "model_texts.c"

COPIED = (*runtime.ANSWERS, *runtime.TEXT, *runtime.TEXTS)
"""Sources that all models of texts share."""

_GIVES = {
    "embed": "vectors",
    "classify": "scores of classes",
    "tokens": "classes of tokens",
    "answer": "answers",
    "fill": "words",
}

_TOKEN_BYTES, _RUNE_BYTES, _SPARE = 12, 2 * 13, 64
"""Of `runtime/text/encode.c`: the memory of a token and of two runes, and how many there may be in an empty text."""

_SYMBOL_BYTES = (0, 32, 16)
"""Beside those of a token, by the kind of model."""


def task_of(program: Program) -> TextEntry | None:
    """What a model of texts does; None for other models, and for those with outputs beside the answer."""
    task = program.task
    if task is None or task.takes != "texts":
        return None
    return task if task.outputs == tuple(port.name for port in program.public[0].outputs) else None


def emit(program: Program, version: str) -> dict[str, str]:
    """The two files, by name; none for models of anything else."""
    found = view(program, version)
    return {} if found is None else {name: render_shared(name, found) for name in (HEADER, SOURCE)}


def exported(program: Program) -> list[str]:
    """The symbols that a library exports."""
    from deploykit.targets.sessions import exported_by

    task = task_of(program)
    return [] if task is None else exported_by(program, task, *(("word",) if task.kind == "fill" else ()))


def view(program: Program, version: str) -> dict[str, Any] | None:
    """What templates say of a model of texts; None for other models. `bounds` are what it takes at once, if its dims
    have bounds; `example` is a room for the workspace."""
    from deploykit.compiler.codegen.host.header import arena_bytes_at_bounds
    from deploykit.compiler.codegen.host.identifiers import c_string
    from deploykit.compiler.codegen.host.lines import in_comment
    from deploykit.compiler.dims import evaluate
    from deploykit.targets.sessions import common_view

    task = task_of(program)
    if task is None:
        return None
    (function,) = program.public
    names = [port.name for port in function.inputs]
    ids = function.inputs[names.index(task.ids)]
    ragged = ids.instance is not None
    other = next(name for name in names if name not in (task.ids, task.types))
    per_token = task.kind in ("tokens", "answer", "fill")
    tables = program.task_files[FILE]
    arena = arena_bytes_at_bounds(function)
    bounds = None if arena is None else _bounds(program, task, arena, ragged=ragged)
    return common_view(program, task, version) | {
        "gives": _GIVES[task.kind],
        "tables_bytes": len(tables),
        "ids": names.index(task.ids),
        "types": -1 if task.types is None else names.index(task.types),
        "lengths": names.index(other) if ragged else -1,
        "mask": -1 if ragged else names.index(other),
        "token_inputs": 1 + (task.types is not None) + (not ragged),
        "token_outputs": len(function.outputs) if per_token else 0,
        "per_token": per_token,
        "width": 1 if task.kind == "answer" else evaluate(function.outputs[0].shape[-1], {}),
        "most": task.most_tokens,
        "mask_token": task.mask_id,
        "mask_word": task.mask,
        "mask_text": c_string(task.mask) if task.mask else "NULL",
        "mask_shown": in_comment(task.mask),
        "masked": c_string(f"The {task.mask} sat on the mat."),
        "scratch": _scratch(tables),
        "bounds": bounds,
        "example": _example(task, bounds, ragged=ragged and task.kind not in ("answer", "fill")),
    }


def _scratch(tables: bytes) -> dict[str, int]:
    """The memory of the tokenizer for a text as `dk_text_workspace` computes it."""
    facts = facts_of(tables)
    symbol = _TOKEN_BYTES + _SYMBOL_BYTES[facts.model]
    fixed = 4 * 2 + (_RUNE_BYTES + symbol) * _SPARE + 256
    own = {"fixed": fixed, "rune": _RUNE_BYTES, "symbol": symbol}
    return own | {"runes": facts.runes_per_byte, "symbols": facts.symbols_per_byte}


def _bounds(program: Program, task: TextEntry, arena: int, *, ragged: bool) -> dict[str, int]:
    from deploykit.compiler.codegen.host.header import at_upper_bounds

    (function,) = program.public
    ports = {port.name: port for port in function.inputs}
    ids = at_upper_bounds(function, ports[task.ids].shape) or [0]
    (lengths,) = [port for name, port in ports.items() if name not in (task.ids, task.types)]
    texts = (at_upper_bounds(function, lengths.shape) or [0])[0] if ragged else 1
    limit = min(ids[-1], task.most_tokens or ids[-1])
    return {"texts": texts, "tokens": ids[-1], "limit": limit, "arena": arena}


def _example(task: TextEntry, bounds: Mapping[str, int] | None, *, ragged: bool) -> dict[str, int]:
    """A room for texts of usual lengths, several at once if `ragged`."""
    if bounds is not None:
        return {"bytes": 1000, "texts": bounds["texts"], "tokens": bounds["tokens"]}
    most = task.most_tokens or 512
    return (
        {"bytes": 1000, "texts": 32, "tokens": max(2048, most)}
        if ragged
        else {"bytes": 1000, "texts": 1, "tokens": most}
    )

"""What a model that generates is in C: `model_messages.h` and `model_messages.c`, with the model's own names and types.

They are for artifacts that hold the tokenizer (`runtime/text/`) and the runtime of such models (`runtime/language/`).
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from deploykit import runtime
from deploykit.targets.templates import render_shared
from deploykit.text import FILE

if TYPE_CHECKING:
    from deploykit.artifact.tasks import LanguageEntry
    from deploykit.compiler.program.ir import Program

HEADER, SOURCE = "model_messages.h", "model_messages.c"

COPIED = (*runtime.ANSWERS, *runtime.TEXT, *runtime.LANGUAGE, *runtime.GENERATING)
"""Sources that all models that generate share."""

FUNCTIONS = (
    *("open", "workspace_bytes", "set_workspace", "session_error", "complete", "chat", "chat_json", "next"),
    *("saved_bytes", "save", "restore"),
)
"""The symbols, without the model's prefix."""


def task_of(program: Program) -> LanguageEntry | None:
    """What a model that generates does; None for other models."""
    task = program.task
    return task if task is not None and task.takes == "messages" else None


def emit(program: Program, version: str) -> dict[str, str]:
    """The two files, by name; none for models of anything else."""
    found = view(program, version)
    return {} if found is None else {name: render_shared(name, found) for name in (HEADER, SOURCE)}


def exported(program: Program) -> list[str]:
    """The symbols that a library exports."""
    from deploykit.compiler.codegen.host.scope import prefix_of

    return [] if task_of(program) is None else [f"{prefix_of(program)}_{name}" for name in FUNCTIONS]


def view(program: Program, version: str) -> dict[str, Any] | None:
    """What templates say of a model that generates; None for other models."""
    from deploykit.compiler.codegen.host.header import state_header
    from deploykit.compiler.codegen.host.interface import states_entry
    from deploykit.targets.sessions import common_view

    task = task_of(program)
    if task is None:
        return None
    (function,) = program.public
    most = {dim.name: dim.maximum or task.context for dim in function.dims}
    return common_view(program, task, version) | {
        "tables_bytes": len(program.task_files[FILE]),
        "context": task.context,
        "page": task.page,
        "words": task.words,
        "window": task.window or 0,
        "whole": int(task.whole),
        "ends": task.stops,
        "pages_dim": [dim.name for dim in function.dims].index("pages"),
        "speaks": task.program != "",
        "dated": "strftime_now" in task.template,
        "program": [f"0x{byte:02x}" for byte in base64.b64decode(task.program)],
        "state_header": state_header(program.states),
        "page_bytes": states_entry(program.states).item_bytes,
        "build": [f"0x{byte:02x}" for byte in bytes.fromhex(task.build)],
        "most_tokens": min(task.context, task.page * most["pages"]),
        "at_once": min(64, task.context, most["tokens"]),
        "some": min(1024, task.context, task.page * most["pages"]),
    }

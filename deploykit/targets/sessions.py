"""What the sessions of all models with answers have in common in C: of texts, pictures and sound."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deploykit.compiler.codegen.host.identifiers import c_string
from deploykit.compiler.codegen.host.lines import in_comment
from deploykit.compiler.codegen.host.scope import prefix_of

if TYPE_CHECKING:
    from deploykit.artifact.tasks import TaskEntry
    from deploykit.compiler.program.ir import Program

FUNCTIONS = ("open", "workspace_bytes", "set_workspace", "session_error")
"""The symbols beside that of the task, without the model's prefix."""

SCORES = {
    "softmax": "Probabilities of classes",
    "sigmoid": "Probabilities of classes, each of which may hold or not",
    "as_is": "Numbers as the model gives them",
}


def common_view(program: Program, task: TaskEntry, version: str) -> dict[str, Any]:
    """What the templates of all kinds of models need."""
    prefix = prefix_of(program)
    return {
        "name": in_comment(program.name),
        "version": version,
        "prefix": prefix,
        "macro": prefix.upper(),
        "kind": task.kind,
        "names": task.labels,
        "labels": [c_string(label) for label in task.labels],
        "scores": task.scores.upper(),
        "score_text": SCORES[task.scores],
    }


def exported_by(program: Program, task: TaskEntry, *more: str) -> list[str]:
    """The symbols that a library exports, `more` without the model's prefix."""
    names = (*FUNCTIONS, task.kind, *(("labels",) if task.labels else ()), *more)
    return [f"{prefix_of(program)}_{name}" for name in names]

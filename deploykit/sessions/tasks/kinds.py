"""What the sides of a session for texts, pictures and sound have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from deploykit.errors import UsageError

if TYPE_CHECKING:
    from deploykit.artifact.tasks import TaskEntry

Run: TypeAlias = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Runs a model: from its inputs to its outputs, by name."""


def require(task: TaskEntry, kind: str) -> None:
    """Raise `UsageError` unless the model is for this."""
    if task.kind != kind:
        raise UsageError(f"this model does not {kind}: its session has the method '{task.kind}'")

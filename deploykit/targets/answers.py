"""What models with answers are in C: of texts, pictures, sound or messages, each with a module of this package.

A module has the files of such a model (`emit`), the symbols of its library (`exported`), the sources that it shares
with others (`COPIED`), and what templates say of it (`view`).
"""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from deploykit import runtime
from deploykit.targets import messages, pictures, sounds, texts

if TYPE_CHECKING:
    from deploykit.compiler.program.ir import Program

KINDS = {"texts": texts, "pictures": pictures, "sounds": sounds, "messages": messages}
"""By the entry that templates have for such models."""

INCLUDED = (
    runtime.ANSWERS_INCLUDE,
    runtime.TEXT_INCLUDE,
    runtime.TEXTS_INCLUDE,
    runtime.PICTURES_INCLUDE,
    runtime.SOUNDS_INCLUDE,
    runtime.LANGUAGE_INCLUDE,
)


def emit(program: Program, version: str) -> dict[str, str]:
    """The files of a model, by name; none for a model without answers."""
    module = _module_of(program)
    return {} if module is None else dict(module.emit(program, version))


def exported(program: Program) -> list[str]:
    """The symbols that a library exports."""
    module = _module_of(program)
    return [] if module is None else list(module.exported(program))


def sources(program: Program) -> tuple[Path, ...]:
    """Headers and sources that the model shares with others."""
    module = _module_of(program)
    return () if module is None else tuple(module.COPIED)


def views(program: Program, version: str) -> dict[str, Any]:
    """What templates say of the model, by kind; None for the other kinds."""
    return {name: module.view(program, version) for name, module in KINDS.items()}


def _module_of(program: Program) -> ModuleType | None:
    return next((module for module in KINDS.values() if module.task_of(program) is not None), None)

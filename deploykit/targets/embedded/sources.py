"""The sources of an artifact that are the same for all models that need them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from deploykit import runtime
from deploykit.targets import answers

if TYPE_CHECKING:
    from deploykit.compiler.program.ir import Program


def shared_sources(program: Program) -> tuple[Path, ...]:
    """The sources that a model has in common with others."""
    return (
        runtime.HEADER,
        *runtime.CORE,
        *runtime.further_sources(states=bool(program.states.tensors), instances=program.runs_instances),
        *answers.sources(program),
    )

"""The sources of an artifact: those that are the same for all models that need them, and how each is compiled."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from deploykit import runtime
from deploykit.targets import answers

if TYPE_CHECKING:
    from deploykit.compiler.program.ir import Program
    from deploykit.options.parts import CompileOptions


KERNELS = "kernels.c"
USUAL = "-O2"
OPTIMIZED = {KERNELS: "-O3", "deploykit.c": "-Os", "weights.c": "-O0", "tokenizer.c": "-O0"}
"""How much work a compiler does for a file, if not the usual: much for loops, little for plain data, and the checks of
a run are best small."""


def optimized(options: CompileOptions) -> dict[str, str]:
    """The same for the sources of a build, whose kernels may be meant to be small: loops that are written out more than
    once would take what shared code saves."""
    return {**OPTIMIZED, KERNELS: USUAL} if options.saves_code else OPTIMIZED


def shared_sources(program: Program) -> tuple[Path, ...]:
    """The sources that a model has in common with others."""
    return (
        runtime.HEADER,
        *runtime.CORE,
        *runtime.further_sources(states=bool(program.states.tensors), instances=program.runs_instances),
        *answers.sources(program),
    )


def core_version() -> int:
    """`DK_VERSION`: what a model and its core must have in common."""
    found = re.search(r"#define DK_VERSION (\d+)", runtime.HEADER.read_text(encoding="utf-8"))
    assert found
    return int(found[1])

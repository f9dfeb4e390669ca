"""What a model of sound is in C: `model_sounds.h` and `model_sounds.c`, with the model's own names and types.

They are for artifacts that hold the runtime of such models (`runtime/answers/`, `runtime/sounds/`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deploykit import runtime
from deploykit.targets.templates import render_shared

if TYPE_CHECKING:
    from deploykit.artifact.tasks import SoundEntry
    from deploykit.compiler.program.ir import Program

HEADER, SOURCE = "model_sounds.h", "model_sounds.c"

COPIED = (*runtime.ANSWERS, *runtime.SOUNDS)
"""Sources that all models of sound share."""

SIGMA = "\u03a3"
"""The capital letter whose lower case depends on its neighbours."""

_GIVES = {"transcribe": "transcripts", "classify": "scores of classes"}


def task_of(program: Program) -> SoundEntry | None:
    """What a model of sound does; None for other models, and for those that its runtime in C cannot call."""
    from deploykit.targets.single import constant, function_of, output_of

    task = program.task
    if task is None or task.takes != "sound":
        return None
    function = function_of(program, task)
    if function is None:
        return None
    shape = function.outputs[output_of(function, task.outputs[0])].shape
    if len(shape) != (3 if task.kind == "transcribe" else 2) or constant(shape[-1:]) is None:
        return None
    text = "".join(task.letters)
    return None if "\0" in text or (task.lower and SIGMA in text) else task


def emit(program: Program, version: str) -> dict[str, str]:
    """The two files, by name; none for models of anything else."""
    found = view(program, version)
    return {} if found is None else {name: render_shared(name, found) for name in (HEADER, SOURCE)}


def exported(program: Program) -> list[str]:
    """The symbols that a library exports."""
    from deploykit.targets.sessions import exported_by

    task = task_of(program)
    return [] if task is None else exported_by(program, task)


def view(program: Program, version: str) -> dict[str, Any] | None:
    """What templates say of a model of sound; None for other models. `bounds`: what a run takes at most, if dims have
    bounds."""
    from deploykit.compiler.codegen.host.identifiers import c_string
    from deploykit.targets.sessions import common_view
    from deploykit.targets.single import bounds_of, constant, output_of

    task = task_of(program)
    if task is None:
        return None
    (function,) = program.public
    output = output_of(function, task.outputs[0])
    letters = ["" if letter == task.blank else letter for letter in task.letters]
    shown = [letter.lower() if task.lower else letter for letter in letters]
    longest = max((len(letter.encode()) for letter in shown), default=0)
    bounds = bounds_of(function)
    times = _times(program, output) if bounds and letters else 0
    return common_view(program, task, version) | {
        "gives": _GIVES[task.kind],
        "output": output,
        "width": constant(function.outputs[output].shape[-1:]),
        "rate": task.rate,
        "normal": task.normal,
        "letters": [c_string(letter) for letter in shown],
        "alike": [letters.index(letter) for letter in letters],
        "longest": longest,
        "bounds": bounds and bounds | {"after": longest * times},
        "most_bytes": longest * times + 1,
        "example": bounds and bounds["input"] // 4,
    }


def _times(program: Program, output: int) -> int:
    """The most letters of a transcript."""
    from deploykit.compiler.codegen.host.header import at_upper_bounds

    (function,) = program.public
    return (at_upper_bounds(function, function.outputs[output].shape) or [0, 0])[1]

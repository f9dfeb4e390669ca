"""What a model of pictures is in C: `model_pictures.h` and `model_pictures.c`, with the model's own names and types.

They are for artifacts that hold the runtime of such models (`runtime/answers/`, `runtime/pictures/`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deploykit import runtime
from deploykit.pictures import Edges
from deploykit.targets.templates import render_shared

if TYPE_CHECKING:
    from deploykit.artifact.tasks import PictureEntry
    from deploykit.compiler.program.ir import Function, Program

HEADER, SOURCE = "model_pictures.h", "model_pictures.c"

COPIED = (*runtime.ANSWERS, *runtime.PICTURES)
"""Sources that all models of pictures share."""

OBJECT_BYTES = 24
"""Those of a `dk_object`."""

EXAMPLE = {"width": 640, "height": 480}
"""The size of a picture in examples."""

_GIVES = {"embed": "vectors", "classify": "scores of classes", "detect": "objects", "segment": "classes of points"}


def task_of(program: Program) -> PictureEntry | None:
    """What a model of pictures does; None for other models, and for those that its runtime in C cannot call."""
    from deploykit.targets.single import function_of

    task = program.task
    if task is None or task.takes != "pictures":
        return None
    function = function_of(program, task)
    return None if function is None or _width(function, task) is None else task


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
    """What templates say of a model of pictures; None for other models. `bounds`: what a run takes at most, if dims
    have bounds."""
    from deploykit.targets.sessions import common_view
    from deploykit.targets.single import bounds_of, output_of

    task = task_of(program)
    if task is None:
        return None
    (function,) = program.public
    answer, *others = (output_of(function, name) for name in task.outputs)
    bounds = bounds_of(function)
    return common_view(program, task, version) | {
        "gives": _GIVES[task.kind],
        "steps": _steps(task),
        "output": answer,
        "boxes": others[0] if others else -1,
        "queries": _queries(function, task),
        "width": _width(function, task),
        "wide_classes": len(task.labels) > 256,
        "bounds": bounds and bounds | _scratch(function, task) | {"after": OBJECT_BYTES * _queries(function, task)},
        "example": EXAMPLE,
    }


def _width(function: Function, task: PictureEntry) -> int | None:
    """The numbers of a vector, or the classes, of a model whose answers have a known size; None for others."""
    from deploykit.targets.single import constant

    (answer,) = [port for port in function.outputs if port.name == task.outputs[0]]
    if task.kind == "segment":
        return constant(answer.shape[1:2])
    if task.kind == "detect":
        return None if constant(answer.shape[1:]) is None else len(task.labels)
    return constant(answer.shape[1:])


def _queries(function: Function, task: PictureEntry) -> int:
    """How many objects a detector looks for."""
    from deploykit.targets.single import constant

    (answer,) = [port for port in function.outputs if port.name == task.outputs[0]]
    return (constant(answer.shape[1:2]) or 0) if task.kind == "detect" else 0


def _steps(task: PictureEntry) -> dict[str, Any]:
    """The initializers of a `dk_picture_steps`."""
    from deploykit.targets.single import c_float

    picture = task.picture
    size = picture.size if isinstance(picture.size, tuple) else (0, 0)
    edges = picture.size if isinstance(picture.size, Edges) else Edges(0)
    normal = picture.mean is not None and picture.deviation is not None
    return {
        "size": size,
        "edges": (edges.shortest, edges.longest or 0),
        "crop": picture.crop or (0, 0),
        "cubic": picture.filter == "bicubic",
        "bgr": picture.bgr,
        "scale": repr(1.0 if picture.scale is None else picture.scale),
        "mean": [c_float(value) for value in (picture.mean if normal and picture.mean else (0.0,) * 3)],
        "deviation": [c_float(value) for value in (picture.deviation if normal and picture.deviation else (1.0,) * 3)],
    }


def _scratch(function: Function, task: PictureEntry) -> dict[str, int]:
    """The arguments of `DK_PICTURE_SCRATCH` beside the size of a picture. `least` is 1 where a new size may be of any
    number of rows."""
    from deploykit.compiler.codegen.host.header import at_upper_bounds

    size = task.picture.size
    least = size[0] if isinstance(size, tuple) else 1
    if isinstance(size, Edges) and size.longest is None:
        least = size.shortest
    columns = (at_upper_bounds(function, function.inputs[0].shape) or [0])[3]
    return {"support": 2 if task.picture.filter == "bicubic" else 1, "least": least, "columns": columns}

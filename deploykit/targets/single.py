"""What models with answers share in C if they take one tensor: those of pictures and of sound."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from deploykit.compiler.codegen.host.header import arena_bytes_at_bounds, at_upper_bounds
from deploykit.compiler.codegen.host.reads import is_static
from deploykit.compiler.dims import evaluate, free_vars

if TYPE_CHECKING:
    from deploykit.artifact.tasks import PictureEntry, SoundEntry
    from deploykit.compiler.dims.expressions import IntExpr
    from deploykit.compiler.program.ir import Function, Program

MOST_OUTPUTS, MOST_DIMS = 8, 16
"""Of `answers.h` and `deploykit.h`."""

ROOM = 64
"""Bytes that a tensor in a workspace starts at a multiple of."""


def function_of(program: Program, task: PictureEntry | SoundEntry) -> Function | None:
    """The function that answers; None if the runtime in C cannot call it."""
    if len(program.public) != 1 or program.states.tensors:
        return None
    (function,) = program.public
    extents = [extent for port in function.outputs for extent in port.shape]
    fits = len(function.inputs) == 1 and len(function.outputs) <= MOST_OUTPUTS and len(function.dims) <= MOST_DIMS
    fits = fits and all(dim.capacity_of is None for dim in function.dims) and is_static(function, extents)
    used = [function.inputs[0], *(port for port in function.outputs if port.name in task.outputs)]
    return function if fits and all(port.dtype == "float32" for port in used) else None


def output_of(function: Function, name: str) -> int:
    """The index of an output."""
    return [port.name for port in function.outputs].index(name)


def constant(extents: Sequence[IntExpr]) -> int | None:
    """The product of extents; None if one of them depends on a dim."""
    return None if any(free_vars(extent) for extent in extents) else math.prod(evaluate(each, {}) for each in extents)


def bounds_of(function: Function) -> dict[str, int] | None:
    """Bytes of a run at the upper bounds of dims; None if there are none."""
    arena = arena_bytes_at_bounds(function)
    sizes = [at_upper_bounds(function, port.shape) for port in (*function.inputs, *function.outputs)]
    if arena is None or any(size is None for size in sizes):
        return None
    given, *others = [-(-4 * math.prod(size or ()) // ROOM) * ROOM for size in sizes]
    return {"arena": arena, "input": given, "outputs": sum(others)}


def c_float(value: float) -> str:
    """A literal of a float with the bits of the number."""
    return f"{np.float32(value)!s}f"

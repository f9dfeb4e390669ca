"""Determines which bindings the shaders of a program need, and so which shaders there are.

Two operands of one launch may lie in the same memory: one tensor given twice, or a result over an operand. WebGPU then
requires one binding for both. A kernel has one shader for each way in which its launches' operands share memory.

A constant that is larger than the largest binding of some devices has several bindings, if the shader may have as many.
"""

from __future__ import annotations

from collections.abc import Iterator

from deploykit.compiler.codegen.shaders.language import Sharing
from deploykit.compiler.codegen.shaders.languages import language_of
from deploykit.compiler.codegen.shaders.sections import Shader
from deploykit.compiler.program.ir import (
    ArenaStorage,
    ConstantStorage,
    Function,
    InputStorage,
    Launch,
    OutputStorage,
    Program,
    StateStorage,
    Storage,
)
from deploykit.compiler.program.steps import number_steps


def sharing_of(program: Program, function: Function, launch: Launch) -> Sharing:
    """Which operands of a launch share memory: those in the same place do. The arena is one buffer that is written to,
    and so are the states and each output; the inputs of a function that others call are in the arena, too. During a
    dispatch a buffer is either only read or may be written (W3C, "WebGPU", usage scopes)."""
    places: dict[Storage, int] = {}
    groups = []
    for tensor in launch.tensors:
        place = function.tensors[tensor].storage
        groups.append(places.setdefault(place, len(places)))
    writable = ArenaStorage | OutputStorage | StateStorage | (InputStorage if function.internal else ArenaStorage)
    written = tuple(isinstance(place, writable) for place in places)
    parts = tuple(constant_parts(program, place) for place in places)
    enough = program.gpu is None or sum(max(1, len(sizes)) for sizes in parts) <= program.gpu.bindings
    return Sharing(tuple(groups), written, parts if enough else ((),) * len(places))


def constant_parts(program: Program, place: Storage) -> tuple[int, ...]:
    """The bytes of each part of a constant that some devices cannot bind as a whole; empty for all others."""
    if not isinstance(place, ConstantStorage) or program.gpu is None:
        return ()
    size, most = program.constants[place.index].data.nbytes, program.gpu.binding_bytes
    return tuple(min(most, size - first) for first in range(0, size, most)) if size > most else ()


def shaders_of(program: Program) -> dict[tuple[int, Sharing], int]:
    """The number of each shader, keyed by kernel and sharing, in the order of the launches."""
    found: dict[tuple[int, Sharing], int] = {}
    for function in program.functions:
        for launch in _launches(program, function):
            found.setdefault((launch.kernel, sharing_of(program, function, launch)), len(found))
    return found


def emit_shaders(program: Program) -> list[Shader]:
    """The shaders by their numbers; empty for a program without a GPU."""
    if program.gpu is None:
        return []
    language = language_of(program.gpu)
    return [language.emit(program.kernels[kernel], sharing, program.gpu) for kernel, sharing in shaders_of(program)]


def _launches(program: Program, function: Function) -> Iterator[Launch]:
    for numbered in number_steps(function.steps):
        if isinstance(numbered.step, Launch) and program.kernels[numbered.step.kernel].gpu:
            yield numbered.step

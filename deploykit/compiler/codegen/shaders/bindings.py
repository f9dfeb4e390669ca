"""Determines which bindings the shaders of a program need, and so which shaders there are.

Two operands of one launch may lie in the same memory: one tensor given twice, or a result over an operand. WebGPU then
requires one binding for both. A kernel has one shader for each way in which its launches' operands share memory.

A tensor that is larger than the largest binding of some devices has several bindings, if the shader may have as many.
For tensors other than constants this is known where the dims have upper bounds; a launch with a tensor that is larger
than all its bindings is refused when it runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from deploykit.compiler.codegen.shaders.language import Sharing
from deploykit.compiler.codegen.shaders.languages import language_of
from deploykit.compiler.codegen.shaders.sections import Shader
from deploykit.compiler.dims import largest
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
from deploykit.compiler.program.sizes import tensor_bytes
from deploykit.compiler.program.steps import number_steps

if TYPE_CHECKING:
    from deploykit.compiler.devices.gpu import Gpu

COUNTABLE = (1 << 31) - 16
"""The most bytes of a tensor that shaders can count, as whole vectors."""


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
    parts = [constant_parts(program, place) for place in places]
    if program.gpu is None or sum(max(1, len(sizes)) for sizes in parts) > program.gpu.bindings:
        parts = [()] * len(places)
    whole = [sum(sizes) for sizes in parts]
    if program.gpu is not None and not function.internal:
        found = _growing(function, launch, groups, program.gpu.binding_bytes)
        most = max(found.values(), default=0)
        for group, count in _counts(found, parts, program.gpu).items():
            parts[group], whole[group] = (program.gpu.binding_bytes,) * count, most
    return Sharing(tuple(groups), written, tuple(parts), tuple(whole))


def _growing(function: Function, launch: Launch, groups: Sequence[int], binding: int) -> dict[int, int]:
    """The most bytes of each memory of a launch that may be larger than `binding`, other than constants."""
    box = {dim.var: (dim.minimum, dim.maximum) for dim in function.dims}
    found: dict[int, int] = {}
    for index, group in zip(launch.tensors, groups, strict=True):
        tensor = function.tensors[index]
        most = None if isinstance(tensor.storage, ConstantStorage) else largest(tensor_bytes(tensor), box)
        if most is not None and most > binding:
            found[group] = max(found.get(group, 0), min(most, COUNTABLE))
    return found


def _counts(found: Mapping[int, int], parts: Sequence[tuple[int, ...]], gpu: Gpu) -> dict[int, int]:
    """How many bindings each memory in `found` gets: as many as it may need, or as a shader has."""
    counts = {group: -(-most // gpu.binding_bytes) for group, most in found.items()}
    free = gpu.bindings - sum(max(1, len(sizes)) for group, sizes in enumerate(parts) if group not in counts)
    while counts and sum(counts.values()) > free and max(counts.values()) > 1:
        counts[max(counts, key=lambda group: counts[group])] -= 1
    return {group: count for group, count in counts.items() if count > 1}


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

"""Which memory the shaders of a program's launches see, and so which shaders there are.

Two operands of one launch may lie in the same memory: one tensor given twice, or a result over an operand. WebGPU wants
one binding for both. A kernel has a shader for each way its launches' operands share memory.
"""

from __future__ import annotations

from collections.abc import Iterator

from deploykit.compiler.codegen.wgsl.shader import Sharing, emit_wgsl
from deploykit.compiler.codegen.wgsl.variants import Shader
from deploykit.compiler.program.ir import ArenaStorage, Launch, OutputStorage, Program, Storage
from deploykit.compiler.program.steps import number_steps


def sharing_of(program: Program, launch: Launch) -> Sharing:
    """Operands at one place share a binding. The arena is one buffer that is written to, as are outputs; a buffer is
    either read or written throughout a dispatch (W3C, "WebGPU", usage scopes)."""
    places: dict[Storage, int] = {}
    groups = []
    for tensor in launch.tensors:
        place = program.tensors[tensor].storage
        groups.append(places.setdefault(place, len(places)))
    return Sharing(tuple(groups), tuple(isinstance(place, ArenaStorage | OutputStorage) for place in places))


def shaders_of(program: Program) -> dict[tuple[int, Sharing], int]:
    """The number of each shader, by the kernel and what its operands share, in the order of the launches."""
    found: dict[tuple[int, Sharing], int] = {}
    for launch in _launches(program):
        found.setdefault((launch.kernel, sharing_of(program, launch)), len(found))
    return found


def emit_shaders(program: Program) -> list[Shader]:
    """Each shader, by its number."""
    return [emit_wgsl(program.kernels[kernel], sharing) for kernel, sharing in shaders_of(program)]


def _launches(program: Program) -> Iterator[Launch]:
    for numbered in number_steps(program.steps):
        if isinstance(numbered.step, Launch) and program.kernels[numbered.step.kernel].gpu:
            yield numbered.step

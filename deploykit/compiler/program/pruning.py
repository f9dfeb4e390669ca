"""Leaves out the kernels that no step launches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from deploykit.compiler.program.ir import Function, If, Launch, Loop, Step
from deploykit.compiler.program.steps import number_steps

if TYPE_CHECKING:
    from deploykit.compiler.program.ir import Program


def without_unused_kernels(program: Program) -> Program:
    """`program`, with the kernels that its functions launch."""
    steps = [numbered.step for function in program.functions for numbered in number_steps(function.steps)]
    used = sorted({step.kernel for step in steps if isinstance(step, Launch)})
    numbers = {old: new for new, old in enumerate(used)}
    functions = tuple(_renumbered(function, numbers) for function in program.functions)
    return replace(program, functions=functions, kernels=tuple(program.kernels[index] for index in used))


def _renumbered(function: Function, numbers: Mapping[int, int]) -> Function:
    def of(steps: Sequence[Step]) -> tuple[Step, ...]:
        return tuple(map(renumbered, steps))

    def renumbered(step: Step) -> Step:
        match step:
            case Launch():
                return replace(step, kernel=numbers[step.kernel])
            case Loop():
                return replace(step, body=of(step.body))
            case If():
                return replace(step, then=of(step.then), otherwise=of(step.otherwise))
            case _:
                return step

    return replace(function, steps=of(function.steps))

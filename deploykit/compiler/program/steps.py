"""Walks the steps of a program, nested ones included.

Steps are numbered in the order of a depth-first walk: an `If` or `Loop` comes before the steps that it holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from deploykit.compiler.program.ir import (
    BindDim,
    Call,
    Check,
    CheckIndices,
    Copy,
    CopySlice,
    If,
    Launch,
    Loop,
    Reserve,
    RunInstances,
    Step,
    Transfer,
)


@dataclass(frozen=True)
class Numbered:
    """`number` is that of the step; `last` is that of the last step nested in it (its own if there is none)."""

    number: int
    last: int
    step: Step
    depth: int


def number_steps(steps: Sequence[Step], start: int = 0, depth: int = 0) -> Iterator[Numbered]:
    """All steps, outer before inner, in order."""
    for step in steps:
        inner = [n for block in nested(step) for n in block]
        numbered = list(number_steps(inner, start + 1, depth + 1)) if inner else []
        last = numbered[-1].last if numbered else start
        yield Numbered(start, max(start, last), step, depth)
        yield from numbered
        start = max(start, last) + 1


def nested(step: Step) -> tuple[tuple[Step, ...], ...]:
    """The blocks that a step holds."""
    if isinstance(step, If):
        return (step.then, step.otherwise)
    return (step.body,) if isinstance(step, Loop) else ()


def can_fail(step: Step) -> bool:
    """Whether a step itself (not the steps it holds) may end a run, apart from a failure of the device."""
    if isinstance(step, BindDim):
        return step.minimum is not None or step.maximum is not None
    return isinstance(step, Call | Check | CheckIndices | Reserve | RunInstances)


def reads_and_writes(step: Step) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The tensors that a step itself (not the steps it holds) reads, and those that it writes, workspaces included."""
    if isinstance(step, Launch):
        written = len(step.tensors) - step.outputs - step.workspaces
        return step.tensors[:written], step.tensors[written:]
    if isinstance(step, (Copy, CopySlice)):
        return (step.source,), (step.target,)
    if isinstance(step, Transfer):
        return step.tensors, ()
    if isinstance(step, Call):
        return step.inputs, (*step.outputs, step.arena)
    if isinstance(step, RunInstances):
        read = (step.instances, step.roots, step.elements, step.policy, step.shared)
        return tuple(index for index in read if index is not None), (
            *step.outputs,
            step.launches,
            step.trace,
            step.words,
            step.pool,
        )
    if isinstance(step, (BindDim, CheckIndices)):
        return (step.tensor,), ()
    if isinstance(step, (If, Loop)) and step.condition is not None:
        return (step.condition,), ()
    return (), ()

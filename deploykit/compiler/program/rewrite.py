"""Changing a list of steps, nested ones included."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from deploykit.compiler.program.ir import If, Loop, Reserve, Step
from deploykit.compiler.program.steps import reads_and_writes


def insert_before_first_write(
    steps: Sequence[Step], reservations: Mapping[int, Reserve], buffers: Sequence[int]
) -> list[Step]:
    """`steps` with each buffer's reservation before every step that writes the buffer. `buffers[t]` is tensor `t`'s."""
    result: list[Step] = []
    for step in steps:
        written = [buffers[t] for t in reads_and_writes(step)[1]]
        result.extend(reservations[b] for b in dict.fromkeys(written) if b in reservations)
        result.append(_inside(step, reservations, buffers))
    return result


def _inside(step: Step, reservations: Mapping[int, Reserve], buffers: Sequence[int]) -> Step:
    if isinstance(step, If):
        return replace(
            step,
            then=tuple(insert_before_first_write(step.then, reservations, buffers)),
            otherwise=tuple(insert_before_first_write(step.otherwise, reservations, buffers)),
        )
    if isinstance(step, Loop):
        return replace(step, body=tuple(insert_before_first_write(step.body, reservations, buffers)))
    return step

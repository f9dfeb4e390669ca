"""Changes lists of steps, nested ones included."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from deploykit.compiler.dims import free_vars
from deploykit.compiler.program.ir import CopySlice, If, Loop, Reserve, Step
from deploykit.compiler.program.steps import number_steps, reads_and_writes


def with_reservations(
    steps: Sequence[Step],
    reservations: Mapping[int, Reserve],
    buffers: Sequence[int],
    counted: frozenset[int] = frozenset(),
) -> list[Step]:
    """The steps, with each buffer's reservation before every step that writes the buffer. `buffers[t]` is the buffer of
    tensor `t`.

    A loop that counts its rows keeps the rows that have room, and the reservation for them comes after the loop.
    `counted` are the buffers of such rows in the enclosing loops."""
    result: list[Step] = []
    for step in steps:
        written = dict.fromkeys(buffers[t] for t in reads_and_writes(step)[1])
        result.extend(reservations[b] for b in written if b in reservations and b not in counted)
        if isinstance(step, CopySlice):
            result.append(replace(step, where_room=not counted.isdisjoint(written)))
        elif isinstance(step, If):
            then, otherwise = (
                tuple(with_reservations(block, reservations, buffers, counted)) for block in (step.then, step.otherwise)
            )
            result.append(replace(step, then=then, otherwise=otherwise))
        elif isinstance(step, Loop):
            own = _counted_by(step, reservations, buffers)
            body = with_reservations(step.body, reservations, buffers, counted.union(own))
            result += [replace(step, body=tuple(body)), *(reservations[b] for b in own)]
        else:
            result.append(step)
    return result


def _counted_by(loop: Loop, reservations: Mapping[int, Reserve], buffers: Sequence[int]) -> list[int]:
    """The buffers that get one row per iteration, and whose reservations depend on the number of iterations."""
    rows = dict.fromkeys(buffers[n.step.target] for n in number_steps(loop.body) if isinstance(n.step, CopySlice))
    return [b for b in rows if b in reservations and loop.count in free_vars(reservations[b].bytes_needed)]

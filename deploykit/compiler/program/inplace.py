"""Finds results that can be computed in the memory of an operand.

A launch may write its result over an input when

* its kernel allows it (`overwriting`);
* the input has memory of its own (not the caller's, not a constant), which no later step reads and no other operand of
  the launch uses;
* input and result have the same number of elements, given by the same expression, so the memory has the right size.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any

import tvm_ffi

from deploykit.compiler.dims import free_vars
from deploykit.compiler.program.ir import Copy, If, Launch, Loop, Step
from deploykit.compiler.program.steps import can_fail, number_steps, reads_and_writes

if TYPE_CHECKING:
    from tvm import tirx

    from deploykit.compiler.program.trace import Trace


class InPlace(enum.Enum):
    """Which results are computed in the memory of an operand: where this saves memory, never, or wherever it is
    allowed, each time over a copy of the operand. The numbers are the same in all three modes; tests check this."""

    WHERE_FREE = "free"
    NEVER = "never"
    ALWAYS = "always"


def alias_in_place(trace: Trace, taken: AbstractSet[int]) -> dict[int, int]:
    """Map each buffer to the buffer whose memory it takes over. Only top-level launches are considered. Buffers in
    `taken` have a place already."""
    last_use: dict[int, int] = {}
    top: dict[int, int] = {}
    for numbered in number_steps(trace.steps):
        for tensor in (*reads_and_writes(numbered.step)[0], *reads_and_writes(numbered.step)[1]):
            last_use[trace.tensors[tensor].buffer] = numbered.number
        if numbered.depth == 0:
            top[id(numbered.step)] = numbered.number
    alias: dict[int, int] = {}
    for step in trace.steps:
        if not isinstance(step, Launch):
            continue
        inputs, written = reads_and_writes(step)
        target = trace.tensors[written[0]].buffer
        for position in () if target in taken else _candidates(trace, step):
            source = trace.tensors[inputs[position]].buffer
            alone = sum(trace.tensors[t].buffer == source for t in inputs) == 1
            free = trace.buffers[source].source[0] == "memory" and source not in taken
            if alone and free and last_use[source] == top[id(step)]:
                alias[target] = source
                break
    return alias


def may_replace(trace: Trace, target: int, source: tuple[str, int | None], data_dims: AbstractSet[tirx.Var]) -> bool:
    """Whether the buffer `target` can be computed in the memory of the buffer with that source.

    The first step that writes `target` must be a top-level step, and neither it nor a later step may fail. From this
    step on nothing may read the other buffer, except this step itself if it copies that buffer, or if it is a launch
    that may write its result over that operand. Writing a tensor whose size depends on `data_dims` may fail, because
    there may be no room for it."""
    reads, writes = [], []
    failing = -1
    for numbered in number_steps(trace.steps):
        read, written = reads_and_writes(numbered.step)
        sources = {trace.buffers[trace.tensors[t].buffer].source for t in (*read, *written)}
        reads += [numbered.number] if source in sources else []
        writes += [numbered] if any(trace.tensors[t].buffer == target for t in written) else []
        grows = any(v in data_dims for t in written for n in trace.tensors[t].shape for v in free_vars(n))
        failing = max(failing, numbered.number if grows or can_fail(numbered.step) else -1)
    if not writes or writes[0].depth or failing >= writes[0].number:
        return False
    step, last = writes[0].step, max(reads, default=-1)
    if last != writes[0].number:
        return last < writes[0].number
    inputs = reads_and_writes(step)[0]
    if isinstance(step, Copy):
        return trace.buffers[trace.tensors[step.source].buffer].source == source
    at = [i for i, t in enumerate(inputs) if trace.buffers[trace.tensors[t].buffer].source == source]
    return isinstance(step, Launch) and len(at) == 1 and at[0] in _candidates(trace, step)


def always_in_place(trace: Trace) -> None:
    """Let every launch that may write its result over an operand do so, over a copy of the operand. Where a launch may
    choose among several operands, launches take turns."""
    turns = count()

    def rewritten(steps: Sequence[Step]) -> Iterator[Step]:
        for step in steps:
            if isinstance(step, If):
                then, otherwise = (tuple(rewritten(block)) for block in (step.then, step.otherwise))
                yield replace(step, then=then, otherwise=otherwise)
            elif isinstance(step, Loop):
                yield replace(step, body=tuple(rewritten(step.body)))
            elif isinstance(step, Launch) and (candidates := _candidates(trace, step)):
                position = candidates[next(turns) % len(candidates)]
                result = trace.tensors[reads_and_writes(step)[1][0]]
                operand = trace.tensors[step.tensors[position]]
                trace.tensors.append(replace(operand, name=f"{operand.name}_copy", buffer=result.buffer))
                copy = len(trace.tensors) - 1
                yield Copy(copy, step.tensors[position])
                yield replace(step, tensors=(*step.tensors[:position], copy, *step.tensors[position + 1 :]))
            else:
                yield step

    trace.steps[:] = list(rewritten(trace.steps))


def _candidates(trace: Trace, step: Launch) -> list[int]:
    """Positions of the inputs that the kernel may overwrite and that have the size of the result: none of a kernel that
    takes parts of buffers."""
    inputs, written = reads_and_writes(step)
    if any(tensor in trace.starts for tensor in (*inputs, *written)):
        return []
    needed = trace.buffers[trace.tensors[written[0]].buffer].elements
    found = {i: trace.buffers[trace.tensors[inputs[i]].buffer].elements for i in trace.pool.in_place[step.kernel]}
    return [position for position, elements in found.items() if _same(elements, needed)]


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, int) or isinstance(b, int):
        return isinstance(a, int) and isinstance(b, int) and a == b
    return bool(tvm_ffi.structural_equal(a, b, map_free_vars=False))

"""From which step to which a buffer of a trace is used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from deploykit.compiler.program.steps import number_steps, reads_and_writes

if TYPE_CHECKING:
    from deploykit.compiler.program.trace import Trace


def root(alias: Mapping[int, int], buffer: int) -> int:
    """The buffer whose memory a buffer has, possibly through others."""
    while buffer in alias:
        buffer = alias[buffer]
    return buffer


def lifetimes(trace: Trace, alias: Mapping[int, int]) -> dict[int, tuple[int, int]]:
    """The first and last step of each buffer that is touched. An alias counts for its root."""
    touched: dict[int, list[int]] = {}
    loops: list[tuple[int, int]] = []
    for numbered in number_steps(trace.steps):
        if numbered.last > numbered.number:
            loops.append((numbered.number, numbered.last))
        reads, writes = reads_and_writes(numbered.step)
        for tensor in (*reads, *writes):
            buffer = root(alias, trace.tensors[tensor].buffer)
            touched.setdefault(buffer, []).append(numbered.number)
    result = {}
    for buffer, numbers in touched.items():
        first, last = min(numbers), max(numbers)
        for start, end in loops:
            if first < start <= last <= end:
                last = end
            if start <= first <= end < last:
                first = start
        result[buffer] = (first, last)
    return result

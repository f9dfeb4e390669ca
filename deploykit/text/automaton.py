"""From the program of a regular expression to an automaton that reads one character at a time.

A state is the list of threads that are alive, the preferred one first, before they look ahead. The next character, or
the end of the text, decides which threads go on; a thread that has found a match ends those after it. An entry of the
table is the number of the next state, with `MATCH` if a match ends in front of the character that was read. State 0 is
dead, state 1 the start.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deploykit.text.regex import Ahead, Divide, Found, Pattern, Refused, Take

MATCH = 0x8000
_MOST_STATES = 4096

Threads = tuple[int, ...]


@dataclass(frozen=True)
class Automaton:
    columns: NDArray[np.uint8]
    """The column of each class of characters, and at last that of the end of the text."""
    table: NDArray[np.uint16]
    """The next state by state and column."""


def automaton_of(pattern: Pattern, representatives: NDArray[np.int64]) -> Automaton:
    """`representatives` has a character of each class. The classes must tell the sets of the pattern apart."""
    allowed = [_allowed(instruction, representatives) for instruction in pattern.program]
    signatures = np.stack(allowed, axis=1)
    kinds, columns = np.unique(signatures, axis=0, return_inverse=True)
    end = int(columns.ravel()[-1])
    numbers: dict[Threads, int] = {(): 0, (0,): 1}
    rows: list[list[int]] = []
    waiting: list[Threads] = [(), (0,)]
    for threads in waiting:
        row = []
        for column, kind in enumerate(kinds):
            following, found = _step(pattern, threads, kind)
            if column == end:
                following = ()
            if following not in numbers:
                numbers[following] = len(numbers)
                waiting.append(following)
            row.append(numbers[following] | (MATCH if found else 0))
        rows.append(row)
        if len(waiting) > _MOST_STATES:
            raise Refused("it needs too many states")
    return Automaton(columns.ravel().astype(np.uint8), np.array(rows, np.uint16))


def _allowed(instruction: object, representatives: NDArray[np.int64]) -> NDArray[np.bool_]:
    """For each class, and at last for the end: whether the instruction lets a thread pass."""
    if isinstance(instruction, Take):
        return np.append(instruction.chars[representatives], False)
    if isinstance(instruction, Ahead):
        return np.append(instruction.chars[representatives], instruction.at_end)
    # The end of the text is a column of its own.
    return np.append(np.zeros(len(representatives), np.bool_), isinstance(instruction, Found))


def _step(pattern: Pattern, threads: Threads, passes: NDArray[np.bool_]) -> tuple[Threads, bool]:
    following: dict[int, None] = {}
    seen: set[int] = set()
    stack = list(reversed(threads))
    while stack:
        at = stack.pop()
        if at in seen:
            continue
        seen.add(at)
        instruction = pattern.program[at]
        if isinstance(instruction, Found):
            return tuple(following), True
        if isinstance(instruction, Divide):
            stack += [instruction.second, instruction.first]
        elif passes[at]:
            if isinstance(instruction, Take):
                following[at + 1] = None
            else:
                stack.append(at + 1)
    return tuple(following), False

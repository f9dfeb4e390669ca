"""Learned policies as tables: from the state of a flush to the cell that comes next.

The state is the cells that have ready nodes (ED-Batch, Chen et al., ICML 2023). Its encodings: in the order of their
numbers (*base*), then the one with the most ready nodes (*max*); or those with more ready nodes first (*sort*). Of
equals, the cell with the lower number comes first. A table has the states by hash, FNV-1a by 32-bit words, with 1 in
place of 0; `dk_table` of the runtime probes them linearly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Encoding: TypeAlias = Literal["base", "max", "sort"]
State: TypeAlias = tuple[int, ...]
ENCODINGS: tuple[Encoding, ...] = ("base", "max", "sort")
"""In the order of `dk_encoding`."""


def state_of(ready: Sequence[int], encoding: Encoding) -> State:
    """The state in which each cell has so many ready nodes."""
    cells = [cell for cell, count in enumerate(ready) if count]
    if encoding == "sort":
        cells.sort(key=lambda cell: -ready[cell])
    elif encoding == "max":
        cells.append(max(cells, key=ready.__getitem__))
    return tuple(cells)


def hash_of(state: State) -> int:
    found = 2166136261
    for cell in state:
        found = (found ^ cell) * 16777619 & 0xFFFFFFFF
    return found or 1


@dataclass(frozen=True)
class Table:
    encoding: Encoding = "sort"
    cells: Mapping[int, int] = field(default_factory=dict)
    """By the hash of the state."""

    @staticmethod
    def of(encoding: Encoding, choices: Mapping[State, int]) -> Table:
        """Of states with the same hash, the least one counts."""
        cells: dict[int, int] = {}
        for state in sorted(choices):
            cells.setdefault(hash_of(state), choices[state])
        return Table(encoding, cells)

    def entries(self) -> NDArray[np.uint32]:
        """Pairs of a hash and a cell, for `dk_table`; at least half of them are empty, and their number is a power of
        two.
        """
        count = 1
        while count < 2 * len(self.cells):
            count *= 2
        entries = np.zeros((count, 2), np.uint32)
        for found, cell in sorted(self.cells.items()):
            at = found % count
            while entries[at, 0]:
                at = (at + 1) % count
            entries[at] = found, cell
        return entries

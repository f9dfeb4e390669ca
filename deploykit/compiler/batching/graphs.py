"""Graphs of the cells that a dynamic model runs: what a policy is learned from.

A node is one use of a cell, in the order of the program, so operands come before the nodes that read them. The graph
that a cell induces has its nodes only, and an edge where a path of other nodes leads from one to the next. Its longest
chain is the least number of batches for the cell, so the sum over all cells bounds the number of batches from below
(ED-Batch, Chen et al., ICML 2023).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Graph:
    cells: NDArray[np.int64]
    """Of each node."""
    starts: NDArray[np.int64]
    """Where the operands of each node begin in `operands`, and the end of the last."""
    operands: NDArray[np.int64]
    """Nodes whose results each node reads; one that is read twice is there twice."""
    cell_count: int

    @staticmethod
    def of(cells: Sequence[int], operands: Sequence[Sequence[int]], cell_count: int) -> Graph:
        starts = np.cumsum([0, *map(len, operands)])
        flat = [operand for listed in operands for operand in listed]
        return Graph(np.array(cells, np.int64), starts, np.array(flat, np.int64), cell_count)

    def __post_init__(self) -> None:
        readers = np.repeat(np.arange(len(self.cells)), np.diff(self.starts))
        assert (self.operands < readers).all(), "operands come first"

    @cached_property
    def cell_of(self) -> list[int]:
        cells: list[int] = self.cells.tolist()
        return cells

    @cached_property
    def operands_of(self) -> list[list[int]]:
        flat, starts = self.operands.tolist(), self.starts.tolist()
        return [flat[begin:end] for begin, end in pairwise(starts)]

    @cached_property
    def consumers_of(self) -> list[list[int]]:
        return inverse(self.operands_of)

    @cached_property
    def depths(self) -> list[int]:
        """1 for a node without operands, else 1 more than the deepest operand's."""
        depths: list[int] = []
        for operands in self.operands_of:
            depths.append(1 + max((depths[operand] for operand in operands), default=0))
        return depths

    @cached_property
    def chains(self) -> list[list[int]]:
        """For each node and cell, the greatest number of nodes of the cell on a path that begins at the node."""
        chains: list[list[int]] = [[]] * len(self.cell_of)
        for node in reversed(range(len(self.cell_of))):
            after = [chains[consumer] for consumer in self.consumers_of[node]]
            chains[node] = list(map(max, *after, [0] * self.cell_count)) if after else [0] * self.cell_count
            chains[node][self.cell_of[node]] += 1
        return chains

    @cached_property
    def induced(self) -> list[list[int]]:
        """The operands of each node in the graph that its cell induces. Some that others imply are left out."""
        before: list[list[int]] = [[] for _ in self.cell_of]
        for cell in range(self.cell_count):
            self._induce(cell, before)
        return before

    def _induce(self, cell: int, before: list[list[int]]) -> None:
        reached: list[frozenset[int]] = []  # from each node backwards: the nearest nodes of the cell
        for node, operands in enumerate(self.operands_of):
            found: frozenset[int] = frozenset()
            for operand in operands:
                more = frozenset((operand,)) if self.cell_of[operand] == cell else reached[operand]
                found = more if found <= more else found if more <= found else found | more
            if len(found) > 1:
                found = found.difference(*(reached[other] for other in found))
            reached.append(found)
            if self.cell_of[node] == cell:
                before[node] = sorted(found)


def inverse(operands: Sequence[Sequence[int]]) -> list[list[int]]:
    """The nodes that read each node, in order."""
    consumers: list[list[int]] = [[] for _ in operands]
    for node, listed in enumerate(operands):
        for operand in listed:
            consumers[operand].append(node)
    return consumers


def lower_bound(graph: Graph) -> int:
    """No policy needs fewer batches."""
    return sum(map(max, zip(*graph.chains, strict=True)))

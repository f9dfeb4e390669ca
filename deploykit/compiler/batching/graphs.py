"""Graphs of the cells that a dynamic model runs: what a policy is learned from.

A node is one use of a cell, in the order of the program, so operands come before the nodes that read them. The graph
that a cell induces has its nodes only, and an edge where a path of other nodes leads from one to the next. Its longest
chain is the least number of batches for the cell, so the sum over all cells bounds the number of batches from below
(ED-Batch, Chen et al., ICML 2023).

Chains of several cells are in each other's way, which gives a greater bound. Take some of the cells, and the nodes of
these on a path. Batches come in an order that has the cells of these nodes as a subsequence, for each path. So for any
two paths, the batches of these cells are no fewer than the shortest common supersequence of both, to which the longest
chains of the other cells are added. The bound is the greatest for all pairs of cells and for all cells together, each
time over the pairs of the `PATHS` longest paths, of which an instance has one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

PATHS = 16

Path: TypeAlias = tuple[int, ...]
"""The cells of nodes on a path, in order."""


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
    def parts(self) -> list[int]:
        """For each node the same number as for those that are connected with it, such as those of an instance."""
        above = list(range(len(self.cell_of)))

        def top(node: int) -> int:
            while above[node] != node:
                above[node] = above[above[node]]
                node = above[node]
            return node

        for node, operands in enumerate(self.operands_of):
            for operand in operands:
                above[top(operand)] = top(node)
        return list(map(top, above))

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
    longest: list[int] = list(map(max, zip(*graph.chains, strict=True)))
    together = [*combinations(range(len(longest)), 2), tuple(range(len(longest)))]
    more = 0
    for cells in together:
        alone = sum(longest[cell] for cell in cells)
        more = _longest_pair(_paths(graph, frozenset(cells)), alone + more) - alone
    return sum(longest) + more


def _paths(graph: Graph, cells: frozenset[int]) -> list[Path]:
    """The path with the most nodes of these cells in each part of the graph, without other nodes, the longest first."""
    counts, following = [0] * len(graph.cell_of), [-1] * len(graph.cell_of)
    first: dict[int, int] = {}
    for node in reversed(range(len(graph.cell_of))):
        for consumer in graph.consumers_of[node]:
            if counts[consumer] > counts[node]:
                counts[node], following[node] = counts[consumer], consumer
        counts[node] += graph.cell_of[node] in cells
        best = first.setdefault(graph.parts[node], node)
        if counts[node] > counts[best]:
            first[graph.parts[node]] = node
    paths = ([graph.cell_of[node] for node in _along(following, begin)] for begin in first.values())
    found = {tuple(cell for cell in path if cell in cells) for path in paths}
    return sorted(found, key=lambda path: (-len(path), path))[:PATHS]


def _along(following: Sequence[int], node: int) -> Iterator[int]:
    """The nodes of a path."""
    while node >= 0:
        yield node
        node = following[node]


def _longest_pair(paths: Sequence[Path], least: int) -> int:
    """The length of the longest of the shortest common supersequences of two paths; `least` if none is longer."""
    for one, other in combinations(paths, 2):
        if len(one) + len(other) > least:
            least = max(least, len(one) + len(other) - _common(one, other))
    return least


def _common(one: Path, other: Path) -> int:
    """The length of the longest common subsequence, by bits of integers (Hyyrö, AWOCA 2004): a bit for each place of
    `one` is 0 if the subsequence grows there."""
    places: dict[int, int] = {}
    for place, cell in enumerate(one):
        places[cell] = places.get(cell, 0) | 1 << place
    everywhere = (1 << len(one)) - 1
    bits = everywhere
    for cell in other:
        matching = bits & places.get(cell, 0)
        bits = ((bits + matching) | (bits - matching)) & everywhere
    return len(one) - bits.bit_count()

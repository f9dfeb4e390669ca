"""Which cell comes next: the policies of the runtime (`runtime/batching`), simulated on a graph.

* `depth`: by depth, then by cell; TensorFlow Fold (Looks et al., ICLR 2017), ACRoBat (Fegade et al., MLSys 2024).
* `agenda`: of the cells that have ready nodes, the one whose remaining nodes have the least mean depth; DyNet (Neubig
  et al., NeurIPS 2017).
* `critical`: first a cell that leads: the longest chain of its nodes that begins at its own ready nodes is longer than
  those that begin at ready nodes of other cells. Its launch lowers the lower bound on the batches that remain, and none
  of another cell can do that in its place. Of the cells that lead, and where none does, it takes the one with the
  greatest product of the longest chains of all cells in sum, which begin at its ready nodes, and the share of ready
  nodes among its remaining ones. Long chains must not wait; a cell with a small share can, as more of its nodes become
  ready. Then comes the cell with more ready nodes.
* `alone`: each node in a batch of its own.
* A table: the cell that it gives for the state; ED-Batch (Chen et al., ICML 2023). For a state without one, the cell
  with the greatest share of ready nodes among its remaining ones, then with more of them.

Of equals, the cell with the lower number comes first.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import groupby
from typing import Literal, TypeAlias

from deploykit.compiler.batching.graphs import Graph
from deploykit.compiler.batching.tables import Table, hash_of, state_of

Policy: TypeAlias = Literal["depth", "agenda", "critical", "alone"] | Table
Batch: TypeAlias = tuple[int, list[int]]
"""A cell and its nodes."""


class Frontier:
    """What is ready and what remains while a graph is run."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.pending = [len(operands) for operands in graph.operands_of]
        self.remaining = [0] * graph.cell_count
        self.ready: list[list[int]] = [[] for _ in range(graph.cell_count)]
        """The ready nodes of each cell, in the order in which they became ready."""
        self.depths = [0] * graph.cell_count
        """Sums over the nodes that remain."""
        for node, (cell, depth) in enumerate(zip(graph.cell_of, graph.depths, strict=True)):
            self.remaining[cell] += 1
            self.depths[cell] += depth
            if not self.pending[node]:
                self.ready[cell].append(node)

    def launch(self, cell: int) -> list[int]:
        """Run all ready nodes of a cell."""
        nodes = self.ready[cell]
        self.ready[cell] = []
        self.remaining[cell] -= len(nodes)
        pending, ready, graph = self.pending, self.ready, self.graph
        for node in nodes:
            self.depths[cell] -= graph.depths[node]
            for consumer in graph.consumers_of[node]:
                pending[consumer] -= 1
                if not pending[consumer]:
                    ready[graph.cell_of[consumer]].append(consumer)
        return nodes

    def cells(self) -> list[int]:
        """Those that have ready nodes."""
        return [cell for cell, nodes in enumerate(self.ready) if nodes]

    def counts(self) -> list[int]:
        return list(map(len, self.ready))


Choice: TypeAlias = Callable[[Frontier], int]


def _shallowest(frontier: Frontier) -> int:
    return min(frontier.cells(), key=lambda cell: Fraction(frontier.depths[cell], frontier.remaining[cell]))


def _critical(frontier: Frontier) -> int:
    cells, chains = frontier.cells(), frontier.graph.chains
    longest = {
        cell: list(map(max, zip(*(chains[node] for node in frontier.ready[cell]), strict=True))) for cell in cells
    }

    def urgency(cell: int) -> tuple[bool, Fraction, int]:
        others = max((longest[other][cell] for other in cells if other != cell), default=0)
        ready = len(frontier.ready[cell])
        weight = Fraction(sum(longest[cell]) * ready, frontier.remaining[cell])
        return longest[cell][cell] > others, weight, ready

    return max(cells, key=urgency)


def ripest(frontier: Frontier) -> int:
    """The choice for a state that a table does not have."""

    def ripeness(cell: int) -> tuple[Fraction, int]:
        ready = len(frontier.ready[cell])
        return Fraction(ready, frontier.remaining[cell]), ready

    return max(frontier.cells(), key=ripeness)


def _learned(table: Table) -> Choice:
    def choose(frontier: Frontier) -> int:
        cell = table.cells.get(hash_of(state_of(frontier.counts(), table.encoding)))
        return ripest(frontier) if cell is None or not frontier.ready[cell] else cell

    return choose


def _by_depth(graph: Graph) -> list[Batch]:
    def key(node: int) -> tuple[int, int]:
        return graph.depths[node], graph.cell_of[node]

    nodes = sorted(range(len(graph.cells)), key=key)
    return [(cell, list(group)) for (_, cell), group in groupby(nodes, key)]


def batches(graph: Graph, policy: Policy) -> list[Batch]:
    """What is launched, in order."""
    if policy == "depth":
        return _by_depth(graph)
    if policy == "alone":
        return [(cell, [node]) for node, cell in enumerate(graph.cell_of)]
    if policy == "critical":
        return run(graph, _critical)
    return run(graph, _shallowest if policy == "agenda" else _learned(policy))


def run(graph: Graph, choose: Choice) -> list[Batch]:
    """What is launched where `choose` gives the next cell."""
    frontier = Frontier(graph)
    found = []
    while any(frontier.ready):
        cell = choose(frontier)
        found.append((cell, frontier.launch(cell)))
    return found


def launches(graph: Graph, policy: Policy) -> int:
    """How many batches."""
    return len(batches(graph, policy))

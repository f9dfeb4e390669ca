"""Learns a table from a graph: tabular Q-learning as in ED-Batch (Chen et al., ICML 2023), then a local search.

An episode runs the graph once. To launch cell t earns the share of ready nodes in the frontier of the graph that t
induces, minus 1: nothing is lost where no later launch of t could take more nodes along. Returns are of ten steps.
A state recurs at very different distances from the end of a run, so returns are discounted and the learning rate is
low; otherwise the value of an action depends on when it was last taken. Actions that were never taken count as 0, which
no return exceeds, so that each is tried. The best table of some evaluations is kept and then refined (`refining.py`).
Close to the lower bound on batches, learning ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from deploykit.compiler.batching.graphs import Graph, inverse, lower_bound
from deploykit.compiler.batching.policies import Frontier, launches, run
from deploykit.compiler.batching.refining import Choices, refine
from deploykit.compiler.batching.tables import ENCODINGS, Encoding, State, Table, state_of

if TYPE_CHECKING:
    from collections.abc import Sequence

STEPS = 10
RATE = 0.05
DISCOUNT = 0.9
EVALUATED = 20
"""After so many episodes, the table is evaluated."""
ENOUGH = 1.01
"""Learning ends below so many times the lower bound."""

Values: TypeAlias = dict[State, dict[int, float]]
Step: TypeAlias = tuple[State, int, float]
"""A state, the cell launched, and what it earned."""


class _Induced:
    """The frontiers of the graphs that the cells induce."""

    def __init__(self, graph: Graph, consumers: Sequence[Sequence[int]]) -> None:
        self.consumers = consumers
        self.pending = [len(operands) for operands in graph.induced]
        self.sizes = [0] * graph.cell_count
        for cell, pending in zip(graph.cell_of, self.pending, strict=True):
            self.sizes[cell] += not pending

    def launch(self, cell: int, nodes: Sequence[int]) -> float:
        """The share of the frontier that `nodes` are."""
        share = len(nodes) / self.sizes[cell]
        freed = 0
        for node in nodes:
            for consumer in self.consumers[node]:
                self.pending[consumer] -= 1
                freed += not self.pending[consumer]
        self.sizes[cell] += freed - len(nodes)
        return share


def _update(values: Values, steps: Sequence[Step]) -> None:
    for at in reversed(range(len(steps))):
        state, cell, _ = steps[at]
        end = min(at + STEPS, len(steps))
        target = 0.0
        if end < len(steps):
            later = values.get(steps[end][0], {})
            target = max(later.get(cell, 0.0) for cell in steps[end][0])
        for _, _, reward in reversed(steps[at:end]):
            target = reward + DISCOUNT * target
        known = values.setdefault(state, {})
        known[cell] = known.get(cell, 0.0) + RATE * (target - known.get(cell, 0.0))


class _Learner:
    def __init__(self, graph: Graph, encoding: Encoding, random: np.random.Generator) -> None:
        self.graph = graph
        self.encoding = encoding
        self.random = random
        self.values: Values = {}
        self.consumers = inverse(graph.induced)

    def run(self, epsilon: float) -> None:
        """An episode, where so many actions are random."""
        induced = _Induced(self.graph, self.consumers)
        states: list[State] = []

        def choose(frontier: Frontier) -> int:
            cells = frontier.cells()
            states.append(state_of(frontier.counts(), self.encoding))
            if self.random.random() < epsilon:
                return cells[int(self.random.random() * len(cells))]
            known = self.values.get(states[-1], {})
            return max(cells, key=lambda cell: known.get(cell, 0.0))

        batches = run(self.graph, choose)
        rewards = [induced.launch(cell, nodes) - 1 for cell, nodes in batches]
        cells = [cell for cell, _ in batches]
        _update(self.values, list(zip(states, cells, rewards, strict=True)))

    def choices(self) -> Choices:
        """The best action of each state, among those taken."""
        return {state: max(sorted(known), key=known.__getitem__) for state, known in self.values.items()}


def learn(graph: Graph, *, encoding: Encoding = "sort", seed: int = 0, episodes: int = 200, trials: int = 300) -> Table:
    """`episodes` of learning, then `trials` of refining: each runs the graph once.

    The same arguments give the same table. It is empty where the rule for other states is enough.
    """
    random = np.random.default_rng(seed)
    learner = _Learner(graph, encoding, random)
    enough = ENOUGH * lower_bound(graph)
    best: Choices = {}
    fewest = launches(graph, Table(encoding))
    if fewest < enough:
        return Table(encoding)
    for episode in range(1, episodes + 1):
        learner.run(max(0.5 * 0.9 ** (episode - 1), 0.05))
        if episode % EVALUATED == 0:
            choices = learner.choices()
            found = launches(graph, Table.of(encoding, choices))
            if found < fewest:
                best, fewest = choices, found
            if fewest < enough:
                break
    return Table.of(encoding, refine(graph, encoding, best, trials, random))


def train(graph: Graph, *, seed: int = 0) -> Table:
    """Of the tables that are learned with each encoding, the one with the fewest launches, then with fewer states."""
    tables = [learn(graph, encoding=encoding, seed=seed) for encoding in ENCODINGS]
    return min(tables, key=lambda table: (launches(graph, table), len(table.cells)))

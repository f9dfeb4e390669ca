"""Improves a table by local search: another cell for one state, kept unless there are more launches.

A trial takes a random one of the states that the last kept run came through, where more than one cell was ready, and
another of its cells, or none, which leaves the choice to the rule for other states. A change that makes no difference
is kept, so that the search leaves plateaus. What remains in the table are the states of the last kept run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from deploykit.compiler.batching.graphs import Graph
from deploykit.compiler.batching.policies import Frontier, ripest, run
from deploykit.compiler.batching.tables import Encoding, State, state_of

if TYPE_CHECKING:
    import numpy as np

Choices: TypeAlias = dict[State, int]


def _follow(graph: Graph, encoding: Encoding, choices: Choices) -> tuple[int, set[State]]:
    """The number of launches, and the states where there was a choice."""
    states: set[State] = set()

    def choose(frontier: Frontier) -> int:
        state = state_of(frontier.counts(), encoding)
        if len(set(state)) > 1:
            states.add(state)
        return choices[state] if state in choices else ripest(frontier)

    return len(run(graph, choose)), states


def refine(graph: Graph, encoding: Encoding, choices: Choices, trials: int, random: np.random.Generator) -> Choices:
    fewest, states = _follow(graph, encoding, choices)
    for _ in range(trials if states else 0):
        state = sorted(states)[int(random.random() * len(states))]
        others = [cell for cell in (-1, *sorted(set(state))) if cell != choices.get(state, -1)]
        cell = others[int(random.random() * len(others))]
        changed = {key: value for key, value in choices.items() if key != state}
        if cell >= 0:
            changed[state] = cell
        found, visited = _follow(graph, encoding, changed)
        if found <= fewest:
            choices, fewest, states = changed, found, visited
    return {state: cell for state, cell in choices.items() if state in states}

"""Graphs of dynamic models, with the sizes of the data sets that ED-Batch is measured with."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from deploykit.compiler.batching.graphs import Graph


@dataclass
class Builder:
    cells: list[int] = field(default_factory=list)
    operands: list[list[int]] = field(default_factory=list)

    def add(self, cell: int, *operands: int) -> int:
        self.cells.append(cell)
        self.operands.append(list(operands))
        return len(self.cells) - 1

    def graph(self) -> Graph:
        return Graph.of(self.cells, self.operands, max(self.cells, default=0) + 1)


def chains(random: np.random.Generator, count: int) -> Graph:
    """A bidirectional tagger: two chains of a sentence, whose states an output cell joins for each word."""
    made = Builder()
    for length in random.integers(1, 40, count):
        forward, backward = [made.add(0)], [made.add(1)]
        for _ in range(length - 1):
            forward.append(made.add(0, forward[-1]))
            backward.append(made.add(1, backward[-1]))
        for pair in zip(forward, reversed(backward), strict=True):
            made.add(2, *pair)
    return made.graph()


def trees(random: np.random.Generator, count: int) -> Graph:
    """Binary parse trees: a cell for leaves, one for inner nodes."""
    made = Builder()
    for leaves in random.integers(2, 52, count):
        roots = [made.add(0) for _ in range(leaves)]
        while len(roots) > 1:
            at = int(random.integers(len(roots) - 1))
            roots[at : at + 2] = [made.add(1, *roots[at : at + 2])]
    return made.graph()


def lattices(random: np.random.Generator, count: int, *, cells: int = 3) -> Graph:
    """Sentences of 44 characters on average, and 23 words of two to four characters over them.

    A word reads the character where it begins, and the one where it ends reads it. With two cells, that is the cell of
    characters; with three, characters that read words have a cell of their own.
    """
    made = Builder()
    for length in np.clip(random.gamma(3, 44 / 3, count), 3, 211).astype(int):
        begins: list[list[int]] = [[] for _ in range(length)]
        for begin in random.integers(0, length - 1, random.binomial(length, 23 / 44)):
            end = begin + random.integers(1, 4)
            if end < length:
                begins[end].append(int(begin))
        states: list[int] = []
        for ending in begins:
            words = [made.add(1, states[begin]) for begin in ending]
            states.append(made.add(2 if words and cells == 3 else 0, *states[-1:], *words))
    return made.graph()

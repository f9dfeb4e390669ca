"""Instances of each model of `models`, random ones that follow from a seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.dynamic import models
from tests.dynamic.models import H, V

Random = np.random.Generator


def whole(random: Random, low: int, high: int) -> int:
    """An integer from `low` to `high`, both included."""
    return int(random.integers(low, high + 1))


def words(random: Random, most: int = 9) -> list[int]:
    return random.integers(0, V, whole(random, 0, most)).tolist()


def vector(random: Random, *shape: int) -> np.ndarray:
    return random.standard_normal(shape).astype(np.float32)


def tree(random: Random, leaves: int | None = None) -> models.Tree:
    count = whole(random, 1, 10) if leaves is None else leaves
    if count == 1:
        return models.Leaf(whole(random, 0, V - 1))
    left = whole(random, 1, count - 1)
    return models.Node(tree(random, left), tree(random, count - left))


def branch(random: Random, depth: int = 3) -> models.Branch:
    children = [branch(random, depth - 1) for _ in range(whole(random, 0, 3))] if depth else []
    return models.Branch(whole(random, 0, V - 1), children)


def constituent(random: Random, depth: int = 3) -> models.Constituent:
    kind = whole(random, 0, 3)
    if kind == 0 or depth == 0:
        return models.Word(whole(random, 0, V - 1))
    if kind == 1:
        return models.Mark(random.random(), vector(random, 3))
    parts = [constituent(random, depth - 1) for _ in range(whole(random, 0, 4))]
    return models.Phrase(models.Word(whole(random, 0, V - 1)), parts)


def lattice(random: Random) -> tuple[list[int], list[list[models.Arc]]]:
    sentence = words(random)

    def arcs(position: int) -> list[models.Arc]:
        count = whole(random, 0, 2) if position else 0
        return [models.Arc(whole(random, 0, position - 1), whole(random, 0, V - 1)) for _ in range(count)]

    return sentence, [arcs(position) for position in range(len(sentence))]


def graph(random: Random) -> list[models.Vertex]:
    def before(position: int) -> list[int]:
        return [whole(random, 0, position - 1) for _ in range(whole(random, 0, 3) if position else 0)]

    return [models.Vertex(vector(random, 3), before(position)) for position in range(whole(random, 0, 8))]


def nested(random: Random) -> tuple[list[int], list[int]]:
    return words(random, 6), random.integers(-1, 4, whole(random, 0, 6)).tolist()


def region(random: Random, depth: int = 2) -> models.Region:
    if depth == 0 or whole(random, 0, 2) == 0:
        return models.Patch(vector(random, whole(random, 1, 7), 3), random.random())
    return models.Divided(region(random, depth - 1), region(random, depth - 1))


MAKERS: dict[str, Callable[[Random], Any]] = {
    "TreeLSTM": tree,
    "TreeGRU": branch,
    "MatrixVector": tree,
    "TwoTypes": constituent,
    "Tagger": words,
    "CharTagger": lambda random: [words(random, 5) for _ in range(whole(random, 0, 5))],
    "Nested": nested,
    "Lattice": lattice,
    "Graph": graph,
    "EarlyExit": lambda random: vector(random, H),
    "ShiftReduce": words,
    "Generator": lambda random: [vector(random, H) for _ in range(whole(random, 0, 3))],
    "Search": lambda random: (vector(random, H), whole(random, 0, 7)),
    "Regions": lambda random: (region(random), vector(random, whole(random, 1, 4), H)),
    "Operators": lambda random: (vector(random, 4), vector(random, 4, 4), vector(random)),
}


def instances(model: str, count: int, seed: int = 0) -> list[Any]:
    random = np.random.default_rng(seed)
    return [MAKERS[model](random) for _ in range(count)]

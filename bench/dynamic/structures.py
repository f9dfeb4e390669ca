"""Random inputs of dynamic models, with the statistics of public data sets.

trees        binary parse trees as in the Stanford Sentiment Treebank: numbers of leaves, and how a phrase is split
sentences    numbers of words as in WikiNER, and for each word its characters
lattices     sentences of Chinese characters with the words that a dictionary finds in them
graphs       random acyclic graphs with arcs of several kinds

A function returns `count` structures, which depend on `seed` alone. Words, characters and labels are numbers below
`vocabulary`; small numbers are frequent, as in a text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

LEVELS = (0, 0.05, 0.25, 0.5, 0.75, 0.95, 0.995, 1)
"""The levels of the quantiles below. Between them, the quantile function is linear."""

LEAVES = (2, 5, 12, 18, 25, 35, 45, 52)
WORDS = (1, 8, 14, 20, 29, 48, 77, 144)
WORD_CHARACTERS = (1, 1, 2, 4, 6, 10, 13, 26)
LATTICE_CHARACTERS = (3, 11, 23, 39, 59, 98, 139, 211)
WORDS_PER_CHARACTER = (0, 0.31, 0.433, 0.523, 0.611, 0.758, 0.923, 1.095)
SPANS = {2: 0.9, 3: 0.08, 4: 0.02}
"""How often a word of a lattice has so many characters, before words at the same place are taken out."""


@dataclass(frozen=True)
class Leaf:
    word: int


@dataclass(frozen=True)
class Node:
    left: Tree
    right: Tree


Tree: TypeAlias = Leaf | Node
Nested: TypeAlias = "int | tuple[Nested, Nested]"


@dataclass(frozen=True)
class Sentence:
    """`characters` are those of each word."""

    words: tuple[int, ...]
    characters: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Arc:
    """From a position to a later one. In a lattice, position `i` is before character `i`, and the label is a word."""

    start: int
    end: int
    label: int
    kind: int = 0


@dataclass(frozen=True)
class Lattice:
    """`words` are sorted by their end."""

    characters: tuple[int, ...]
    words: tuple[Arc, ...]


@dataclass(frozen=True)
class Graph:
    """`arcs` are sorted by their end. The first position has no arc that ends there."""

    positions: int
    arcs: tuple[Arc, ...]


def trees(count: int, vocabulary: int = 1024, seed: int = 0) -> list[Tree]:
    rng = np.random.default_rng(seed)
    return [_tree(rng, int(leaves), vocabulary) for leaves in _integers(rng, LEAVES, count)]


def nested(tree: Tree) -> Nested:
    """The tree as nested pairs of words."""
    return tree.word if isinstance(tree, Leaf) else (nested(tree.left), nested(tree.right))


def leaves(tree: Tree) -> int:
    return 1 if isinstance(tree, Leaf) else leaves(tree.left) + leaves(tree.right)


def depth(tree: Tree) -> int:
    """The most nodes on a path from the root."""
    return 1 if isinstance(tree, Leaf) else 1 + max(depth(tree.left), depth(tree.right))


def sentences(count: int, vocabulary: int = 1024, alphabet: int = 64, seed: int = 0) -> list[Sentence]:
    rng = np.random.default_rng(seed)
    found = []
    for length in _integers(rng, WORDS, count):
        characters = tuple(_labels(rng, int(size), alphabet) for size in _integers(rng, WORD_CHARACTERS, length))
        found.append(Sentence(_labels(rng, int(length), vocabulary), characters))
    return found


def lattices(count: int, vocabulary: int = 1024, seed: int = 0) -> list[Lattice]:
    rng = np.random.default_rng(seed)
    found = []
    for length in _integers(rng, LATTICE_CHARACTERS, count):
        places = [(start + span, start) for span in SPANS for start in range(length - span + 1)]
        weights = np.array([SPANS[end - start] for end, start in places])
        wanted = min(len(places), round(float(_quantile(rng, WORDS_PER_CHARACTER, 1)[0]) * length))
        chosen = rng.choice(len(places), wanted, replace=False, p=weights / weights.sum())
        labels = _labels(rng, wanted, vocabulary)
        arcs = [
            Arc(start, end, label)
            for (end, start), label in zip(sorted(places[i] for i in chosen), labels, strict=True)
        ]
        found.append(Lattice(_labels(rng, int(length), vocabulary), tuple(arcs)))
    return found


def graphs(
    count: int,
    positions: int = 200,
    degree: int = 4,
    span: int = 30,
    kinds: int = 3,
    vocabulary: int = 1024,
    seed: int = 0,
) -> list[Graph]:
    """Graphs in which `degree` arcs end at each position but the first. They come from at most `span` positions back.
    Each kind of arc is a tenth as frequent as the one before."""
    rng = np.random.default_rng(seed)
    weights = 0.1 ** np.arange(kinds)
    found = []
    for _ in range(count):
        arcs = []
        for end in range(1, positions):
            starts = end - 1 - rng.integers(min(span, end), size=degree)
            chosen = rng.choice(kinds, degree, p=weights / weights.sum())
            labels = _labels(rng, degree, vocabulary)
            arcs += [Arc(int(s), end, label, int(k)) for s, label, k in zip(starts, labels, chosen, strict=True)]
        found.append(Graph(positions, tuple(arcs)))
    return found


def _tree(rng: np.random.Generator, size: int, vocabulary: int) -> Tree:
    """A phrase of `size` words. Often its left or its right part is a single word; otherwise the left part is more
    often the shorter one."""
    if size == 1:
        return Leaf(_labels(rng, 1, vocabulary)[0])
    left, draw = 1, rng.random()
    word_first = 1.05 * size**-0.32
    if draw > word_first:
        inner = 2 + int((size - 3) * 0.85 * rng.random() ** 1.5)
        left = size - 1 if draw < word_first + 0.18 else inner
    return Node(_tree(rng, left, vocabulary), _tree(rng, size - left, vocabulary))


def _labels(rng: np.random.Generator, count: int, vocabulary: int) -> tuple[int, ...]:
    return tuple((rng.random(count) ** 3 * vocabulary).astype(int).tolist())


def _integers(rng: np.random.Generator, quantiles: Sequence[float], count: int) -> np.ndarray:
    found: np.ndarray = np.rint(_quantile(rng, quantiles, count)).astype(np.int64)
    return found


def _quantile(rng: np.random.Generator, quantiles: Sequence[float], count: int) -> np.ndarray:
    return np.asarray(np.interp(rng.random(count), LEVELS, quantiles))

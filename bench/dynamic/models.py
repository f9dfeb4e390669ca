"""The dynamic models: their weights, and what they compute, in NumPy for one structure at a time.

tree       the binary tree LSTM of Tai, Socher and Manning (2015), with words in the leaves only; classes at the root
tagger     an LSTM in each direction over the words of a sentence; classes for each word
lattice    LSTM steps for characters and for words from the position where they start to the one where they end, whose
           state is the sum of the states of its steps, as in ED-Batch (Chen et al., ICML 2023); classes for each
           character

Matrices multiply from the left. Rows are grouped by gates: `i o u` in a leaf, `i fl fr o u` in a node of a tree, and
`i f o u` in an LSTM. Words and characters have embeddings of the hidden size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from bench.dynamic.structures import Lattice, Leaf, Sentence, Tree, lattices, sentences, trees

Weights: TypeAlias = Mapping[str, np.ndarray]
State: TypeAlias = tuple[np.ndarray, np.ndarray]

VOCABULARY = 1024
CLASSES = {"tree": 5, "tagger": 9, "lattice": 17}


@dataclass(frozen=True)
class Model:
    """`shapes` are those of the weights for a hidden size. `structures` takes their number and a seed. `reference`
    returns [outputs, classes] for a structure."""

    name: str
    shapes: Callable[[int], dict[str, tuple[int, ...]]]
    structures: Callable[..., Sequence[Any]]
    reference: Callable[[Weights, Any], np.ndarray]

    def weights(self, hidden: int, seed: int = 0) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(seed)
        found = {}
        for name, shape in self.shapes(hidden).items():
            bound = 1.0 if name.endswith("embedding") else hidden**-0.5
            found[name] = rng.uniform(-bound, bound, shape).astype(np.float32)
        return found


def tree_shapes(hidden: int) -> dict[str, tuple[int, ...]]:
    return {
        "embedding": (VOCABULARY, hidden),
        "leaf.W": (3 * hidden, hidden),
        "leaf.b": (3 * hidden,),
        "node.L": (5 * hidden, hidden),
        "node.R": (5 * hidden, hidden),
        "node.b": (5 * hidden,),
        "out.W": (CLASSES["tree"], hidden),
        "out.b": (CLASSES["tree"],),
    }


def tagger_shapes(hidden: int) -> dict[str, tuple[int, ...]]:
    return {
        "embedding": (VOCABULARY, hidden),
        **_lstm_shapes("forward", hidden),
        **_lstm_shapes("backward", hidden),
        "out.F": (CLASSES["tagger"], hidden),
        "out.B": (CLASSES["tagger"], hidden),
        "out.b": (CLASSES["tagger"],),
    }


def lattice_shapes(hidden: int) -> dict[str, tuple[int, ...]]:
    return {
        "char.embedding": (VOCABULARY, hidden),
        **_lstm_shapes("char", hidden),
        "word.embedding": (VOCABULARY, hidden),
        **_lstm_shapes("word", hidden),
        "out.W": (CLASSES["lattice"], hidden),
        "out.b": (CLASSES["lattice"],),
    }


def tree_classes(w: Weights, tree: Tree) -> np.ndarray:
    def state(tree: Tree) -> State:
        if isinstance(tree, Leaf):
            i, o, u = np.split(w["leaf.W"] @ w["embedding"][tree.word] + w["leaf.b"], 3)
            c = sigmoid(i) * np.tanh(u)
        else:
            (hl, cl), (hr, cr) = state(tree.left), state(tree.right)
            i, fl, fr, o, u = np.split(w["node.L"] @ hl + w["node.R"] @ hr + w["node.b"], 5)
            c = sigmoid(i) * np.tanh(u) + sigmoid(fl) * cl + sigmoid(fr) * cr
        return sigmoid(o) * np.tanh(c), c

    return np.stack([w["out.W"] @ state(tree)[0] + w["out.b"]])


def tagger_classes(w: Weights, sentence: Sentence) -> np.ndarray:
    inputs = w["embedding"][list(sentence.words)]

    def states(name: str, inputs: np.ndarray) -> np.ndarray:
        state, found = _start(inputs), []
        for x in inputs:
            state = _lstm(w, name, x, state)
            found.append(state[0])
        return np.stack(found)

    back = states("backward", inputs[::-1])[::-1]
    found: np.ndarray = states("forward", inputs) @ w["out.F"].T + back @ w["out.B"].T + w["out.b"]
    return found


def lattice_classes(w: Weights, lattice: Lattice) -> np.ndarray:
    states = [_start(w["char.embedding"])]
    for position, character in enumerate(lattice.characters):
        steps = [_lstm(w, "char", w["char.embedding"][character], states[position])]
        words = (arc for arc in lattice.words if arc.end == position + 1)
        steps += [_lstm(w, "word", w["word.embedding"][arc.label], states[arc.start]) for arc in words]
        h, c = np.sum(steps, axis=0)
        states.append((h, c))
    return np.stack([w["out.W"] @ h + w["out.b"] for h, _ in states[1:]])


def sigmoid(x: np.ndarray) -> np.ndarray:
    found: np.ndarray = 1 / (1 + np.exp(-x))
    return found


def _lstm(w: Weights, name: str, x: np.ndarray, before: State) -> State:
    h, c = before
    i, f, o, u = np.split(w[f"{name}.X"] @ x + w[f"{name}.H"] @ h + w[f"{name}.b"], 4)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(u)
    return sigmoid(o) * np.tanh(c), c


def _lstm_shapes(name: str, hidden: int) -> dict[str, tuple[int, ...]]:
    matrix = (4 * hidden, hidden)
    return {f"{name}.X": matrix, f"{name}.H": matrix, f"{name}.b": matrix[:1]}


def _start(like: np.ndarray) -> State:
    zeros = np.zeros_like(like[0])
    return zeros, zeros


MODELS: Mapping[str, Model] = {
    model.name: model
    for model in (
        Model("tree", tree_shapes, partial(trees, vocabulary=VOCABULARY), tree_classes),
        Model("tagger", tagger_shapes, partial(sentences, vocabulary=VOCABULARY), tagger_classes),
        Model("lattice", lattice_shapes, partial(lattices, vocabulary=VOCABULARY), lattice_classes),
    )
}

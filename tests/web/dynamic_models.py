"""Dynamic models for tests of web packages: one over trees, and one whose instances and results have every type."""

from __future__ import annotations

from dataclasses import dataclass

from deploykit.dynamic import Model, Tensor, relu, sigmoid, split, tanh, zeros

H = 16


@dataclass
class Leaf:
    word: int


@dataclass
class Node:
    left: Tree
    right: Tree


Tree = Leaf | Node


class TreeLSTM(Model):
    embedding: Tensor[20, H]
    w: Tensor[H, 3 * H]
    ul: Tensor[H, 5 * H]
    ur: Tensor[H, 5 * H]
    ub: Tensor[5 * H]
    out: Tensor[H, 5]

    def encode(self, tree: Tree) -> tuple[Tensor[H], Tensor[H]]:
        match tree:
            case Leaf(word):
                i, o, u = split(self.embedding[word] @ self.w, 3)
                c = sigmoid(i) * tanh(u)
                return sigmoid(o) * tanh(c), c
            case Node(left, right):
                hl, cl = self.encode(left)
                hr, cr = self.encode(right)
                i, fl, fr, o, u = split(hl @ self.ul + hr @ self.ur + self.ub, 5)
                c = sigmoid(i) * tanh(u) + sigmoid(fl) * cl + sigmoid(fr) * cr
                return sigmoid(o) * tanh(c), c

    def main(self, tree: Tree) -> Tensor[5]:
        h, _ = self.encode(tree)
        return h @ self.out


@dataclass
class Known:
    vector: Tensor[H]
    parts: list[tuple[int, float]]


@dataclass
class Pair:
    first: Marked
    second: Marked
    even: bool


Marked = Known | Pair


class Marks(Model):
    """Returns objects: for each node of a tree, whether it has an even number of leaves."""

    embedding: Tensor[20, H]

    def mark(self, tree: Tree) -> tuple[Marked, int]:
        match tree:
            case Leaf(word):
                return Known(tanh(self.embedding[word]), [(word, 0.5), (word, 1.5)]), 1
            case Node(left, right):
                first, some = self.mark(left)
                second, others = self.mark(right)
                return Pair(first, second, (some + others) % 2 == 0), some + others

    def main(self, tree: Tree) -> tuple[Marked, int]:
        return self.mark(tree)


@dataclass
class Span:
    start: int
    weight: float
    vector: Tensor[4]
    matrix: Tensor[2, 4]
    flags: list[bool]


class Spans(Model):
    w: Tensor[4, 2]

    def main(
        self, scale: float, spans: list[Span], pair: tuple[int, Tensor[4]]
    ) -> tuple[list[Tensor[2]], tuple[float, bool], list[int], Tensor[2, 2]]:
        offset, start = pair
        total = 0.0
        any_set = False
        starts: list[int] = []
        vectors: list[Tensor[2]] = []
        matrix = zeros(2, 2)
        for span in spans:
            total = total + span.weight * scale
            starts = [*starts, span.start + offset]
            for flag in span.flags:
                if flag:
                    any_set = True
            vectors = [*vectors, relu(span.vector + start) @ self.w]
            matrix = matrix + span.matrix @ self.w
        return vectors, (total, any_set), starts, matrix

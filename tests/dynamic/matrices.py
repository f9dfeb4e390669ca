# mypy: ignore-errors
"""A model of trees whose nodes have a vector and a matrix, large enough for what is done for large nodes only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from deploykit.dynamic import Model, Tensor, tanh

H = 64
WORDS = 6


@dataclass
class Leaf:
    word: int


@dataclass
class Node:
    left: Tree
    right: Tree


Tree: TypeAlias = Leaf | Node


class Matrices(Model):
    vectors: Tensor[WORDS, H]
    matrices: Tensor[WORDS, H, H]
    mix: Tensor[H, H]
    left: Tensor[H, H]
    right: Tensor[H, H]

    def state(self, tree: Tree) -> tuple[Tensor[H], Tensor[H, H]]:
        match tree:
            case Leaf(word):
                return self.vectors[word], self.matrices[word]
            case Node(left, right):
                a, of_a = self.state(left)
                b, of_b = self.state(right)
                return tanh(a @ of_b + of_a @ b), tanh(of_a @ self.left + self.right @ of_b) + of_b @ self.mix

    def main(self, tree: Tree) -> Tensor[H]:
        vector, matrix = self.state(tree)
        return vector @ matrix

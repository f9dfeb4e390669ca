# mypy: ignore-errors
"""Models of binary trees whose leaves are words, as a user writes them. They return classes of the root.

TreeLSTM      the binary tree LSTM of Tai, Socher and Manning (2015); gates are `i o u` in a leaf and `i fl fr o u` in a
              node
TreeGRU       the binary tree GRU of Kokkinos and Potamianos (2017)
MatrixTree    MV-RNN (Socher et al., EMNLP 2012): a node has a vector and a matrix; matrices are transposed
TwoTypes      nodes of two types, each with weights of its own
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from deploykit.dynamic import Model, Tensor, concat, sigmoid, split, tanh

HIDDEN = 128
WORDS = 1024
MATRICES = 128
"""The words that have a matrix."""


@dataclass
class Leaf:
    word: int


@dataclass
class Node:
    left: Tree
    right: Tree


Tree: TypeAlias = Leaf | Node


@dataclass
class Word:
    word: int


@dataclass
class Noun:
    left: Phrase
    right: Phrase


@dataclass
class Verb:
    left: Phrase
    right: Phrase


Phrase: TypeAlias = Word | Noun | Verb


class TreeLSTM(Model):
    embedding: Tensor[WORDS, HIDDEN]
    leaf_w: Tensor[HIDDEN, 3 * HIDDEN]
    leaf_b: Tensor[3 * HIDDEN]
    node_l: Tensor[HIDDEN, 5 * HIDDEN]
    node_r: Tensor[HIDDEN, 5 * HIDDEN]
    node_b: Tensor[5 * HIDDEN]
    out_w: Tensor[HIDDEN, 5]
    out_b: Tensor[5]

    def state(self, tree: Tree) -> tuple[Tensor[HIDDEN], Tensor[HIDDEN]]:
        match tree:
            case Leaf(word):
                i, o, u = split(self.embedding[word] @ self.leaf_w + self.leaf_b, 3)
                c = sigmoid(i) * tanh(u)
                return sigmoid(o) * tanh(c), c
            case Node(left, right):
                hl, cl = self.state(left)
                hr, cr = self.state(right)
                i, fl, fr, o, u = split(hl @ self.node_l + hr @ self.node_r + self.node_b, 5)
                c = sigmoid(i) * tanh(u) + sigmoid(fl) * cl + sigmoid(fr) * cr
                return sigmoid(o) * tanh(c), c

    def main(self, tree: Tree) -> Tensor[5]:
        h, _ = self.state(tree)
        return h @ self.out_w + self.out_b


class MatrixTree(Model):
    vectors: Tensor[MATRICES, HIDDEN]
    matrices: Tensor[MATRICES, HIDDEN, HIDDEN]
    vector_l: Tensor[HIDDEN, HIDDEN]
    vector_r: Tensor[HIDDEN, HIDDEN]
    vector_b: Tensor[HIDDEN]
    matrix_l: Tensor[HIDDEN, HIDDEN]
    matrix_r: Tensor[HIDDEN, HIDDEN]
    out_w: Tensor[HIDDEN, 5]

    def state(self, tree: Tree) -> tuple[Tensor[HIDDEN], Tensor[HIDDEN, HIDDEN]]:
        match tree:
            case Leaf(word):
                return self.vectors[word], self.matrices[word]
            case Node(left, right):
                a, of_a = self.state(left)
                b, of_b = self.state(right)
                vector = tanh((a @ of_b) @ self.vector_l + (b @ of_a) @ self.vector_r + self.vector_b)
                return vector, of_a @ self.matrix_l + of_b @ self.matrix_r

    def main(self, tree: Tree) -> Tensor[5]:
        vector, _ = self.state(tree)
        return vector @ self.out_w


class TreeGRU(Model):
    embedding: Tensor[WORDS, HIDDEN]
    leaf_w: Tensor[HIDDEN, HIDDEN]
    gate_l: Tensor[HIDDEN, 3 * HIDDEN]
    gate_r: Tensor[HIDDEN, 3 * HIDDEN]
    gate_b: Tensor[3 * HIDDEN]
    new_l: Tensor[HIDDEN, HIDDEN]
    new_r: Tensor[HIDDEN, HIDDEN]
    out_w: Tensor[HIDDEN, 5]

    def state(self, tree: Tree) -> Tensor[HIDDEN]:
        match tree:
            case Leaf(word):
                return tanh(self.embedding[word] @ self.leaf_w)
            case Node(left, right):
                hl, hr = self.state(left), self.state(right)
                rl, rr, z = split(sigmoid(hl @ self.gate_l + hr @ self.gate_r + self.gate_b), 3)
                new = tanh((rl * hl) @ self.new_l + (rr * hr) @ self.new_r)
                return z * (hl + hr) * 0.5 + (1.0 - z) * new

    def main(self, tree: Tree) -> Tensor[5]:
        return self.state(tree) @ self.out_w


class TwoTypes(Model):
    embedding: Tensor[WORDS, HIDDEN]
    noun_w: Tensor[2 * HIDDEN, HIDDEN]
    noun_b: Tensor[HIDDEN]
    verb_l: Tensor[HIDDEN, 2 * HIDDEN]
    verb_r: Tensor[HIDDEN, 2 * HIDDEN]
    verb_b: Tensor[2 * HIDDEN]
    out_w: Tensor[HIDDEN, 5]

    def state(self, phrase: Phrase) -> Tensor[HIDDEN]:
        match phrase:
            case Word(word):
                return self.embedding[word]
            case Noun(left, right):
                return tanh(concat(self.state(left), self.state(right)) @ self.noun_w + self.noun_b)
            case Verb(left, right):
                hl, hr = self.state(left), self.state(right)
                z, new = split(hl @ self.verb_l + hr @ self.verb_r + self.verb_b, 2)
                return sigmoid(z) * tanh(new) + (1.0 - sigmoid(z)) * (hl + hr)

    def main(self, phrase: Phrase) -> Tensor[5]:
        return self.state(phrase) @ self.out_w

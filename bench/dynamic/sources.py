# mypy: ignore-errors
"""The models of `python -m bench.dynamic` as a user writes them. The first three compute what `bench.dynamic.models`
defines. Their weights have the same names, in small letters and with `_` for `.`, but for `out_fw` and `out_bw`;
matrices multiply from the right.

MatrixTree    MV-RNN (Socher et al., EMNLP 2012): a node has a vector and a matrix; matrices are transposed
TreeGRU       the binary tree GRU of Kokkinos and Potamianos (2017), with words in the leaves only
EarlyExit     residual layers, as many as a score asks for
ShiftReduce   a parser with a stack that reduces as long as the upper entry has a higher score than the one below
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from deploykit.dynamic import Model, Tensor, concat, relu, sigmoid, softmax, split, sum, tanh, zeros  # noqa: A004

HIDDEN = 128
WORDS = 1024
MATRICES = 128
LAYERS = 12


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
    """A word of a lattice, which starts at a position."""

    start: int
    label: int


@dataclass
class Empty:
    pass


@dataclass
class Push:
    value: Tensor[HIDDEN]
    below: Stack


Stack: TypeAlias = Empty | Push


def lstm(
    wx: Tensor[HIDDEN, 4 * HIDDEN],
    wh: Tensor[HIDDEN, 4 * HIDDEN],
    b: Tensor[4 * HIDDEN],
    x: Tensor[HIDDEN],
    h: Tensor[HIDDEN],
    c: Tensor[HIDDEN],
) -> tuple[Tensor[HIDDEN], Tensor[HIDDEN]]:
    i, f, o, u = split(x @ wx + h @ wh + b, 4)
    c = sigmoid(f) * c + sigmoid(i) * tanh(u)
    return sigmoid(o) * tanh(c), c


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


class Tagger(Model):
    embedding: Tensor[WORDS, HIDDEN]
    forward_x: Tensor[HIDDEN, 4 * HIDDEN]
    forward_h: Tensor[HIDDEN, 4 * HIDDEN]
    forward_b: Tensor[4 * HIDDEN]
    backward_x: Tensor[HIDDEN, 4 * HIDDEN]
    backward_h: Tensor[HIDDEN, 4 * HIDDEN]
    backward_b: Tensor[4 * HIDDEN]
    out_fw: Tensor[HIDDEN, 9]
    out_bw: Tensor[HIDDEN, 9]
    out_b: Tensor[9]

    def states(
        self,
        wx: Tensor[HIDDEN, 4 * HIDDEN],
        wh: Tensor[HIDDEN, 4 * HIDDEN],
        b: Tensor[4 * HIDDEN],
        xs: list[Tensor[HIDDEN]],
    ) -> list[Tensor[HIDDEN]]:
        h, c = zeros(HIDDEN), zeros(HIDDEN)
        found: list[Tensor[HIDDEN]] = []
        for x in xs:
            h, c = lstm(wx, wh, b, x, h, c)
            found = [*found, h]
        return found

    def main(self, words: list[int]) -> list[Tensor[9]]:
        xs = [self.embedding[word] for word in words]
        forward = self.states(self.forward_x, self.forward_h, self.forward_b, xs)
        back = [x for x in reversed(xs)]  # noqa: C416
        backward = self.states(self.backward_x, self.backward_h, self.backward_b, back)
        return [
            f @ self.out_fw + b @ self.out_bw + self.out_b for f, b in zip(forward, reversed(backward), strict=True)
        ]


class Lattice(Model):
    char_embedding: Tensor[WORDS, HIDDEN]
    char_x: Tensor[HIDDEN, 4 * HIDDEN]
    char_h: Tensor[HIDDEN, 4 * HIDDEN]
    char_b: Tensor[4 * HIDDEN]
    word_embedding: Tensor[WORDS, HIDDEN]
    word_x: Tensor[HIDDEN, 4 * HIDDEN]
    word_h: Tensor[HIDDEN, 4 * HIDDEN]
    word_b: Tensor[4 * HIDDEN]
    out_w: Tensor[HIDDEN, 17]
    out_b: Tensor[17]

    def main(self, characters: list[int], words: list[list[Word]]) -> list[Tensor[17]]:
        """`words` are those that end with each character."""
        h, c = zeros(HIDDEN), zeros(HIDDEN)
        states = [(h, c)]
        found: list[Tensor[17]] = []
        for character, ending in zip(characters, words):  # noqa: B905
            h, c = lstm(self.char_x, self.char_h, self.char_b, self.char_embedding[character], h, c)
            for word in ending:
                before_h, before_c = states[word.start]
                x = self.word_embedding[word.label]
                word_h, word_c = lstm(self.word_x, self.word_h, self.word_b, x, before_h, before_c)
                h, c = h + word_h, c + word_c
            states = [*states, (h, c)]
            found = [*found, h @ self.out_w + self.out_b]
        return found


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


class EarlyExit(Model):
    layer_w: Tensor[HIDDEN, HIDDEN]
    exit_w: Tensor[HIDDEN, 1]
    out_w: Tensor[HIDDEN, 4]

    def main(self, x: Tensor[HIDDEN]) -> tuple[Tensor[4], int]:
        steps = 0
        while steps < LAYERS:
            x = relu(x @ self.layer_w) + x
            steps += 1
            score = float(sum(x @ self.exit_w))
            if score > 3.0 or score < -3.0:
                break
        return softmax(x @ self.out_w), steps


class ShiftReduce(Model):
    embedding: Tensor[WORDS, HIDDEN]
    reduce_w: Tensor[2 * HIDDEN, HIDDEN]
    score_w: Tensor[HIDDEN, 1]

    def main(self, words: list[int]) -> tuple[Tensor[HIDDEN], int]:
        stack: Stack = Empty()
        size, reduced = 0, 0
        for word in words:
            stack = Push(tanh(self.embedding[word]), stack)
            size += 1
            going = True
            while going and size >= 2:
                top, below = self.pop(stack)
                second, rest = self.pop(below)
                if float(sum(top @ self.score_w)) > float(sum(second @ self.score_w)):
                    stack = Push(tanh(concat(second, top) @ self.reduce_w), rest)
                    size -= 1
                    reduced += 1
                else:
                    going = False
        total = zeros(HIDDEN)
        while size > 0:
            top, stack = self.pop(stack)
            total = total + top
            size -= 1
        return total, reduced

    def pop(self, stack: Stack) -> tuple[Tensor[HIDDEN], Stack]:
        match stack:
            case Push(value, below):
                return value, below
            case Empty():
                return zeros(HIDDEN), stack

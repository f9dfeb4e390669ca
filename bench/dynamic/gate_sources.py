# mypy: ignore-errors
"""The models of `python -m bench.dynamic.gates`: each with gates that are written one by one, and with their weights
merged by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from deploykit.dynamic import Model, Tensor, sigmoid, split, tanh, zeros

HIDDEN = 128
WORDS = 1024


@dataclass
class Leaf:
    word: int


@dataclass
class Node:
    left: Tree
    right: Tree


Tree: TypeAlias = Leaf | Node


class TreeLSTMSeparate(Model):
    embedding: Tensor[WORDS, HIDDEN]
    leaf_i: Tensor[HIDDEN, HIDDEN]
    leaf_o: Tensor[HIDDEN, HIDDEN]
    leaf_u: Tensor[HIDDEN, HIDDEN]
    li: Tensor[HIDDEN, HIDDEN]
    lf: Tensor[HIDDEN, HIDDEN]
    lg: Tensor[HIDDEN, HIDDEN]
    lo: Tensor[HIDDEN, HIDDEN]
    lu: Tensor[HIDDEN, HIDDEN]
    ri: Tensor[HIDDEN, HIDDEN]
    rf: Tensor[HIDDEN, HIDDEN]
    rg: Tensor[HIDDEN, HIDDEN]
    ro: Tensor[HIDDEN, HIDDEN]
    ru: Tensor[HIDDEN, HIDDEN]
    bi: Tensor[HIDDEN]
    bf: Tensor[HIDDEN]
    bg: Tensor[HIDDEN]
    bo: Tensor[HIDDEN]
    bu: Tensor[HIDDEN]

    def state(self, tree: Tree) -> tuple[Tensor[HIDDEN], Tensor[HIDDEN]]:
        match tree:
            case Leaf(word):
                x = self.embedding[word]
                c = sigmoid(x @ self.leaf_i + self.bi) * tanh(x @ self.leaf_u + self.bu)
                return sigmoid(x @ self.leaf_o + self.bo) * tanh(c), c
            case Node(left, right):
                hl, cl = self.state(left)
                hr, cr = self.state(right)
                i = sigmoid(hl @ self.li + hr @ self.ri + self.bi)
                f = sigmoid(hl @ self.lf + hr @ self.rf + self.bf)
                g = sigmoid(hl @ self.lg + hr @ self.rg + self.bg)
                o = sigmoid(hl @ self.lo + hr @ self.ro + self.bo)
                u = tanh(hl @ self.lu + hr @ self.ru + self.bu)
                c = i * u + f * cl + g * cr
                return o * tanh(c), c

    def main(self, tree: Tree) -> Tensor[HIDDEN]:
        h, _ = self.state(tree)
        return h


class TreeLSTMMerged(Model):
    embedding: Tensor[WORDS, HIDDEN]
    leaf: Tensor[HIDDEN, 3 * HIDDEN]
    left: Tensor[HIDDEN, 5 * HIDDEN]
    right: Tensor[HIDDEN, 5 * HIDDEN]
    b: Tensor[5 * HIDDEN]
    lb: Tensor[3 * HIDDEN]

    def state(self, tree: Tree) -> tuple[Tensor[HIDDEN], Tensor[HIDDEN]]:
        match tree:
            case Leaf(word):
                i, o, u = split(self.embedding[word] @ self.leaf + self.lb, 3)
                c = sigmoid(i) * tanh(u)
                return sigmoid(o) * tanh(c), c
            case Node(left, right):
                hl, cl = self.state(left)
                hr, cr = self.state(right)
                i, f, g, o, u = split(hl @ self.left + hr @ self.right + self.b, 5)
                c = sigmoid(i) * tanh(u) + sigmoid(f) * cl + sigmoid(g) * cr
                return sigmoid(o) * tanh(c), c

    def main(self, tree: Tree) -> Tensor[HIDDEN]:
        h, _ = self.state(tree)
        return h


class LSTMSeparate(Model):
    embedding: Tensor[WORDS, HIDDEN]
    wi: Tensor[HIDDEN, HIDDEN]
    wf: Tensor[HIDDEN, HIDDEN]
    wo: Tensor[HIDDEN, HIDDEN]
    wu: Tensor[HIDDEN, HIDDEN]
    ui: Tensor[HIDDEN, HIDDEN]
    uf: Tensor[HIDDEN, HIDDEN]
    uo: Tensor[HIDDEN, HIDDEN]
    uu: Tensor[HIDDEN, HIDDEN]
    bi: Tensor[HIDDEN]
    bf: Tensor[HIDDEN]
    bo: Tensor[HIDDEN]
    bu: Tensor[HIDDEN]

    def main(self, words: list[int]) -> Tensor[HIDDEN]:
        h, c = zeros(HIDDEN), zeros(HIDDEN)
        for word in words:
            x = self.embedding[word]
            i = sigmoid(x @ self.wi + h @ self.ui + self.bi)
            f = sigmoid(x @ self.wf + h @ self.uf + self.bf)
            o = sigmoid(x @ self.wo + h @ self.uo + self.bo)
            u = tanh(x @ self.wu + h @ self.uu + self.bu)
            c = f * c + i * u
            h = o * tanh(c)
        return h


class LSTMMerged(Model):
    embedding: Tensor[WORDS, HIDDEN]
    w: Tensor[HIDDEN, 4 * HIDDEN]
    u: Tensor[HIDDEN, 4 * HIDDEN]
    b: Tensor[4 * HIDDEN]

    def main(self, words: list[int]) -> Tensor[HIDDEN]:
        h, c = zeros(HIDDEN), zeros(HIDDEN)
        for word in words:
            i, f, o, u = split(self.embedding[word] @ self.w + h @ self.u + self.b, 4)
            c = sigmoid(f) * c + sigmoid(i) * tanh(u)
            h = sigmoid(o) * tanh(c)
        return h


class GRUSeparate(Model):
    embedding: Tensor[WORDS, HIDDEN]
    wr: Tensor[HIDDEN, HIDDEN]
    wz: Tensor[HIDDEN, HIDDEN]
    wn: Tensor[HIDDEN, HIDDEN]
    ur: Tensor[HIDDEN, HIDDEN]
    uz: Tensor[HIDDEN, HIDDEN]
    un: Tensor[HIDDEN, HIDDEN]
    br: Tensor[HIDDEN]
    bz: Tensor[HIDDEN]
    bn: Tensor[HIDDEN]
    cn: Tensor[HIDDEN]

    def main(self, words: list[int]) -> Tensor[HIDDEN]:
        h = zeros(HIDDEN)
        for word in words:
            x = self.embedding[word]
            r = sigmoid(x @ self.wr + h @ self.ur + self.br)
            z = sigmoid(x @ self.wz + h @ self.uz + self.bz)
            n = tanh(x @ self.wn + self.bn + r * (h @ self.un + self.cn))
            h = (1.0 - z) * n + z * h
        return h


class GRUMerged(Model):
    embedding: Tensor[WORDS, HIDDEN]
    w: Tensor[HIDDEN, 3 * HIDDEN]
    u: Tensor[HIDDEN, 3 * HIDDEN]
    b: Tensor[3 * HIDDEN]
    c: Tensor[3 * HIDDEN]

    def main(self, words: list[int]) -> Tensor[HIDDEN]:
        h = zeros(HIDDEN)
        for word in words:
            a, b, d = split(self.embedding[word] @ self.w + self.b, 3)
            e, f, g = split(h @ self.u + self.c, 3)
            z = sigmoid(b + f)
            h = (1.0 - z) * tanh(d + sigmoid(a + e) * g) + z * h
        return h


class TreeGRUSeparate(Model):
    embedding: Tensor[WORDS, HIDDEN]
    leaf_w: Tensor[HIDDEN, HIDDEN]
    la: Tensor[HIDDEN, HIDDEN]
    lb: Tensor[HIDDEN, HIDDEN]
    lz: Tensor[HIDDEN, HIDDEN]
    ra: Tensor[HIDDEN, HIDDEN]
    rb: Tensor[HIDDEN, HIDDEN]
    rz: Tensor[HIDDEN, HIDDEN]
    new_l: Tensor[HIDDEN, HIDDEN]
    new_r: Tensor[HIDDEN, HIDDEN]

    def state(self, tree: Tree) -> Tensor[HIDDEN]:
        match tree:
            case Leaf(word):
                return tanh(self.embedding[word] @ self.leaf_w)
            case Node(left, right):
                hl, hr = self.state(left), self.state(right)
                a = sigmoid(hl @ self.la + hr @ self.ra)
                b = sigmoid(hl @ self.lb + hr @ self.rb)
                z = sigmoid(hl @ self.lz + hr @ self.rz)
                new = tanh((a * hl) @ self.new_l + (b * hr) @ self.new_r)
                return z * (hl + hr) * 0.5 + (1.0 - z) * new

    def main(self, tree: Tree) -> Tensor[HIDDEN]:
        return self.state(tree)


class TreeGRUMerged(Model):
    embedding: Tensor[WORDS, HIDDEN]
    leaf_w: Tensor[HIDDEN, HIDDEN]
    left: Tensor[HIDDEN, 3 * HIDDEN]
    right: Tensor[HIDDEN, 3 * HIDDEN]
    new_l: Tensor[HIDDEN, HIDDEN]
    new_r: Tensor[HIDDEN, HIDDEN]

    def state(self, tree: Tree) -> Tensor[HIDDEN]:
        match tree:
            case Leaf(word):
                return tanh(self.embedding[word] @ self.leaf_w)
            case Node(left, right):
                hl, hr = self.state(left), self.state(right)
                a, b, z = split(sigmoid(hl @ self.left + hr @ self.right), 3)
                new = tanh((a * hl) @ self.new_l + (b * hr) @ self.new_r)
                return z * (hl + hr) * 0.5 + (1.0 - z) * new

    def main(self, tree: Tree) -> Tensor[HIDDEN]:
        return self.state(tree)

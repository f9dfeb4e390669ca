from __future__ import annotations

from dataclasses import dataclass

from deploykit.dynamic import Model, Tensor, concat, split, sum, tanh

N = 4


@dataclass
class Leaf:
    word: int


@dataclass
class Node:
    left: Tree
    right: Tree


Tree = Leaf | Node


class Expressions(Model):
    w: Tensor[3, N]
    b: Tensor[N]

    def main(self, x: Tensor[3], n: int, y: float, xs: list[int], tree: Tree, flag: bool) -> Tensor[N]:
        shapes = self.w @ x
        added = x + self.b
        parts = split(x, 2)
        missing = self.u @ x
        if x > 0:
            pass
        if n:
            pass
        word = tree.word
        part = tree.middle
        modulo = y % 2
        items = [1, 2.0]
        empty = []
        text = "text"
        called = print(n)
        joined = xs + [n]
        attribute = n.real
        index = xs[y]
        equal = xs == xs
        size = len(n)
        lowest = min(xs)
        known = undefined + 1
        large = 4294967296
        choice = 1 if flag else 2.0
        made = Node(tree)
        kind = isinstance(n, Leaf)
        inside = n in xs
        power = n**2
        keyword = tanh(x, axis=0)
        return concat(x, x)

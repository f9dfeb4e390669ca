from __future__ import annotations

from dataclasses import dataclass

from deploykit.dynamic import Model, Tensor, zeros


@dataclass
class Leaf:
    word: int


@dataclass
class Node:
    left: Tree
    right: Tree


Tree = Leaf | Node


class Statements(Model):
    b: Tensor[3]

    def no_end(self, n: int) -> int:
        if n > 0:
            return 1

    def untyped(self, n):
        for _ in range(n):
            pass
        return n

    def main(self, n: int, xs: list[int], tree: Tree, flag: bool) -> int:
        if flag:
            one = 1
        first = one
        if flag:
            other = 1
        else:
            other = 2.0
        count = 0
        while count < n:
            count = count + 0.5
        total = self.b
        total += self.b
        reverse = reversed(xs)
        xs[0] = 1
        self.b = zeros(3)
        xs.append(n)
        for x in n:
            pass
        for x in xs:
            pass
        else:
            pass
        match tree:
            case Leaf(3):
                pass
            case Leaf(word) if word > 3:
                pass
            case Other():
                pass
            case Node(left, right, middle):
                pass
        match n:
            case 1:
                pass
        pairs = [x + y for x in xs for y in xs]
        a, b, c = n, n
        break
        n
        del n
        with flag:
            pass
        self.no_end(n) + self.untyped(n)
        result: int = 1.5
        declared: int
        return x

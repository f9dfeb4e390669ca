from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from deploykit.dynamic import Model, Tensor

SIZE = len("four")
NAME = "no number"


@dataclass
class Leaf:
    word: int = 3
    text: str


@dataclass
class Node(Leaf):
    left: Tree
    right: Leaf


Tree = Leaf | Node
Other = Node | None
Third = Leaf | Missing

print(SIZE)


class Declarations(Model):
    w: Tensor[SIZE, 0]
    v: list[int]
    count = 3
    t: "Tensor["

    @staticmethod
    def helper(n: int) -> int:
        return n

    def main(self, n: int, *others: int) -> dict[str, int]:
        return self.helper(n)

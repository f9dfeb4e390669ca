# mypy: ignore-errors
"""Models whose gates are written one by one."""

from __future__ import annotations

from dataclasses import dataclass

from deploykit.dynamic import Model, Tensor, sigmoid, tanh, zeros

H = 12


@dataclass
class Leaf:
    word: int


@dataclass
class Node:
    left: Tree
    right: Tree


Tree = Leaf | Node


class GRU(Model):
    """Products from the left, and an input that each gate names anew."""

    embedding: Tensor[20, H]
    wr: Tensor[H, H]
    wz: Tensor[H, H]
    wn: Tensor[H, H]
    ur: Tensor[H, H]
    uz: Tensor[H, H]
    un: Tensor[H, H]
    br: Tensor[H]
    bn: Tensor[H]

    def main(self, words: list[int]) -> tuple[Tensor[H], list[Tensor[H]]]:
        h = zeros(H)
        found: list[Tensor[H]] = []
        for word in words:
            r = sigmoid(self.wr @ self.embedding[word] + self.ur @ h + self.br)
            z = sigmoid(self.wz @ self.embedding[word] + self.uz @ h)
            n = tanh(self.wn @ self.embedding[word] + r * (self.un @ h) + self.bn)
            h = (1.0 - z) * n + z * h
            found = [*found, z]
        return h, found


class TreeGRU(Model):
    embedding: Tensor[20, H]
    la: Tensor[H, H]
    lz: Tensor[H, H]
    lb: Tensor[H, H]
    ra: Tensor[H, H]
    rz: Tensor[H, H]
    rb: Tensor[H, H]
    new_l: Tensor[H, H]
    new_r: Tensor[H, H]

    def main(self, tree: Tree) -> Tensor[H]:
        match tree:
            case Leaf(word):
                return tanh(self.embedding[word])
            case Node(left, right):
                hl, hr = self.main(left), self.main(right)
                a = sigmoid(hl @ self.la + hr @ self.ra)
                z = sigmoid(hl @ self.lz + hr @ self.rz)
                b = sigmoid(hl @ self.lb + hr @ self.rb)
                new = tanh((a * hl) @ self.new_l + (b * hr) @ self.new_r)
                return z * (hl + hr) * 0.5 + (1.0 - z) * new

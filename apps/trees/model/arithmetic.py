"""Arithmetic modulo 10, learned: a cell for each operator, over the tree of an expression.

A number has a vector, and an operator is a small network that maps the vectors of its operands to that of its result.
"""

from __future__ import annotations

from dataclasses import dataclass

from deploykit.dynamic import Model, Tensor, concat, relu, softmax, tanh

NUMBERS = 100
WIDTH = 32
INNER = 64


@dataclass
class Number:
    value: int
    """0 to 99."""


@dataclass
class Negative:
    operand: Tree


@dataclass
class Plus:
    left: Tree
    right: Tree


@dataclass
class Minus:
    left: Tree
    right: Tree


@dataclass
class Times:
    left: Tree
    right: Tree


Tree = Number | Negative | Plus | Minus | Times


class Arithmetic(Model):
    numbers: Tensor[NUMBERS, WIDTH]
    negative: Tensor[WIDTH, INNER]
    negative_bias: Tensor[INNER]
    negative_out: Tensor[INNER, WIDTH]
    plus: Tensor[2 * WIDTH, INNER]
    plus_bias: Tensor[INNER]
    plus_out: Tensor[INNER, WIDTH]
    minus: Tensor[2 * WIDTH, INNER]
    minus_bias: Tensor[INNER]
    minus_out: Tensor[INNER, WIDTH]
    times: Tensor[2 * WIDTH, INNER]
    times_bias: Tensor[INNER]
    times_out: Tensor[INNER, WIDTH]
    digits: Tensor[WIDTH, 10]

    def value(self, tree: Tree) -> Tensor[WIDTH]:
        match tree:
            case Number(value):
                return self.numbers[value]
            case Negative(operand):
                x = self.value(operand)
                return tanh(relu(x @ self.negative + self.negative_bias) @ self.negative_out)
            case Plus(left, right):
                x = concat(self.value(left), self.value(right))
                return tanh(relu(x @ self.plus + self.plus_bias) @ self.plus_out)
            case Minus(left, right):
                x = concat(self.value(left), self.value(right))
                return tanh(relu(x @ self.minus + self.minus_bias) @ self.minus_out)
            case Times(left, right):
                x = concat(self.value(left), self.value(right))
                return tanh(relu(x @ self.times + self.times_bias) @ self.times_out)

    def main(self, tree: Tree) -> Tensor[10]:
        """The probability of each last digit."""
        return softmax(self.value(tree) @ self.digits)

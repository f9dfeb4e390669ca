"""Dynamic models, written in Python: `deploykit.build("models.py:TreeLSTM", target=...)` makes an artifact.

    @dataclass
    class Leaf:
        word: int

    @dataclass
    class Node:
        left: Tree
        right: Tree

    Tree = Leaf | Node

    class Sums(Model):
        embedding: Tensor[1000, 64]

        def main(self, tree: Tree) -> Tensor[64]:
            match tree:
                case Leaf(word):
                    return self.embedding[word]
                case Node(left, right):
                    return tanh(self.main(left) + self.main(right))

A model is written for one instance, without any batch. In Python it runs as it stands, on NumPy arrays; that is what it
means. The compiler reads the source, and the artifact runs many instances at once, whose operators it batches.

This package needs nothing of the compiler; `deploykit.frontends.python` compiles its models.
"""

# `sum` and others are called as `dynamic.sum`.
from deploykit.dynamic.functions import (
    concat,
    exp,
    maximum,
    mean,
    minimum,
    random,
    relu,
    sigmoid,
    softmax,
    split,
    sqrt,
    stack,
    sum,  # noqa: A004
    tanh,
    zeros,
)
from deploykit.dynamic.models import Model
from deploykit.dynamic.tensors import Tensor

__all__ = [
    "Model",
    "Tensor",
    "concat",
    "exp",
    "maximum",
    "mean",
    "minimum",
    "random",
    "relu",
    "sigmoid",
    "softmax",
    "split",
    "sqrt",
    "stack",
    "sum",
    "tanh",
    "zeros",
]

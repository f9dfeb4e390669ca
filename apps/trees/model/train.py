"""Trains the model of the sample page: `python -m apps.trees.model.train` writes `arithmetic.safetensors`, and to
`samples.json` a few expressions, from which the build learns how to choose batches.

The model sees random expressions, and the value modulo 10 of each part of them. Gradients are written out here, in
NumPy. The nodes of a batch of trees run together by height and operator, as the artifact runs them by itself. Noise on
the vectors of operands makes each operator robust against the errors of the operators below it.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import numpy as np
from safetensors.numpy import save_file

from apps.trees.model.arithmetic import NUMBERS, Arithmetic, Minus, Negative, Number, Plus, Times, Tree

FOLDER = Path(__file__).parent
STEPS, TREES, LEAVES = 2500, 64, 10
"""Steps of training, trees of a step, and the most numbers of an expression."""
RATE, NOISE = 4e-3, 0.1
SAMPLES = 24

Weights: TypeAlias = dict[str, np.ndarray]


def expression(random: np.random.Generator, leaves: int) -> Tree:
    """A random expression of so many numbers."""
    if random.random() < 0.08:
        return Negative(expression(random, leaves))
    if leaves == 1:
        return Number(int(random.integers(NUMBERS)))
    first = int(random.integers(1, leaves))
    operator = (Plus, Minus, Times)[random.integers(3)]
    return operator(expression(random, first), expression(random, leaves - first))


def value_of(tree: Tree) -> int:
    """The exact value of an expression."""
    match tree:
        case Number(value):
            return value
        case Negative(operand):
            return -value_of(operand)
        case Plus(left, right):
            return value_of(left) + value_of(right)
        case Minus(left, right):
            return value_of(left) - value_of(right)
        case Times(left, right):
            return value_of(left) * value_of(right)


@dataclass
class Batch:
    """The nodes of several trees. A group has an operator, its nodes, and their operands `[nodes, operands]`, which
    are nodes of earlier groups; for numbers, the numbers. `digits` are what to learn for each node."""

    groups: list[tuple[str, np.ndarray, np.ndarray]]
    digits: np.ndarray

    @staticmethod
    def of(trees: list[Tree]) -> Batch:
        found = _Nodes()
        for tree in trees:
            found.add(tree)
        groups = [
            (operator, np.array([node for node, _ in nodes]), np.array([operands for _, operands in nodes]))
            for (_, operator), nodes in sorted(found.groups.items())
        ]
        return Batch(groups, np.array(found.values) % 10)


@dataclass
class _Nodes:
    """`groups` by height and operator."""

    groups: defaultdict[tuple[int, str], list[tuple[int, list[int]]]] = field(default_factory=lambda: defaultdict(list))
    values: list[int] = field(default_factory=list)

    def add(self, tree: Tree) -> tuple[int, int]:
        """The number of the node of a tree, and its height."""
        operator = type(tree).__name__.lower()
        if isinstance(tree, Number):
            height, operands = 0, [tree.value]
        else:
            below = [self.add(each) for each in vars(tree).values()]
            height, operands = 1 + max(each for _, each in below), [node for node, _ in below]
        self.values.append(value_of(tree))
        self.groups[height, operator].append((len(self.values) - 1, operands))
        return len(self.values) - 1, height


def gradients(weights: Mapping[str, np.ndarray], batch: Batch, noise: np.ndarray) -> tuple[float, Weights]:
    """The mean cross entropy of the digits of all nodes, and its gradient for each weight. `noise` is added to the
    vector of each node where an operator reads it."""
    vectors, kept = np.zeros_like(noise), []
    for operator, nodes, operands in batch.groups:
        if operator == "number":
            vectors[nodes] = weights["numbers"][operands[:, 0]]
            continue
        x = (vectors + noise)[operands].reshape(len(nodes), -1)
        inner = np.maximum(x @ weights[operator] + weights[f"{operator}_bias"], 0)
        vectors[nodes] = np.tanh(inner @ weights[f"{operator}_out"])
        kept.append((x, inner))
    loss, slopes, found = _output(weights, vectors, batch.digits)
    found |= {name: np.zeros_like(array) for name, array in weights.items() if name not in found}
    for operator, nodes, operands in reversed(batch.groups):
        if operator == "number":
            np.add.at(found["numbers"], operands[:, 0], slopes[nodes])
            continue
        x, inner = kept.pop()
        slope = slopes[nodes] * (1 - vectors[nodes] ** 2)
        found[f"{operator}_out"] += inner.T @ slope
        slope = (slope @ weights[f"{operator}_out"].T) * (inner > 0)
        found[f"{operator}_bias"] += slope.sum(0)
        found[operator] += x.T @ slope
        below = (slope @ weights[operator].T).reshape(*operands.shape, -1)
        for index, column in enumerate(operands.T):
            slopes[column] += below[:, index]  # a node is an operand once
    return loss, found


def _output(
    weights: Mapping[str, np.ndarray], vectors: np.ndarray, digits: np.ndarray
) -> tuple[float, np.ndarray, Weights]:
    """The mean cross entropy, its gradient for the vectors, and that for the output's weights."""
    scores = vectors @ weights["digits"]
    shifted = np.exp(scores - scores.max(1, keepdims=True))
    slope = shifted / shifted.sum(1, keepdims=True)
    rows = np.arange(len(digits))
    loss = float(-np.log(slope[rows, digits]).mean())
    slope[rows, digits] -= 1
    slope /= np.float32(len(digits))
    return loss, slope @ weights["digits"].T, {"digits": vectors.T @ slope}


def steps(count: int, seed: int) -> Iterator[tuple[int, float, Weights]]:
    """Trains with Adam (Kingma and Ba, 2015), at a rate that falls to zero; gives the loss and the weights."""
    random = np.random.default_rng(seed)
    weights = {name: getattr(Arithmetic(seed=seed), name) for name in Arithmetic.weight_shapes()}
    means = {name: np.zeros_like(array) for name, array in weights.items()}
    squares = {name: np.zeros_like(array) for name, array in weights.items()}
    for step in range(1, count + 1):
        trees = [expression(random, int(random.integers(1, LEAVES + 1))) for _ in range(TREES)]
        batch = Batch.of(trees)
        noise = NOISE * random.standard_normal((len(batch.digits), weights["numbers"].shape[1]), np.float32)
        loss, found = gradients(weights, batch, noise)
        rate = RATE * (1 + np.cos(np.pi * step / count)) / 2
        for name, slope in found.items():
            means[name] += 0.1 * (slope - means[name])
            squares[name] += 0.01 * (slope**2 - squares[name])
            mean, square = means[name] / (1 - 0.9**step), squares[name] / (1 - 0.99**step)
            weights[name] = (weights[name] - rate * mean / (np.sqrt(square) + 1e-8)).astype(np.float32)
        yield step, loss, weights


def accuracy(weights: Weights, trees: int = 1000, leaves: int = 20, seed: int = 1) -> float:
    """How many of so many expressions, each of up to `leaves` numbers, the model has the right digit for."""
    random = np.random.default_rng(seed)
    model = Arithmetic(weights)
    found = [expression(random, int(random.integers(1, leaves + 1))) for _ in range(trees)]
    return float(np.mean([model.main(tree).argmax() == value_of(tree) % 10 for tree in found]))


def as_json(tree: Tree) -> list[object]:
    """A tree as nested lists: `["Plus", ["Number", 3], ["Number", 4]]`."""
    return [type(tree).__name__, *(part if isinstance(part, int) else as_json(part) for part in vars(tree).values())]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=FOLDER, help="the folder for both files")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    start = time.perf_counter()
    weights: Weights = {}
    for step, loss, weights in steps(STEPS, options.seed):  # noqa: B007 - the last ones are kept
        if step % 250 == 0:
            print(f"step {step:4}  loss {loss:.4f}  {time.perf_counter() - start:.0f} s", flush=True)
    save_file(weights, options.output / "arithmetic.safetensors")
    random = np.random.default_rng(options.seed)
    samples = [json.dumps(as_json(expression(random, int(random.integers(2, LEAVES + 1))))) for _ in range(SAMPLES)]
    (options.output / "samples.json").write_text("[" + ",\n ".join(samples) + "]\n")
    print(f"right on {accuracy(weights):.2%} of expressions of up to 20 numbers")


if __name__ == "__main__":
    main()

"""Support vector machines of ai.onnx.ml: SVMRegressor and SVMClassifier.

A kernel function is computed for every row and support vector, followed by a matrix product with the coefficients. A
classifier decides between each pair of classes. The class with most decisions, of equal ones the first, is the label;
the scores are those of the pairs. For two classes, they are the negative score and the score. With `probabilities`,
there is a score for each class instead: probabilities of the pairs, coupled to probabilities of the classes (Wu, Lin,
Weng: Probability estimates for multi-class classification by pairwise coupling, 2004) as ONNX Runtime does it.

    LINEAR   x . v
    POLY     (gamma * x . v + offset) ** degree
    RBF      exp(-gamma * |x - v| ** 2)
    SIGMOID  tanh(gamma * x . v + offset)
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import mul
from typing import Literal, TypeAlias

import numpy as np
from tvm import ir, te, tirx

from deploykit.compiler.operators.building.broadcast import elementwise
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.expressions import compute, reduce_axis
from deploykit.compiler.operators.building.imperative import Array, Code, imperative
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.classical.classes import best_label, both_scores, transformed
from deploykit.compiler.operators.matmul import matmul

_LEAST = 1e-7
"""The least probability that a class of a pair has."""
_NEAR = 0.005
_ROUNDS = 100

_LARGEST_PRODUCT = 4
"""The largest degree of a polynomial that is computed by multiplication."""

KernelKind: TypeAlias = Literal["LINEAR", "POLY", "RBF", "SIGMOID"]


@dataclass(frozen=True)
class KernelFunction:
    """The kernel function: how similar a row is to a support vector. Each number is for the kinds that use it."""

    kind: KernelKind
    gamma: float
    offset: float
    degree: float


def svm_regressor(
    ctx: Context,
    x: Value,
    kernel: KernelFunction,
    vectors: np.ndarray | None,
    coefficients: np.ndarray,
    rho: float,
    transform: str,
    *,
    one_class: bool,
) -> Value:
    """The regression of the rows of `x`, `[n, features]`, as `[n, 1]` in float32: the similarities of a row to the
    `vectors`, `[vectors, features]`, times `coefficients`, plus `rho`. Without vectors, the features are multiplied by
    `coefficients`. With `one_class`, the result is 1 if that is above 0, else -1. Then comes `transform`
    (`classes.transformed`)."""
    rows = ctx.cast(x, "float32")
    similar = rows if vectors is None else _similarities(ctx, rows, vectors, kernel)
    sums = matmul(ctx, similar, ctx.constant(coefficients.reshape(-1, 1)))

    def finish(v: ir.Expr) -> ir.Expr:
        y = v + tirx.const(rho, "float32")
        if not one_class:
            return y
        return tirx.Select(y > 0, tirx.const(1, "float32"), tirx.const(-1, "float32"))

    return transformed(ctx, elementwise(ctx, "rho", finish, sums), transform)


def svm_classifier(
    ctx: Context,
    x: Value,
    kernel: KernelFunction,
    vectors: np.ndarray,
    counts: Sequence[int],
    coefficients: np.ndarray,
    rho: np.ndarray,
    labels: np.ndarray,
    transform: str,
    probabilities: tuple[np.ndarray, np.ndarray] | None = None,
) -> tuple[Value, Value]:
    """Labels `[n]` of the rows of `x`, `[n, features]`, and scores `[n, pairs]` after `transform`. With
    `probabilities`, factors and offsets of the scores of pairs, the scores are `[n, classes]`.

    `vectors`, `[vectors, features]`, has `counts[i]` vectors of class `i`, class by class. `coefficients`,
    `[classes - 1, vectors]`, has the coefficients of each vector against each other class. `rho` is added to the score
    of each pair."""
    pairs = list(itertools.combinations(range(len(labels)), 2))
    similar = _similarities(ctx, ctx.cast(x, "float32"), vectors, kernel)
    weights = ctx.constant(_pair_weights(coefficients, counts, pairs))
    scores = elementwise(ctx, "rho", lambda a, b: a + b, matmul(ctx, similar, weights), ctx.constant(rho))
    votes = _votes(ctx, scores, pairs, len(labels))
    label = best_label(ctx, votes, labels)
    if probabilities is not None:
        return label, transformed(ctx, _coupled(ctx, scores, pairs, *probabilities), transform)
    if len(labels) == 2:
        return label, both_scores(ctx, scores, transform, opposite=transform == "NONE")
    return label, transformed(ctx, scores, transform)


def linear_machine(
    ctx: Context, x: Value, coefficients: np.ndarray, rho: float, labels: np.ndarray, transform: str
) -> tuple[Value, Value]:
    """Labels `[n]` and scores `[n, classes]` without support vectors: `x` times `coefficients`, `[classes, features]`,
    plus `rho`. The class with the largest score is the label."""
    products = matmul(ctx, ctx.cast(x, "float32"), ctx.constant(coefficients.T.copy()))
    scores = elementwise(ctx, "rho", lambda v: v + tirx.const(rho, "float32"), products)
    return best_label(ctx, scores, labels), transformed(ctx, scores, transform)


def _similarities(ctx: Context, x: Value, vectors: np.ndarray, kernel: KernelFunction) -> Value:
    """The similarity of each row to each support vector, `[n, vectors]`."""
    if x.rank != 2:
        raise Unsupported(f"an input of rank {x.rank}")
    if kernel.kind == "RBF":
        distances = _squared_distances(ctx, x, vectors)
        return elementwise(ctx, "rbf", lambda d: tirx.exp(d * tirx.const(-kernel.gamma, "float32")), distances)
    dots = matmul(ctx, x, ctx.constant(vectors.T.copy()))
    if kernel.kind == "LINEAR":
        return dots

    def scaled(v: ir.Expr) -> ir.Expr:
        return v * tirx.const(kernel.gamma, "float32") + tirx.const(kernel.offset, "float32")

    if kernel.kind == "POLY":
        return elementwise(ctx, "poly", lambda v: _power(scaled(v), kernel.degree), dots)
    return elementwise(ctx, "sigmoid", lambda v: tirx.tanh(scaled(v)), dots)


def _power(value: ir.Expr, degree: float) -> ir.Expr:
    """A power, as a product for a small whole degree."""
    if degree in range(1, _LARGEST_PRODUCT + 1):
        return reduce(mul, [value] * int(degree))
    return tirx.pow(value, tirx.const(degree, "float32"))


def _pair_weights(coefficients: np.ndarray, counts: Sequence[int], pairs: list[tuple[int, int]]) -> np.ndarray:
    """The weights of vectors for pairs, `[vectors, pairs]`. For the pair of classes i < j, a vector of class i has its
    coefficient in row j - 1, and a vector of class j in row i."""
    starts = np.cumsum([0, *counts])
    weights = np.zeros((starts[-1], len(pairs)), np.float32)
    for column, (i, j) in enumerate(pairs):
        weights[starts[i] : starts[i + 1], column] = coefficients[j - 1, starts[i] : starts[i + 1]]
        weights[starts[j] : starts[j + 1], column] = coefficients[i, starts[j] : starts[j + 1]]
    return weights


def _votes(ctx: Context, scores: Value, pairs: list[tuple[int, int]], classes: int) -> Value:
    """The number of pairs that each class wins. The first class of a pair wins if the score is above 0."""
    won = elementwise(
        ctx, "won", lambda v: tirx.Select(v > 0, tirx.const(1, "float32"), tirx.const(0, "float32")), scores
    )
    change = np.zeros((len(pairs), classes), np.float32)
    lost = np.zeros(classes, np.float32)
    for row, (i, j) in enumerate(pairs):
        change[row, i], change[row, j] = 1, -1
        lost[j] += 1
    return elementwise(ctx, "votes", lambda a, b: a + b, matmul(ctx, won, ctx.constant(change)), ctx.constant(lost))


def _coupled(
    ctx: Context, scores: Value, pairs: Sequence[tuple[int, int]], factors: np.ndarray, offsets: np.ndarray
) -> Value:
    """Probabilities `[n, classes]` from the scores of pairs. That of a pair is the logistic of `-(score * factor +
    offset)`. At most `_ROUNDS` rounds adapt the probabilities of the classes, until they are `_NEAR` enough."""
    rows, count = scores.shape[0], max(j for _, j in pairs) + 1

    def probability(score: ir.Expr, factor: ir.Expr, offset: ir.Expr) -> ir.Expr:
        share = tirx.const(1, "float32") / (tirx.exp(score * factor + offset) + tirx.const(1, "float32"))
        return tirx.max(tirx.min(share, tirx.const(1 - _LEAST, "float32")), tirx.const(_LEAST, "float32"))

    wins = elementwise(ctx, "wins", probability, scores, ctx.constant(factors), ctx.constant(offsets))

    def write(code: Code, win: Array, matrix: Array, product: Array, result: Array) -> None:
        with code.loop("row", rows) as row:
            with code.loop("i", count) as i:
                result[row, i] = 1.0 / count
                matrix[row, i, i] = 0.0
            for pair, (i, j) in enumerate(pairs):
                first = code.cell("first", win[row, pair])
                second = code.cell("second", tirx.const(1, "float32") - first.value)
                matrix[row, i, i] = matrix[row, i, i] + second.value * second.value
                matrix[row, j, j] = matrix[row, j, j] + first.value * first.value
                matrix[row, i, j] = tirx.const(0, "float32") - first.value * second.value
                matrix[row, j, i] = matrix[row, i, j]
            _adapt(code, row, count, matrix, product, result)

    def build(*tensors: te.Tensor) -> list[te.Tensor]:
        outputs = [((rows, count, count), "float32"), ((rows, count), "float32"), ((rows, count), "float32")]
        return imperative("coupled", tensors, outputs, write)

    return ctx.kernel("coupled", build, wins, dtype=("float32",) * 3)[2]


def _adapt(code: Code, row: ir.Expr, count: int, matrix: Array, product: Array, result: Array) -> None:
    """Write the rounds that adapt the probabilities of a row. `product` is the matrix times the probabilities."""
    going, rounds = code.cell("going", tirx.const(1, "bool")), code.cell("rounds", 0)
    with code.repeat(tirx.all(going.value, rounds.value < _ROUNDS)):
        rounds.value += 1
        total, worst = code.cell("total", tirx.const(0, "float32")), code.cell("worst", tirx.const(0, "float32"))
        with code.loop("i", count) as i:
            product[row, i] = 0.0
            with code.loop("j", count) as j:
                product[row, i] = product[row, i] + matrix[row, i, j] * result[row, j]
            total.value += result[row, i] * product[row, i]
        with code.loop("i", count) as i:
            worst.value = tirx.max(worst.value, tirx.abs(product[row, i] - total.value))
        going.value = worst.value >= tirx.const(_NEAR / count, "float32")
        with code.when(going.value), code.loop("i", count) as i:
            own = matrix[row, i, i]
            change = code.cell("change", (total.value - product[row, i]) / own)
            result[row, i] = result[row, i] + change.value
            whole = code.cell("whole", change.value + tirx.const(1, "float32"))
            twice = product[row, i] * tirx.const(2, "float32")
            total.value = (total.value + change.value * (change.value * own + twice)) / whole.value / whole.value
            with code.loop("j", count) as j:
                product[row, j] = (product[row, j] + change.value * matrix[row, i, j]) / whole.value
                result[row, j] = result[row, j] / whole.value


def _squared_distances(ctx: Context, x: Value, vectors: np.ndarray) -> Value:
    count, features = vectors.shape

    def build(rows: te.Tensor, points: te.Tensor) -> te.Tensor:
        k = reduce_axis(features, "k")

        def element(i: ir.Expr, j: ir.Expr) -> ir.Expr:
            gap = rows(i, k.var) - points(j, k.var)
            return te.sum(gap * gap, axis=k)

        return compute((x.shape[0], count), element, name="distance")

    return ctx.kernel("squared_distances", build, x, ctx.constant(vectors), dtype="float32")

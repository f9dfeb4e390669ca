"""Support vector machines of ai.onnx.ml: SVMRegressor, and SVMClassifier of three and more classes without
probabilities.

A kernel of every row and support vector, and a matrix product with the coefficients. A classifier decides each pair of
classes; the class with most decisions, of equal ones the first, is the label, and the scores are the decisions' own.
"""

from __future__ import annotations

import numpy as np
from tvm import ir, te, tirx

from deploykit.compiler.operators.broadcast import elementwise
from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.expressions import compute, reduce_axis
from deploykit.compiler.operators.matmul import matmul
from deploykit.compiler.operators.value import Value


def pair_weights(coefficients: np.ndarray, counts: list[int], pairs: list[tuple[int, int]]) -> np.ndarray:
    """`[vectors, pairs]`: a vector of class i decides against class j with the coefficient in row j - 1, one of class j
    against i < j with that in row i."""
    starts = np.cumsum([0, *counts])
    weights = np.zeros((starts[-1], len(pairs)), np.float32)
    for column, (i, j) in enumerate(pairs):
        weights[starts[i] : starts[i + 1], column] = coefficients[j - 1, starts[i] : starts[i + 1]]
        weights[starts[j] : starts[j + 1], column] = coefficients[i, starts[j] : starts[j + 1]]
    return weights


def votes_of(ctx: Context, scores: Value, pairs: list[tuple[int, int]], classes: int) -> Value:
    """How many pairs each class wins: the first of a pair where the score is above 0."""
    won = elementwise(
        ctx, "won", lambda v: tirx.Select(v > 0, tirx.const(1, "float32"), tirx.const(0, "float32")), scores
    )
    change = np.zeros((len(pairs), classes), np.float32)
    lost = np.zeros(classes, np.float32)
    for row, (i, j) in enumerate(pairs):
        change[row, i], change[row, j] = 1, -1
        lost[j] += 1
    return elementwise(ctx, "votes", lambda a, b: a + b, matmul(ctx, won, ctx.constant(change)), ctx.constant(lost))


def squared_distances_of(ctx: Context, x: Value, vectors: np.ndarray) -> Value:
    count, features = vectors.shape

    def build(rows: te.Tensor, points: te.Tensor) -> te.Tensor:
        k = reduce_axis(features, "k")

        def element(i: ir.Expr, j: ir.Expr) -> ir.Expr:
            gap = rows(i, k.var) - points(j, k.var)
            return te.sum(gap * gap, axis=k)

        return compute((x.shape[0], count), element, name="distance")

    return ctx.kernel("squared_distances", build, x, ctx.constant(vectors), dtype="float32")

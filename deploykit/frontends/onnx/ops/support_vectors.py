"""Support vector machines of ai.onnx.ml: SVMRegressor, and SVMClassifier of three and more classes without
probabilities.

A kernel of every row and support vector, and a matrix product with the coefficients. A classifier decides each pair of
classes; the class with most decisions, of equal ones the first, is the label, and the scores are the decisions' own.
"""

from __future__ import annotations

import itertools

import numpy as np
from tvm import ir, te, tirx

from deploykit.compiler.operators.broadcast import elementwise
from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.errors import Unsupported
from deploykit.compiler.operators.expressions import compute, reduce_axis
from deploykit.compiler.operators.value import Value
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.ops.classes import DOMAIN, best_label, integer_labels, transformed
from deploykit.frontends.onnx.ops.matmul import matmul
from deploykit.frontends.onnx.registry import operator


@operator("SVMRegressor", domain=DOMAIN)
def svm_regressor(ctx: Context, node: Node, x: Value) -> Value:
    supports = node.int("n_supports", 0)
    coefficients = _numbers(node, "coefficients")
    rho = float(_numbers(node, "rho")[0])
    rows = ctx.cast(x, "float32")
    similar = _kernel(ctx, node, rows, _numbers(node, "support_vectors").reshape(supports, -1)) if supports else rows
    sums = matmul(ctx, similar, ctx.constant(coefficients.reshape(-1, 1)))
    one_class = node.int("one_class", 0)

    def finish(v: ir.Expr) -> ir.Expr:
        y = v + tirx.const(rho, "float32")
        if not one_class:
            return y
        return tirx.Select(y > 0, tirx.const(1, "float32"), tirx.const(-1, "float32"))

    return transformed(ctx, elementwise(ctx, "rho", finish, sums), node.string("post_transform", "NONE"))


@operator("SVMClassifier", domain=DOMAIN)
def svm_classifier(ctx: Context, node: Node, x: Value) -> tuple[Value, Value]:
    labels = integer_labels(node, "classlabels_ints")
    counts = node.ints("vectors_per_class", [])
    if len(labels) < 3 or not counts or node.has("prob_a"):
        raise Unsupported("two classes, no support vectors, or probabilities")
    vectors = _numbers(node, "support_vectors").reshape(sum(counts), -1)
    similar = _kernel(ctx, node, ctx.cast(x, "float32"), vectors)
    pairs = list(itertools.combinations(range(len(labels)), 2))
    weights = _pair_weights(_numbers(node, "coefficients").reshape(len(labels) - 1, -1), counts, pairs)
    rho = ctx.constant(_numbers(node, "rho"))
    scores = elementwise(ctx, "rho", lambda a, b: a + b, matmul(ctx, similar, ctx.constant(weights)), rho)
    votes = _votes(ctx, scores, pairs, len(labels))
    return best_label(ctx, votes, labels), transformed(ctx, scores, node.string("post_transform", "NONE"))


def _pair_weights(coefficients: np.ndarray, counts: list[int], pairs: list[tuple[int, int]]) -> np.ndarray:
    """`[vectors, pairs]`: a vector of class i decides against class j with the coefficient in row j - 1, one of class j
    against i < j with that in row i."""
    starts = np.cumsum([0, *counts])
    weights = np.zeros((starts[-1], len(pairs)), np.float32)
    for column, (i, j) in enumerate(pairs):
        weights[starts[i] : starts[i + 1], column] = coefficients[j - 1, starts[i] : starts[i + 1]]
        weights[starts[j] : starts[j + 1], column] = coefficients[i, starts[j] : starts[j + 1]]
    return weights


def _votes(ctx: Context, scores: Value, pairs: list[tuple[int, int]], classes: int) -> Value:
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


def _kernel(ctx: Context, node: Node, x: Value, vectors: np.ndarray) -> Value:
    """`[n, vectors]`: how similar each row is to each support vector."""
    if x.rank != 2:
        raise Unsupported(f"an input of rank {x.rank}")
    kind = node.choice("kernel_type", ("LINEAR", "POLY", "RBF", "SIGMOID"), "LINEAR")
    gamma, offset, degree = node.floats("kernel_params", [0.0, 0.0, 0.0]) or [0.0, 0.0, 0.0]
    if kind == "RBF":
        distances = _squared_distances(ctx, x, vectors)
        return elementwise(ctx, "rbf", lambda d: tirx.exp(d * tirx.const(-gamma, "float32")), distances)
    dots = matmul(ctx, x, ctx.constant(vectors.T.copy()))
    if kind == "LINEAR":
        return dots

    def scaled(v: ir.Expr) -> ir.Expr:
        return v * tirx.const(gamma, "float32") + tirx.const(offset, "float32")

    if kind == "POLY":
        return elementwise(ctx, "poly", lambda v: tirx.pow(scaled(v), tirx.const(degree, "float32")), dots)
    return elementwise(ctx, "sigmoid", lambda v: tirx.tanh(scaled(v)), dots)


def _squared_distances(ctx: Context, x: Value, vectors: np.ndarray) -> Value:
    count, features = vectors.shape

    def build(rows: te.Tensor, points: te.Tensor) -> te.Tensor:
        k = reduce_axis(features, "k")

        def element(i: ir.Expr, j: ir.Expr) -> ir.Expr:
            gap = rows(i, k.var) - points(j, k.var)
            return te.sum(gap * gap, axis=k)

        return compute((x.shape[0], count), element, name="distance")

    return ctx.kernel("squared_distances", build, x, ctx.constant(vectors), dtype="float32")


def _numbers(node: Node, name: str) -> np.ndarray:
    return np.array(node.floats(name), np.float32)

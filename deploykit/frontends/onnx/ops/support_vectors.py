"""ONNX: SVMRegressor, SVMClassifier (`compiler.operators.support_vectors`)."""

from __future__ import annotations

import itertools

import numpy as np
from tvm import ir, tirx

from deploykit.compiler.operators.broadcast import elementwise
from deploykit.compiler.operators.classes import best_label, transformed
from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.errors import Unsupported
from deploykit.compiler.operators.matmul import matmul
from deploykit.compiler.operators.support_vectors import pair_weights, squared_distances_of, votes_of
from deploykit.compiler.operators.value import Value
from deploykit.frontends.onnx.attributes import ML, integer_labels
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator


@operator("SVMRegressor", domain=ML)
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


@operator("SVMClassifier", domain=ML)
def svm_classifier(ctx: Context, node: Node, x: Value) -> tuple[Value, Value]:
    labels = integer_labels(node, "classlabels_ints")
    counts = node.ints("vectors_per_class", [])
    if len(labels) < 3 or not counts or node.has("prob_a"):
        raise Unsupported("two classes, no support vectors, or probabilities")
    vectors = _numbers(node, "support_vectors").reshape(sum(counts), -1)
    similar = _kernel(ctx, node, ctx.cast(x, "float32"), vectors)
    pairs = list(itertools.combinations(range(len(labels)), 2))
    weights = pair_weights(_numbers(node, "coefficients").reshape(len(labels) - 1, -1), counts, pairs)
    rho = ctx.constant(_numbers(node, "rho"))
    scores = elementwise(ctx, "rho", lambda a, b: a + b, matmul(ctx, similar, ctx.constant(weights)), rho)
    votes = votes_of(ctx, scores, pairs, len(labels))
    return best_label(ctx, votes, labels), transformed(ctx, scores, node.string("post_transform", "NONE"))


def _kernel(ctx: Context, node: Node, x: Value, vectors: np.ndarray) -> Value:
    """`[n, vectors]`: how similar each row is to each support vector."""
    if x.rank != 2:
        raise Unsupported(f"an input of rank {x.rank}")
    kind = node.choice("kernel_type", ("LINEAR", "POLY", "RBF", "SIGMOID"), "LINEAR")
    gamma, offset, degree = node.floats("kernel_params", [0.0, 0.0, 0.0]) or [0.0, 0.0, 0.0]
    if kind == "RBF":
        distances = squared_distances_of(ctx, x, vectors)
        return elementwise(ctx, "rbf", lambda d: tirx.exp(d * tirx.const(-gamma, "float32")), distances)
    dots = matmul(ctx, x, ctx.constant(vectors.T.copy()))
    if kind == "LINEAR":
        return dots

    def scaled(v: ir.Expr) -> ir.Expr:
        return v * tirx.const(gamma, "float32") + tirx.const(offset, "float32")

    if kind == "POLY":
        return elementwise(ctx, "poly", lambda v: tirx.pow(scaled(v), tirx.const(degree, "float32")), dots)
    return elementwise(ctx, "sigmoid", lambda v: tirx.tanh(scaled(v)), dots)


def _numbers(node: Node, name: str) -> np.ndarray:
    return np.array(node.floats(name), np.float32)

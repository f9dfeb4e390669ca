"""Linear models of ai.onnx.ml: LinearRegressor, LinearClassifier."""

from __future__ import annotations

import numpy as np

from deploykit.compiler.operators.broadcast import elementwise
from deploykit.compiler.operators.classes import above, best_label, both_scores, transformed
from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.errors import Unsupported
from deploykit.compiler.operators.matmul import matmul
from deploykit.compiler.operators.value import Value
from deploykit.frontends.onnx.attributes import ML, integer_labels
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator


@operator("LinearRegressor", domain=ML)
def linear_regressor(ctx: Context, node: Node, x: Value) -> Value:
    scores = _scores(ctx, node, x, node.int("targets", 1))
    return transformed(ctx, scores, node.string("post_transform", "NONE"))


@operator("LinearClassifier", domain=ML)
def linear_classifier(ctx: Context, node: Node, x: Value) -> tuple[Value, Value]:
    labels = integer_labels(node, "classlabels_ints")
    rows = len(node.floats("intercepts", [])) or len(labels)
    transform = node.string("post_transform", "NONE")
    scores = _scores(ctx, node, x, rows)
    if rows == len(labels):
        return best_label(ctx, scores, labels), transformed(ctx, scores, transform)
    if rows == 1 and len(labels) == 2:
        return above(ctx, scores, 0.0, labels), both_scores(ctx, scores, transform, opposite=False)
    raise Unsupported(f"{rows} scores for {len(labels)} classes")


def _scores(ctx: Context, node: Node, x: Value, rows: int) -> Value:
    """`x @ coefficients.T + intercepts`, of one row for a vector."""
    if x.rank == 1:
        x = ctx.reshape(x, (1, x.shape[0]))
    coefficients = np.array(node.floats("coefficients"), np.float32)
    if x.rank != 2 or coefficients.size % rows:
        raise Unsupported(f"an input of rank {x.rank} and {coefficients.size} coefficients for {rows} scores")
    product = matmul(ctx, ctx.cast(x, "float32"), ctx.constant(coefficients.reshape(rows, -1).T.copy()))
    if not node.has("intercepts"):
        return product
    intercepts = ctx.constant(np.array(node.floats("intercepts"), np.float32))
    return elementwise(ctx, "intercepts", lambda a, b: a + b, product, intercepts)

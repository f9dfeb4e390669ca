"""Linear models: LinearRegressor, LinearClassifier (ai.onnx.ml). Scores are `x @ coefficients.T + intercepts`."""

from __future__ import annotations

import numpy as np

from deploykit.compiler.operators.building.broadcast import elementwise
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.classical.classes import above, best_label, both_scores, transformed
from deploykit.compiler.operators.matmul import matmul


def linear_regressor(
    ctx: Context, x: Value, coefficients: np.ndarray, intercepts: np.ndarray | None, targets: int, transform: str
) -> Value:
    """The scores of the rows of `x`, after `transform` (`classes.transformed`), as `[n, targets]` in float32. `x` is
    `[n, features]`, or one row as a vector. `coefficients` has those of the first target, then those of the second,
    etc."""
    return transformed(ctx, _scores(ctx, x, coefficients, intercepts, targets), transform)


def linear_classifier(
    ctx: Context,
    x: Value,
    coefficients: np.ndarray,
    intercepts: np.ndarray | None,
    labels: np.ndarray,
    transform: str,
) -> tuple[Value, Value]:
    """Labels `[n]` and scores `[n, labels]`. The operands are like those of `linear_regressor`. One of two classes may
    have no coefficients; the scores are then those that `classes` describes.

    Raises `Unsupported` if the number of intercepts, if there are any, fits neither case."""
    count = len(labels) if intercepts is None or not len(intercepts) else len(intercepts)
    scores = _scores(ctx, x, coefficients, intercepts, count)
    if count == len(labels):
        return best_label(ctx, scores, labels), transformed(ctx, scores, transform)
    if count == 1 and len(labels) == 2:
        return above(ctx, scores, 0.0, labels), both_scores(ctx, scores, transform, opposite=False)
    raise Unsupported(f"{count} scores for {len(labels)} classes")


def _scores(ctx: Context, x: Value, coefficients: np.ndarray, intercepts: np.ndarray | None, count: int) -> Value:
    if x.rank == 1:
        x = ctx.reshape(x, (1, x.shape[0]))
    if x.rank != 2 or coefficients.size % count:
        raise Unsupported(f"an input of rank {x.rank} and {coefficients.size} coefficients for {count} scores")
    product = matmul(ctx, ctx.cast(x, "float32"), ctx.constant(coefficients.reshape(count, -1).T.copy()))
    if intercepts is None:
        return product
    return elementwise(ctx, "intercepts", lambda a, b: a + b, product, ctx.constant(intercepts))

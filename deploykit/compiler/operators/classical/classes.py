"""What classifiers of ai.onnx.ml do with scores: the transform of a row, and the label of a class.

ONNX does not define the scores of a classifier of two classes with one score `s`. Here they are those of ONNX Runtime:
`1 - s` and `s` (or `-s` and `s`, depending on the classifier), or their logistics.
"""

from __future__ import annotations

import numpy as np
from tvm import ir, tirx

from deploykit.compiler.operators.building.broadcast import elementwise
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.reduce_axes import MAXIMUM, SUM, reduce_axes
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.indexing import pick
from deploykit.compiler.operators.joining import concat
from deploykit.compiler.operators.reductions import extreme_positions
from deploykit.compiler.operators.softmax import softmax
from deploykit.compiler.operators.strings.spans import string_of, text_of


def transformed(ctx: Context, scores: Value, transform: str) -> Value:
    """Scores `[n, classes]` after a `post_transform`."""
    if transform == "NONE":
        return scores
    if transform == "LOGISTIC":
        return elementwise(ctx, "logistic", _logistic, scores)
    if transform == "SOFTMAX":
        return softmax(ctx, scores, scores.rank - 1)
    if transform == "SOFTMAX_ZERO":
        return _softmax_of_nonzero(ctx, scores)
    raise Unsupported(f"post_transform {transform}")


def best_label(ctx: Context, scores: Value, labels: np.ndarray) -> Value:
    """The label of the largest score of each row; of equal scores, the first."""
    positions = extreme_positions(ctx, scores, 1, largest=True)
    return labels_at(ctx, ctx.reshape(positions, (scores.shape[0],)), labels)


def above(ctx: Context, score: Value, limit: float, labels: np.ndarray) -> Value:
    """The second label if a score `[n, 1]` is above `limit`, else the first."""
    flat = ctx.reshape(score, (score.shape[0],))

    def pick(v: ir.Expr) -> ir.Expr:
        over = v > tirx.const(limit, str(v.ty.dtype))
        return tirx.Select(over, tirx.const(1, "int64"), tirx.const(0, "int64"))

    return labels_at(ctx, elementwise(ctx, "above", pick, flat, dtype="int64"), labels)


def both_scores(ctx: Context, score: Value, transform: str, *, opposite: bool) -> Value:
    """Scores `[n, 2]` from those `[n, 1]` of the second class. `opposite`: the first class has the negative score."""
    if transform == "LOGISTIC":
        first = elementwise(ctx, "logistic", lambda v: _logistic(-v), score)
        second = elementwise(ctx, "logistic", _logistic, score)
        return concat(ctx, [first, second], 1)
    if transform not in {"NONE", "SOFTMAX", "SOFTMAX_ZERO"}:
        raise Unsupported(f"post_transform {transform}")
    one = 0.0 if opposite else 1.0
    first = elementwise(ctx, "complement", lambda v: tirx.const(one, str(v.ty.dtype)) - v, score)
    return concat(ctx, [first, score], 1)


def labels_at(ctx: Context, positions: Value, labels: np.ndarray) -> Value:
    """The labels, integers or strings, at `positions`, which are within `labels`."""
    if labels.tolist() == list(range(len(labels))):
        return positions
    table = ctx.constant(labels)
    if labels.dtype != object:
        return pick(ctx, table, positions, 0)
    text = text_of(ctx, table)
    return string_of(pick(ctx, text.spans, positions, 0), text.data)


def _logistic(v: ir.Expr) -> ir.Expr:
    return tirx.const(1, str(v.ty.dtype)) / (tirx.exp(-v) + 1.0)


def _softmax_of_nonzero(ctx: Context, scores: Value) -> Value:
    """Softmax over the scores of a row that are not 0. Scores of 0 stay 0."""
    dtype = scores.dtype
    zero = tirx.const(0, dtype)
    peak = reduce_axes(ctx, "peak", [scores], [scores.rank - 1], MAXIMUM, dtype=dtype)

    def power(v: ir.Expr, top: ir.Expr) -> ir.Expr:
        return tirx.Select(tirx.abs(v) > tirx.const(1e-7, dtype), tirx.exp(v - top), zero)

    powers = elementwise(ctx, "powers", power, scores, peak)
    total = reduce_axes(ctx, "total", [powers], [scores.rank - 1], SUM, dtype=dtype)
    return elementwise(
        ctx,
        "share",
        lambda p, t: tirx.Select(tirx.EQ(t, zero), zero, p / tirx.max(t, tirx.const(1e-30, dtype))),
        powers,
        total,
    )

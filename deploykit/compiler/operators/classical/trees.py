"""Ensembles of decision trees: TreeEnsemble, TreeEnsembleRegressor, TreeEnsembleClassifier (ai.onnx.ml).

An ensemble is a `Forest` of constant tables, which one kernel walks for each row and tree. For a missing value (NaN), a
node names the branch to take. The votes of leaves for a target are summed or averaged, or the least or largest vote is
taken.

If leaves vote for only one of two classes, the score is that of the second class. If no vote is negative, it is a
probability and is compared with one half. ONNX does not define this; it is the behaviour of ONNX Runtime.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Literal, TypeAlias

import numpy as np
from tvm import ir, te, tirx

from deploykit.compiler.operators.building.broadcast import elementwise
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.imperative import Array, Code, imperative
from deploykit.compiler.operators.building.integers import less
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.classical import classes
from deploykit.compiler.operators.classical.forest import MEMBER, MODES, Forest
from deploykit.compiler.operators.slicing import Piece, take
from deploykit.compiler.tir.extrema import maximum, minimum

Aggregate: TypeAlias = Literal["AVERAGE", "SUM", "MIN", "MAX"]

_COMPARE: Mapping[str, Callable[[ir.Expr, ir.Expr], ir.Expr]] = {
    "BRANCH_LEQ": tirx.LE,
    "BRANCH_LT": tirx.LT,
    "BRANCH_GTE": tirx.GE,
    "BRANCH_GT": tirx.GT,
    "BRANCH_EQ": tirx.EQ,
    "BRANCH_NEQ": tirx.NE,
}


def tree_ensemble(
    ctx: Context,
    x: Value,
    forest: Forest,
    targets: int,
    aggregate: Aggregate,
    base: np.ndarray | None = None,
    transform: str = "NONE",
) -> Value:
    """Predictions `[n, targets]`, in the dtype of the forest: the votes for each target of the leaves that the rows of
    `x`, `[n, features]`, reach, plus `base`, after `transform` (`classes.transformed`)."""
    return classes.transformed(ctx, _with_base(ctx, _predict(ctx, x, forest, targets, aggregate), base), transform)


def tree_classifier(
    ctx: Context, x: Value, forest: Forest, labels: np.ndarray, base: np.ndarray | None, transform: str
) -> tuple[Value, Value]:
    """Labels `[n]` of the rows of `x`, `[n, features]`, and scores `[n, labels]` in float32 after `transform`. Scores
    are the sums of the votes for each class, plus `base`.

    Raises `Unsupported` where runtimes differ: two classes with base values; two classes with votes for both and
    integer labels other than 0 and 1; negative votes that leave classes out."""
    voted = set(forest.target.tolist())
    bases = 0 if base is None else len(base)
    if len(labels) == 2 and voted == {0} and bases <= 1:
        score = _scores(ctx, x, forest, 1, base)
        probability = bool((forest.weight >= 0).all())
        label = classes.above(ctx, score, 0.5 if probability else 0.0, labels)
        return label, classes.both_scores(ctx, score, transform, opposite=not probability)
    plain = labels.dtype == object or labels.tolist() == [0, 1]
    if len(labels) == 2 and not (voted == {0, 1} and plain and not bases):
        raise Unsupported("two classes with such votes and base values")
    if len(labels) > 2 and not bases and (forest.weight < 0).any() and not _complete(forest, len(labels)):
        raise Unsupported("negative votes of leaves that leave classes out")
    if bases not in {0, len(labels)}:
        raise Unsupported(f"{bases} base values for {len(labels)} classes")
    scores = _scores(ctx, x, forest, len(labels), base)
    label = classes.best_label(ctx, scores, labels) if len(labels) > 2 else _second_if_positive(ctx, scores, labels)
    return label, classes.transformed(ctx, scores, transform)


def _scores(ctx: Context, x: Value, forest: Forest, targets: int, base: np.ndarray | None) -> Value:
    return ctx.cast(tree_ensemble(ctx, x, forest, targets, "SUM", base), "float32")


def _with_base(ctx: Context, scores: Value, base: np.ndarray | None) -> Value:
    if base is None:
        return scores
    return elementwise(ctx, "base_values", lambda a, b: a + b, scores, ctx.constant(base, scores.dtype))


def _second_if_positive(ctx: Context, scores: Value, labels: np.ndarray) -> Value:
    """The label that ONNX Runtime gives for two classes with one score each: the second if its score is above 0."""
    second = take(ctx, scores, [Piece(0, scores.shape[0]), Piece(1, 1)])
    return classes.above(ctx, second, 0.0, labels)


def _complete(forest: Forest, count: int) -> bool:
    """Whether every row gets a vote for each of `count` classes, whatever path it takes through the trees."""
    sure: set[int] = set()
    for root in forest.roots:
        reached, pending = [], [int(root)]
        while pending:
            at = pending.pop()
            if at < 0:
                votes = forest.target[forest.first_vote[-1 - at] : forest.first_vote[-at]]
                reached.append(set(votes.tolist()))
            else:
                pending += [int(forest.yes[at]), int(forest.no[at])]
        sure |= set.intersection(*reached)
    return sure >= set(range(count))


def _predict(ctx: Context, x: Value, forest: Forest, targets: int, aggregate: Aggregate) -> Value:
    if x.rank != 2:
        raise Unsupported(f"an input of rank {x.rank}")
    dtype = str(forest.split.dtype)
    rows, features = x.shape
    if min(forest.feature, default=0) < 0 or any(not 0 <= target < targets for target in forest.target):
        raise Unsupported(f"a feature below 0, or a vote that is for none of {targets} targets")
    most = int(max(forest.feature, default=-1))
    ctx.require(less(most, features), "the trees read feature {}, and the rows have {} features", most, features)
    trees = len(forest.roots)
    tables = [getattr(forest, field.name) for field in fields(Forest)]
    operands = [ctx.constant(t if t.size else np.zeros(1, t.dtype)) for t in tables]
    start = {"MIN": float(np.finfo(dtype).max), "MAX": float(np.finfo(dtype).min)}.get(aggregate, 0.0)
    combine = {"MIN": minimum, "MAX": maximum}.get(aggregate, lambda a, b: a + b)

    def write(code: Code, data: Array, *arrays: Array) -> None:
        table = {field.name: array for field, array in zip(fields(Forest), arrays, strict=False)}
        result = arrays[-1]
        with code.loop("row", rows) as row:
            with code.loop("k", targets) as k:
                result[row, k] = start
            with code.loop("tree", trees) as tree:
                at = code.cell("at", table["roots"][tree])
                with code.repeat(at.value >= 0):
                    value = code.cell("value", data[row, table["feature"][at.value]])
                    follow = code.cell("follow", _decide(code, forest, table, at.value, value.value))
                    at.value = tirx.Select(follow.value, table["yes"][at.value], table["no"][at.value])
                first = table["first_vote"][-1 - at.value]
                with code.loop("vote", table["first_vote"][-at.value] - first, first) as vote:
                    k = table["target"][vote]
                    result[row, k] = combine(result[row, k], table["weight"][vote])
            if aggregate == "AVERAGE":
                with code.loop("k", targets) as k:
                    result[row, k] = result[row, k] / float(trees)

    def build(*tensors: te.Tensor) -> list[te.Tensor]:
        return imperative("trees", tensors, [((rows, targets), dtype)], write)

    return ctx.kernel("trees", build, ctx.cast(x, dtype), *operands, dtype=dtype)


def _decide(code: Code, forest: Forest, table: Mapping[str, Array], at: ir.Expr, value: ir.Expr) -> ir.Expr:
    """Whether a row takes the true branch of a node. Only modes that occur in the forest are tested."""
    used = [MODES[i] for i in np.unique(forest.mode)]
    decision = tirx.const(value=False, dtype="bool")
    if MEMBER in used:
        found = code.cell("found", decision)
        first = table["first_member"][at]
        with code.loop("m", table["first_member"][at + 1] - first, first) as m, code.when(value == table["members"][m]):
            found.value = True
        decision = found.value
    for name in used:
        if name != MEMBER:
            holds = _COMPARE[name](value, table["split"][at])
            alone = len(used) == 1
            decision = holds if alone else tirx.Select(table["mode"][at] == MODES.index(name), holds, decision)
    if not forest.missing.any():
        return decision
    return tirx.any(decision, tirx.all(table["missing"][at] != 0, tirx.isnan(value)))

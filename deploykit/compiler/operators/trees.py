"""Ensembles of decision trees: TreeEnsemble, TreeEnsembleRegressor, TreeEnsembleClassifier (ai.onnx.ml).

All spellings become one `Forest` of constant tables, which one kernel walks for each row and tree. A missing value
(NaN) takes the branch that the node names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields

import numpy as np
from tvm import ir, te, tirx

from deploykit.compiler.operators import classes
from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.errors import Unsupported
from deploykit.compiler.operators.forest import MEMBER, MODES, Forest
from deploykit.compiler.operators.imperative import Array, Code, imperative
from deploykit.compiler.operators.integers import less
from deploykit.compiler.operators.slicing import Piece, take
from deploykit.compiler.operators.value import Value

COMPARE: Mapping[str, Callable[[ir.Expr, ir.Expr], ir.Expr]] = {
    "BRANCH_LEQ": tirx.LE,
    "BRANCH_LT": tirx.LT,
    "BRANCH_GTE": tirx.GE,
    "BRANCH_GT": tirx.GT,
    "BRANCH_EQ": tirx.EQ,
    "BRANCH_NEQ": tirx.NE,
}


def branches(places: Sequence[int], leaf: Sequence[int]) -> np.ndarray:
    if min(places, default=0) < 0:
        raise Unsupported("a branch to a node or leaf below 0")
    return np.where(np.array(leaf) != 0, -1 - np.array(places), np.array(places))


def second_is_positive(ctx: Context, scores: Value) -> Value:
    """What ONNX Runtime answers for two classes with a score each: 1 where the second is above 0."""
    second = take(ctx, scores, [Piece(0, scores.shape[0]), Piece(1, 1)])
    return classes.above(ctx, second, 0.0, [0, 1])


def complete(forest: Forest, count: int) -> bool:
    """Whether a row is sure to get a vote for each of `count` classes: from the smallest tree that any row can meet."""
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


def predict(ctx: Context, x: Value, forest: Forest, targets: int, aggregate: str) -> Value:
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
    combine = {"MIN": tirx.min, "MAX": tirx.max}.get(aggregate, lambda a, b: a + b)

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
    """Whether a row takes the true branch of a node; only modes that occur are tested."""
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
            holds = COMPARE[name](value, table["split"][at])
            alone = len(used) == 1
            decision = holds if alone else tirx.Select(table["mode"][at] == MODES.index(name), holds, decision)
    if not forest.missing.any():
        return decision
    return tirx.any(decision, tirx.all(table["missing"][at] != 0, tirx.isnan(value)))

"""Ensembles of decision trees: TreeEnsemble, TreeEnsembleRegressor, TreeEnsembleClassifier (ai.onnx.ml).

All spellings become one `Forest` of constant tables, which one kernel walks for each row and tree. A missing value
(NaN) takes the branch that the node names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields

import numpy as np
from tvm import ir, te, tirx

from deploykit.compiler.dtypes import logical_dtype
from deploykit.compiler.operators.broadcast import elementwise
from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.errors import Unsupported
from deploykit.compiler.operators.forest import MEMBER, MODES, Forest
from deploykit.compiler.operators.imperative import Array, Code, imperative
from deploykit.compiler.operators.integers import less
from deploykit.compiler.operators.value import Value
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.ops import classes
from deploykit.frontends.onnx.ops.classes import DOMAIN
from deploykit.frontends.onnx.ops.slicing import Piece, take
from deploykit.frontends.onnx.registry import operator

AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")

COMPARE: Mapping[str, Callable[[ir.Expr, ir.Expr], ir.Expr]] = {
    "BRANCH_LEQ": tirx.LE,
    "BRANCH_LT": tirx.LT,
    "BRANCH_GTE": tirx.GE,
    "BRANCH_GT": tirx.GT,
    "BRANCH_EQ": tirx.EQ,
    "BRANCH_NEQ": tirx.NE,
}


@operator("TreeEnsemble", domain=DOMAIN, since=5)
def tree_ensemble(ctx: Context, node: Node, x: Value) -> Value:
    split, modes = node.tensor("nodes_splits"), node.tensor("nodes_modes").astype(np.int64)
    leaves = node.tensor("leaf_weights")
    if not x.dtype == logical_dtype(split.dtype) == logical_dtype(leaves.dtype):
        raise Unsupported(
            f"rows of {x.dtype}, splits of {split.dtype} and weights of {leaves.dtype}; all must be alike"
        )
    members = node.tensor("membership_values") if node.has("membership_values") else split[:0]
    counts = np.diff(np.flatnonzero(np.isnan(members)), prepend=-1) - 1
    sizes = np.zeros(len(modes), np.int64)
    sizes[modes == MODES.index(MEMBER)] = counts
    yes = _branches(node.ints("nodes_truenodeids"), node.ints("nodes_trueleafs"))
    no = _branches(node.ints("nodes_falsenodeids"), node.ints("nodes_falseleafs"))
    forest = Forest(
        feature=np.array(node.ints("nodes_featureids")),
        mode=modes,
        split=split,
        missing=np.array(node.ints("nodes_missing_value_tracks_true", [0] * len(modes))),
        yes=yes,
        no=no,
        first_member=np.cumsum([0, *sizes]),
        members=members[~np.isnan(members)],
        roots=np.array(node.ints("tree_roots")),
        first_vote=np.arange(len(leaves) + 1),
        target=np.array(node.ints("leaf_targetids")),
        weight=leaves,
    )
    aggregate = node.numbered("aggregate_function", AGGREGATES, 1)
    result = _predict(ctx, x, forest, node.int("n_targets"), aggregate)
    return classes.transformed(ctx, result, node.numbered("post_transform", TRANSFORMS, 0))


def _branches(places: Sequence[int], leaf: Sequence[int]) -> np.ndarray:
    if min(places, default=0) < 0:
        raise Unsupported("a branch to a node or leaf below 0")
    return np.where(np.array(leaf) != 0, -1 - np.array(places), np.array(places))


@operator("TreeEnsembleRegressor", domain=DOMAIN)
def tree_ensemble_regressor(ctx: Context, node: Node, x: Value) -> Value:
    forest = _forest(node, "target")
    result = _predict(ctx, x, forest, node.int("n_targets"), node.choice("aggregate_function", AGGREGATES, "SUM"))
    result = _with_base(ctx, node, result)
    return ctx.cast(classes.transformed(ctx, result, node.string("post_transform", "NONE")), "float32")


@operator("TreeEnsembleClassifier", domain=DOMAIN)
def tree_ensemble_classifier(ctx: Context, node: Node, x: Value) -> tuple[Value, Value]:
    """Labels and scores. Of two classes whose leaves vote for one only, that score is the second class's; it is a
    probability, to be compared with a half, when no vote is negative."""
    labels = classes.integer_labels(node, "classlabels_int64s")
    forest = _forest(node, "class")
    transform = node.string("post_transform", "NONE")
    voted = set(forest.target.tolist())
    bases = len(_numbers(node, "base_values")) if _has_base(node) else 0
    if len(labels) == 2 and voted == {0} and bases <= 1:
        score = ctx.cast(_with_base(ctx, node, _predict(ctx, x, forest, 1, "SUM")), "float32")
        probability = bool((forest.weight >= 0).all())
        label = classes.above(ctx, score, 0.5 if probability else 0.0, labels)
        return label, classes.both_scores(ctx, score, transform, opposite=not probability)
    if len(labels) == 2 and not (voted == {0, 1} and labels == [0, 1] and not bases):
        raise Unsupported("two classes with such votes and base values")
    if len(labels) > 2 and not bases and (forest.weight < 0).any() and not _complete(forest, len(labels)):
        raise Unsupported("negative votes of leaves that leave classes out")
    if bases not in {0, len(labels)}:
        raise Unsupported(f"{bases} base values for {len(labels)} classes")
    scores = ctx.cast(_with_base(ctx, node, _predict(ctx, x, forest, len(labels), "SUM")), "float32")
    label = classes.best_label(ctx, scores, labels) if len(labels) > 2 else _second_is_positive(ctx, scores)
    return label, classes.transformed(ctx, scores, transform)


def _second_is_positive(ctx: Context, scores: Value) -> Value:
    """What ONNX Runtime answers for two classes with a score each: 1 where the second is above 0."""
    second = take(ctx, scores, [Piece(0, scores.shape[0]), Piece(1, 1)])
    return classes.above(ctx, second, 0.0, [0, 1])


def _complete(forest: Forest, count: int) -> bool:
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


def _forest(node: Node, voters: str) -> Forest:
    """The ensemble of an operator of before TreeEnsemble. `voters`: how the attributes of votes begin."""
    keys = list(zip(node.ints("nodes_treeids"), node.ints("nodes_nodeids"), strict=True))
    names = node.strings("nodes_modes")
    interior = {key: i for i, key in enumerate(k for k, name in zip(keys, names, strict=True) if name != "LEAF")}
    leaves = {key: i for i, key in enumerate(k for k, name in zip(keys, names, strict=True) if name == "LEAF")}
    code = interior | {key: -1 - i for key, i in leaves.items()}
    inner = [i for i, name in enumerate(names) if name != "LEAF"]
    sides = {side: node.ints(f"nodes_{side}nodeids") for side in ("true", "false")}
    ends = {side: [code[keys[i][0], places[i]] for i in inner] for side, places in sides.items()}
    reached = {*ends["true"], *ends["false"]}
    votes = _votes(node, leaves, voters)
    order = [i for v in votes for i in v]
    return Forest(
        feature=np.array(node.ints("nodes_featureids"))[inner],
        mode=np.array([MODES.index(names[i]) for i in inner], np.int64),
        split=_numbers(node, "nodes_values")[inner],
        missing=np.array(node.ints("nodes_missing_value_tracks_true", [0] * len(names)))[inner],
        yes=np.array(ends["true"], np.int64),
        no=np.array(ends["false"], np.int64),
        first_member=np.zeros(len(inner) + 1, np.int64),
        members=_numbers(node, "nodes_values")[:0],
        roots=np.array([code[key] for key in keys if code[key] not in reached]),
        first_vote=np.cumsum([0, *(len(v) for v in votes)]),
        target=np.array(node.ints(f"{voters}_ids"))[order],
        weight=_numbers(node, f"{voters}_weights")[order],
    )


def _votes(node: Node, leaves: Mapping[tuple[int, int], int], voters: str) -> list[list[int]]:
    """For each leaf the positions of its votes."""
    votes: list[list[int]] = [[] for _ in leaves]
    for i, key in enumerate(zip(node.ints(f"{voters}_treeids"), node.ints(f"{voters}_nodeids"), strict=True)):
        if key in leaves:
            votes[leaves[key]].append(i)
    return votes


def _has_base(node: Node) -> bool:
    return node.has("base_values") or node.has("base_values_as_tensor")


def _with_base(ctx: Context, node: Node, scores: Value) -> Value:
    if not _has_base(node):
        return scores
    base = ctx.constant(_numbers(node, "base_values"), scores.dtype)
    return elementwise(ctx, "base_values", lambda a, b: a + b, scores, base)


def _numbers(node: Node, name: str) -> np.ndarray:
    """A float attribute, or its double form."""
    given = f"{name}_as_tensor"
    return node.tensor(given) if node.has(given) else np.array(node.floats(name), np.float32)


def _predict(ctx: Context, x: Value, forest: Forest, targets: int, aggregate: str) -> Value:
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

"""Imports the ONNX operators TreeEnsemble, TreeEnsembleRegressor, TreeEnsembleClassifier
(`compiler.operators.classical.trees`).

The attributes of TreeEnsemble differ from those of the two operators that it replaces.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from deploykit.compiler.dtypes import logical_name
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.classical import trees
from deploykit.compiler.operators.classical.forest import MEMBER, MODES, Forest
from deploykit.frontends.onnx.attributes import ML, class_labels
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator

_AGGREGATES: Mapping[str, trees.Aggregate] = {"AVERAGE": "AVERAGE", "SUM": "SUM", "MIN": "MIN", "MAX": "MAX"}

_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


@operator("TreeEnsemble", domain=ML, since=5)
def tree_ensemble(ctx: Context, node: Node, x: Value) -> Value:
    split, modes = node.tensor("nodes_splits"), node.tensor("nodes_modes").astype(np.int64)
    leaves = node.tensor("leaf_weights")
    if not x.dtype == logical_name(split.dtype) == logical_name(leaves.dtype):
        raise Unsupported(
            f"rows of {x.dtype}, splits of {split.dtype} and weights of {leaves.dtype}; all must have one dtype"
        )
    members = node.tensor("membership_values") if node.has("membership_values") else split[:0]
    counts = np.diff(np.flatnonzero(np.isnan(members)), prepend=-1) - 1
    is_set = modes == MODES.index(MEMBER)
    if len(counts) != is_set.sum():
        raise Unsupported(f"membership_values has {len(counts)} sets that end with NaN, for {is_set.sum()} nodes")
    sizes = np.zeros(len(modes), np.int64)
    sizes[is_set] = counts
    forest = Forest(
        feature=np.array(node.ints("nodes_featureids")),
        mode=modes,
        split=split,
        missing=np.array(node.ints("nodes_missing_value_tracks_true", [0] * len(modes))),
        yes=_branches(node.ints("nodes_truenodeids"), node.ints("nodes_trueleafs")),
        no=_branches(node.ints("nodes_falsenodeids"), node.ints("nodes_falseleafs")),
        first_member=np.cumsum([0, *sizes]),
        members=members[~np.isnan(members)],
        roots=np.array(node.ints("tree_roots")),
        first_vote=np.arange(len(leaves) + 1),
        target=np.array(node.ints("leaf_targetids")),
        weight=leaves,
    )
    aggregate = node.numbered("aggregate_function", tuple(_AGGREGATES.values()), 1)
    transform = node.numbered("post_transform", _TRANSFORMS, 0)
    return trees.tree_ensemble(ctx, x, forest, node.int("n_targets"), aggregate, transform=transform)


@operator("TreeEnsembleRegressor", domain=ML)
def tree_ensemble_regressor(ctx: Context, node: Node, x: Value) -> Value:
    forest, transform = _forest(node, "target"), node.string("post_transform", "NONE")
    aggregate = _AGGREGATES[node.choice("aggregate_function", _AGGREGATES, "SUM")]
    result = trees.tree_ensemble(ctx, x, forest, node.int("n_targets"), aggregate, _base(node), transform)
    return ctx.cast(result, "float32")


@operator("TreeEnsembleClassifier", domain=ML)
def tree_ensemble_classifier(ctx: Context, node: Node, x: Value) -> tuple[Value, Value]:
    labels = class_labels(node, "classlabels_int64s")
    forest, transform = _forest(node, "class"), node.string("post_transform", "NONE")
    return trees.tree_classifier(ctx, x, forest, labels, _base(node), transform)


def _branches(places: Sequence[int], leaf: Sequence[int]) -> np.ndarray:
    """Encode branches: the index `n` of a node as `n`, and that of a leaf (where `leaf` is not 0) as `-1 - n`."""
    if min(places, default=0) < 0:
        raise Unsupported("a branch to a node or leaf below 0")
    return np.where(np.array(leaf) != 0, -1 - np.array(places), np.array(places))


def _forest(node: Node, voters: str) -> Forest:
    """The forest of TreeEnsembleRegressor or -Classifier. `voters` is the prefix of the attributes for votes."""
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
    """The indices of the votes of each leaf."""
    votes: list[list[int]] = [[] for _ in leaves]
    for i, key in enumerate(zip(node.ints(f"{voters}_treeids"), node.ints(f"{voters}_nodeids"), strict=True)):
        if key in leaves:
            votes[leaves[key]].append(i)
    return votes


def _base(node: Node) -> np.ndarray | None:
    given = node.has("base_values") or node.has("base_values_as_tensor")
    return _numbers(node, "base_values") if given else None


def _numbers(node: Node, name: str) -> np.ndarray:
    """A float attribute, or its tensor form, which may be double."""
    given = f"{name}_as_tensor"
    return node.tensor(given) if node.has(given) else np.array(node.floats(name), np.float32)

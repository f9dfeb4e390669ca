"""ai.onnx.ml: trees and encoders; n-gram counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import deploykit
from deploykit import ShapeError, UnsupportedModelError
from tests.conformance.suite import cases
from tests.frontends.onnx.harness import Check, by_onnxruntime, numbers


def model(node: onnx.NodeProto, inputs: str, output: int, shape: list[str]) -> onnx.ModelProto:
    x = helper.make_tensor_value_info("x", getattr(TensorProto, inputs), ["n", "m"])
    y = helper.make_tensor_value_info("y", output, shape)
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 4)]
    return helper.make_model(helper.make_graph([node], "model", [x], [y]), opset_imports=imports, ir_version=10)


@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_regression_trees(check: Check, aggregate: str) -> None:
    """A tree of depth 2 and a stump, with two targets. The ids of nodes are in any order."""
    node = helper.make_node(
        "TreeEnsembleRegressor",
        ["x"],
        ["y"],
        domain="ai.onnx.ml",
        n_targets=2,
        aggregate_function=aggregate,
        base_values=[0.5, -0.5],
        nodes_treeids=[0, 0, 0, 0, 0, 1, 1, 1],
        nodes_nodeids=[0, 1, 2, 3, 4, 0, 1, 2],
        nodes_featureids=[1, 0, 0, 0, 0, 2, 0, 0],
        nodes_modes=["BRANCH_LEQ", "BRANCH_GT", "LEAF", "LEAF", "LEAF", "BRANCH_LT", "LEAF", "LEAF"],
        nodes_values=[0.0, 1.0, 0.0, 0.0, 0.0, -1.0, 0.0, 0.0],
        nodes_truenodeids=[1, 2, 0, 0, 0, 1, 0, 0],
        nodes_falsenodeids=[4, 3, 0, 0, 0, 2, 0, 0],
        target_treeids=[0, 0, 0, 0, 1, 1, 1],
        target_nodeids=[2, 3, 4, 4, 1, 2, 2],
        target_ids=[0, 1, 0, 1, 1, 0, 1],
        target_weights=[1.0, 2.0, 3.0, -4.0, 5.0, 6.0, 7.0],
    )
    check(model(node, "FLOAT", TensorProto.FLOAT, ["n", "k"]), {"x": numbers(9, 3)}, {"x": numbers(1, 3)})


STUMPS: dict[str, Any] = {
    "n_targets": 2,
    "tree_roots": [0, 1],
    "nodes_featureids": [0, 2],
    "nodes_modes": np.array([0, 4], np.uint8),
    "nodes_splits": np.array([0.5, 1], np.float32),
    "nodes_truenodeids": [0, 1],
    "nodes_trueleafs": [1, 1],
    "nodes_falsenodeids": [1, 0],
    "nodes_falseleafs": [1, 1],
    "leaf_targetids": [0, 1],
    "leaf_weights": np.array([2, 3], np.float32),
}


def stumps(**changes: object) -> onnx.ModelProto:
    """Two trees of one node each, which share their leaves."""
    attributes = {
        name: onnx.numpy_helper.from_array(given) if isinstance(given, np.ndarray) else given
        for name, given in (STUMPS | changes).items()
    }
    node = helper.make_node("TreeEnsemble", ["x"], ["y"], domain="ai.onnx.ml", **attributes)
    built = model(node, "FLOAT", TensorProto.FLOAT, ["n", "k"])
    built.opset_import[1].version = 5
    return built


def test_trees_that_share_leaves(check: Check) -> None:
    x = np.float32([[0, 0, 1], [2, 0, 0]])
    check(stumps(), {"x": x}, expected=[[np.float32([[2, 3], [2, 3]])]])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"nodes_truenodeids": [9, 1]}, "node or leaf that no tree has"),
        ({"nodes_truenodeids": [-1, 1]}, "node or leaf below 0"),
        ({"tree_roots": [0, 2]}, "node or leaf that no tree has"),
        ({"nodes_trueleafs": [0, 1]}, "a node with two parents"),
        (
            {"nodes_trueleafs": [0, 1], "nodes_truenodeids": [1, 1], "nodes_falseleafs": [1, 0]},
            "a node with two parents",
        ),
        ({"nodes_missing_value_tracks_true": [1]}, "lists of nodes have different lengths"),
        ({"leaf_targetids": [0]}, "lists of leaves have different lengths"),
        ({"leaf_targetids": [0, 2**33]}, "none of 2 targets"),
        ({"nodes_featureids": [-1, 0]}, "a feature below 0"),
        ({"nodes_modes": np.array([0, 7], np.uint8)}, "a mode of a node"),
        ({"nodes_splits": np.array([0.5, 1])}, "rows of float32, splits of float64"),
        ({"aggregate_function": -1}, "aggregate_function is -1; it must be from 0 to 3"),
        ({"post_transform": 5}, "post_transform is 5"),
    ],
)
def test_tables_that_are_not_trees_are_refused(changes: dict[str, object], words: str) -> None:
    with pytest.raises(UnsupportedModelError, match=words):
        deploykit.load(stumps(**changes))


def test_rows_that_lack_a_feature_are_refused(check: Check) -> None:
    with check.runtime.session(stumps()) as session, pytest.raises(ShapeError, match="read feature 2"):
        session(x=numbers(3, 2))


def test_label_encoder(check: Check) -> None:
    """Among equal keys, the last one counts. NaN is a key."""
    node = helper.make_node(
        "LabelEncoder",
        ["x"],
        ["y"],
        domain="ai.onnx.ml",
        keys_floats=[2.0, -1.0, float("nan"), 2.0],
        values_int64s=[5, 6, 7, 8],
        default_int64=-3,
    )
    x = np.float32([[2, np.nan, -1], [0, 9, -5]])
    check(
        model(node, "FLOAT", TensorProto.INT64, ["n", "m"]),
        {"x": x},
        {"x": x[1:, :1].copy()},
        expected=[[np.array([[8, 7, 6], [-3, -3, -3]])], [np.array([[-3]])]],
    )


NGRAMS: dict[str, Any] = {
    "mode": "TF",
    "min_gram_length": 1,
    "max_gram_length": 2,
    "max_skip_count": 2,
    "ngram_counts": [0, 2],
    "ngram_indexes": [2, 0, 1, 3],
    "pool_int64s": [2, 3, 5, 4, 2, 2],
    "weights": [0.5, 2.0, 3.0, 4.0],
}


def ngrams(**changes: object) -> onnx.ModelProto:
    node = helper.make_node("TfIdfVectorizer", ["x"], ["y"], **(NGRAMS | changes))
    return model(node, "INT64", TensorProto.FLOAT, ["n", "k"])


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
def test_ngrams(check: Check, mode: str) -> None:
    """The reference implementation takes weights for those of columns; the standard, and ONNX Runtime, do not."""
    x = np.int64([[2, 5, 2, 4, 2], [3, 3, 3, 3, 3]])
    runs = [{"x": x}, {"x": x[:1, :1].copy()}]
    check(ngrams(mode=mode), *runs, expected=by_onnxruntime(ngrams(mode=mode), *runs))


def test_more_skips_than_items(check: Check) -> None:
    x = np.int64([[2, 5, 2, 4, 2], [5, 3, 3, 3, 4]])
    check(ngrams(max_skip_count=2**63 - 1), {"x": x}, expected=[[np.float32([[0, 1, 3, 3], [3, 1, 0, 0]])]])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"ngram_indexes": [2, 0, 1]}, "for each n-gram of the pool"),
        ({"ngram_indexes": [2, 0, 1, -1]}, "for each n-gram of the pool"),
        ({"ngram_counts": [0, 9]}, "no ascending positions in a pool of 6 items"),
        ({"weights": [1.0]}, "1 weights for 4 n-grams"),
        ({"max_gram_length": 3}, "n-grams of 1 to 3 items and a pool of those of 1 to 2"),
        ({"min_gram_length": 0}, "n-grams of 0 to 2 items"),
        ({"max_skip_count": -2}, "max_skip_count is -2"),
    ],
)
def test_ngrams_that_do_not_fit_their_pool_are_refused(changes: dict[str, object], words: str) -> None:
    with pytest.raises(UnsupportedModelError, match=words):
        deploykit.load(ngrams(**changes))


def test_sets_that_do_not_fit_their_nodes_are_refused() -> None:
    changed = cases()["test_ai_onnx_ml_tree_ensemble_set_membership"].model
    assert changed is not None
    (node,) = changed.graph.node
    kept = [attribute for attribute in node.attribute if attribute.name != "membership_values"]
    del node.attribute[:]
    node.attribute.extend(kept)
    with pytest.raises(UnsupportedModelError, match="membership_values has 0 sets that end with NaN, for 2 nodes"):
        deploykit.load(changed)

"""ai.onnx.ml: trees and encoders; n-gram counts."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.frontends.onnx.harness import check, numbers


def model(node: onnx.NodeProto, inputs: str, output: int, shape: list[str]) -> onnx.ModelProto:
    x = helper.make_tensor_value_info("x", getattr(TensorProto, inputs), ["n", "m"])
    y = helper.make_tensor_value_info("y", output, shape)
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 4)]
    return helper.make_model(helper.make_graph([node], "model", [x], [y]), opset_imports=imports, ir_version=10)


@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_regression_trees(aggregate: str) -> None:
    """A tree of depth 2, and one that is a stump, with two targets; ids of nodes in any order."""
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


def test_label_encoder() -> None:
    """The last of equal keys counts; NaN is a key."""
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


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
def test_ngrams(mode: str) -> None:
    node = helper.make_node(
        "TfIdfVectorizer",
        ["x"],
        ["y"],
        mode=mode,
        min_gram_length=1,
        max_gram_length=2,
        max_skip_count=2,
        ngram_counts=[0, 2],
        ngram_indexes=[2, 0, 1, 3],
        pool_int64s=[2, 3, 5, 4, 2, 2],
        weights=[0.5, 2.0, 3.0, 4.0],
    )
    x = np.int64([[2, 5, 2, 4, 2], [3, 3, 3, 3, 3]])
    check(model(node, "INT64", TensorProto.FLOAT, ["n", "k"]), {"x": x}, {"x": x[:1, :1].copy()})

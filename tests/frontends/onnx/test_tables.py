"""ai.onnx.ml: classifiers, linear models, support vectors, and operators that prepare columns. Results are compared
with ONNX Runtime, since ONNX does not define what classifiers of two classes return."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from deploykit import load
from deploykit.errors import UnsupportedModelError
from tests.frontends.onnx.harness import Check, by_onnxruntime, numbers

ROWS = tuple({"x": numbers(n, 3, seed=n)} for n in (1, 5, 33))
LABEL, FLOAT, STRING = TensorProto.INT64, TensorProto.FLOAT, TensorProto.STRING
NAMES = ["dog", "", "Käfer"]
"""Labels that are strings."""


def model(operator: str, outputs: list[int], inputs: int = FLOAT, **attributes: Any) -> onnx.ModelProto:
    names = [f"y{i}" for i in range(len(outputs))]
    node = helper.make_node(operator, ["x"], names, domain="ai.onnx.ml", **attributes)
    x = helper.make_tensor_value_info("x", inputs, ["n", 3])
    ports = [helper.make_tensor_value_info(name, kind, None) for name, kind in zip(names, outputs, strict=True)]
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(helper.make_graph([node], "model", [x], ports), opset_imports=imports, ir_version=8)


def agrees(check: Check, made: onnx.ModelProto, *runs: dict[str, np.ndarray]) -> None:
    check(made, *(runs or ROWS), expected=by_onnxruntime(made, *(runs or ROWS)))


def label_attribute(integers: str, labels: list[Any]) -> tuple[int, dict[str, Any]]:
    """The type of labels, and the attribute that holds them."""
    strings = isinstance(labels[0], str)
    return (STRING if strings else LABEL), {"classlabels_strings" if strings else integers: labels}


def classifier(ids: tuple[int, ...], votes: list[list[float]], labels: list[Any], **more: Any) -> onnx.ModelProto:
    """A stump on the first column and one on the second. Each row of `votes` is for one of the four leaves, with one
    vote for each of `ids`."""
    leaves = [(0, 1), (0, 2), (1, 1), (1, 2)]
    cast = [(leaf, i, w) for leaf, row in zip(leaves, votes, strict=True) for i, w in zip(ids, row, strict=True)]
    kind, given = label_attribute("classlabels_int64s", labels)
    return model(
        "TreeEnsembleClassifier",
        [kind, FLOAT],
        nodes_treeids=[0, 0, 0, 1, 1, 1],
        nodes_nodeids=[0, 1, 2] * 2,
        nodes_featureids=[0, 0, 0, 1, 0, 0],
        nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"] * 2,
        nodes_values=[0.5, 0.0, 0.0, -0.5, 0.0, 0.0],
        nodes_truenodeids=[1, 0, 0] * 2,
        nodes_falsenodeids=[2, 0, 0] * 2,
        class_treeids=[leaf[0] for leaf, _, _ in cast],
        class_nodeids=[leaf[1] for leaf, _, _ in cast],
        class_ids=[i for _, i, _ in cast],
        class_weights=[w for _, _, w in cast],
        **given,
        **more,
    )


ONE = {"probability": [[0.1], [0.6], [0.3], [0.05]], "margin": [[-0.4], [0.6], [0.3], [-0.25]]}
THREE = [[0.5, 0.25, 0.25], [0.125, 0.75, 0.125], [0.25, 0.25, 0.5], [0.0, 0.625, 0.375]]


@pytest.mark.sampled(part=4)
@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
@pytest.mark.parametrize("votes", ONE.values(), ids=ONE)
@pytest.mark.parametrize("base", [None, [0.125]])
def test_trees_that_vote_for_one_of_two_classes(
    check: Check, transform: str, votes: list[list[float]], base: Any
) -> None:
    more = {"base_values": base} if base else {}
    agrees(check, classifier((0,), votes, [10, 20], post_transform=transform, **more))


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
@pytest.mark.parametrize("base", [None, [0.5, -0.25, 0.125]])
def test_trees_that_vote_for_three_classes(check: Check, transform: str, base: Any) -> None:
    more = {"base_values": base} if base else {}
    agrees(check, classifier((0, 1, 2), THREE, [7, 5, 6], post_transform=transform, **more))


def test_trees_that_vote_for_both_of_two_classes(check: Check) -> None:
    votes = [[0.75, 0.0], [0.25, 0.0], [0.5, 0.0], [0.25, 0.75]]
    agrees(check, classifier((0, 1), votes, [0, 1]))


def test_negative_votes_that_cover_every_class(check: Check) -> None:
    votes = [[-0.5, 0.25, -0.25], [0.125, -0.75, 0.125], [-0.25, -0.25, -0.5], [-1.0, -0.625, -0.375]]
    agrees(check, classifier((0, 1, 2), votes, [0, 1, 2]))


def test_classes_without_votes_are_refused() -> None:
    votes = [[-0.5, -0.25], [-0.125, -0.75], [-0.25, -0.5], [-1.0, -0.625]]
    with pytest.raises(UnsupportedModelError, match="leave classes out"):
        load(classifier((0, 1), votes, [0, 1, 2]))


def linear_classifier(rows: int, labels: list[Any], transform: str = "NONE") -> onnx.ModelProto:
    kind, given = label_attribute("classlabels_ints", labels[: max(rows, 2)])
    return model(
        "LinearClassifier",
        [kind, FLOAT],
        coefficients=numbers(rows * 3, seed=2).tolist(),
        intercepts=numbers(rows, seed=3).tolist(),
        post_transform=transform,
        **given,
    )


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
@pytest.mark.parametrize("rows", [1, 3])
def test_linear_classifiers(check: Check, transform: str, rows: int) -> None:
    agrees(check, linear_classifier(rows, [4, 2, 9], transform))


@pytest.mark.parametrize("rows", [1, 3])
def test_linear_classifiers_with_labels_that_are_strings(check: Check, rows: int) -> None:
    agrees(check, linear_classifier(rows, NAMES))


@pytest.mark.parametrize(
    ("ids", "votes"),
    [
        ((0,), ONE["probability"]),
        ((0,), ONE["margin"]),
        ((0, 1), [[0.75, 0.0], [0.25, 0.0], [0.5, 0.0], [0.25, 0.75]]),
        ((0, 1, 2), THREE),
    ],
    ids=["probability", "margin", "both", "three"],
)
def test_trees_with_labels_that_are_strings(check: Check, ids: tuple[int, ...], votes: list[list[float]]) -> None:
    agrees(check, classifier(ids, votes, NAMES[: max(2, len(ids))]))


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX"])
def test_linear_regressors(check: Check, transform: str) -> None:
    coefficients, intercepts = numbers(6, seed=2).tolist(), [0.5, -1.0]
    agrees(
        check,
        model(
            "LinearRegressor",
            [FLOAT],
            coefficients=coefficients,
            intercepts=intercepts,
            targets=2,
            post_transform=transform,
        ),
    )
    agrees(check, model("LinearRegressor", [FLOAT], coefficients=coefficients[:3]))


KERNELS = {"LINEAR": [0.0, 0.0, 0.0], "POLY": [0.25, 1.0, 2.0], "RBF": [0.125, 0.0, 0.0], "SIGMOID": [0.125, 0.5, 0.0]}


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("one_class", [0, 1])
def test_support_vector_regressors(check: Check, kernel: str, one_class: int) -> None:
    agrees(
        check,
        model(
            "SVMRegressor",
            [FLOAT],
            kernel_type=kernel,
            kernel_params=KERNELS[kernel],
            support_vectors=numbers(12, seed=4).tolist(),
            coefficients=[0.5, -0.25, 1.0, -1.5],
            rho=[0.25],
            n_supports=4,
            one_class=one_class,
        ),
    )


def test_support_vectors_of_a_linear_model(check: Check) -> None:
    agrees(
        check,
        model(
            "SVMRegressor",
            [FLOAT],
            kernel_type="LINEAR",
            kernel_params=KERNELS["LINEAR"],
            coefficients=[0.5, -0.25, 1.0],
            rho=[0.25],
            n_supports=0,
        ),
    )


@pytest.mark.parametrize("kernel", KERNELS)
def test_support_vector_classifiers(check: Check, kernel: str) -> None:
    """Four classes with 1, 2, 1 and 3 vectors."""
    agrees(
        check,
        model(
            "SVMClassifier",
            [LABEL, FLOAT],
            kernel_type=kernel,
            kernel_params=KERNELS[kernel],
            support_vectors=numbers(21, seed=4).tolist(),
            coefficients=numbers(21, seed=5).tolist(),
            rho=numbers(6, seed=6).tolist(),
            vectors_per_class=[1, 2, 1, 3],
            classlabels_ints=[3, 1, 2, 8],
        ),
    )


def machine(labels: list[Any], transform: str = "NONE", *, probabilities: bool = False) -> onnx.ModelProto:
    """A classifier with two vectors for each class."""
    count = len(labels)
    pairs, vectors = count * (count - 1) // 2, 2 * count
    kind, given = label_attribute("classlabels_ints", labels)
    if probabilities:
        given |= {"prob_a": numbers(pairs, seed=7).tolist(), "prob_b": (numbers(pairs, seed=8) / 8).tolist()}
    return model(
        "SVMClassifier",
        [kind, FLOAT],
        kernel_type="RBF",
        kernel_params=KERNELS["RBF"],
        support_vectors=numbers(vectors * 3, seed=4).tolist(),
        coefficients=numbers(vectors * (count - 1), seed=5).tolist(),
        rho=(numbers(pairs, seed=6) / 4).tolist(),
        vectors_per_class=[2] * count,
        post_transform=transform,
        **given,
    )


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
def test_support_vector_classifiers_of_two_classes(check: Check, transform: str) -> None:
    agrees(check, machine([4, 9], transform))


@pytest.mark.parametrize("probabilities", [False, True])
@pytest.mark.parametrize("classes", [2, 3])
def test_support_vector_classifiers_with_labels_that_are_strings(
    check: Check, classes: int, probabilities: bool
) -> None:
    agrees(check, machine(NAMES[:classes], probabilities=probabilities))


@pytest.mark.parametrize("classes", [2, 3, 7])
def test_probabilities_of_support_vector_classifiers(check: Check, classes: int) -> None:
    agrees(check, machine(list(range(classes)), probabilities=True))


def test_classifiers_without_support_vectors(check: Check) -> None:
    linear = {"kernel_type": "LINEAR", "kernel_params": KERNELS["LINEAR"]}
    given = {"coefficients": numbers(9, seed=5).tolist(), "rho": [0.25], **linear}
    agrees(check, model("SVMClassifier", [STRING, FLOAT], classlabels_strings=NAMES, **given))
    two = model("SVMClassifier", [LABEL, FLOAT], classlabels_ints=[0, 1], **given)
    with pytest.raises(UnsupportedModelError, match="2 classes and 0 support vectors"):
        load(two)


@pytest.mark.parametrize("inputs", ["float32", "int64"])
def test_scalers(check: Check, inputs: str) -> None:
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(inputs))
    runs = [{"x": numbers(n, 3, dtype=inputs)} for n in (1, 7)]
    agrees(check, model("Scaler", [FLOAT], kind, offset=[1.0, -2.0, 0.5], scale=[2.0, 0.5, -1.0]), *runs)
    agrees(check, model("Scaler", [FLOAT], kind, offset=[1.0], scale=[0.25]), *runs)


@pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
def test_normalizers(check: Check, norm: str) -> None:
    special = {"x": np.float32([[0, 0, 0], [-1, -2, -4], [3, -4, 0], [-1, 0, -2]])}
    agrees(check, model("Normalizer", [FLOAT], norm=norm), *ROWS, special)


def test_imputers(check: Check) -> None:
    x = np.float32([[np.nan, 1, 2], [3, np.nan, 1]])
    missing = float("nan")
    agrees(
        check, model("Imputer", [FLOAT], imputed_value_floats=[7.0, 8.0, 9.0], replaced_value_float=missing), {"x": x}
    )
    agrees(check, model("Imputer", [FLOAT], imputed_value_floats=[7.0], replaced_value_float=1.0), {"x": x})
    whole = {"x": np.int64([[0, 1, 2], [3, 0, 1]])}
    agrees(check, model("Imputer", [LABEL], LABEL, imputed_value_int64s=[5, 6, 7], replaced_value_int64=1), whole)


@pytest.mark.parametrize("inputs", ["float32", "int64"])
def test_one_hot_encoders(check: Check, inputs: str) -> None:
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(inputs))
    x = np.array([[1, 2, -3], [4, 1, 1], [0, 0, 2]], inputs)
    agrees(check, model("OneHotEncoder", [FLOAT], kind, cats_int64s=[1, 2, -3], zeros=1), {"x": x}, {"x": x[:1]})


def test_classifiers_without_labels_are_refused() -> None:
    made = model("LinearClassifier", [STRING, FLOAT], coefficients=[1.0] * 9, intercepts=[0.0] * 3)
    with pytest.raises(UnsupportedModelError, match="no labels: give classlabels_strings or classlabels_ints"):
        load(made)

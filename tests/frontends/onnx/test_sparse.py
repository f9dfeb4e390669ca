"""Sparse constants and sparse initializers are dense ones with zeros."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import deploykit
from deploykit import UnsupportedModelError
from tests.frontends.onnx.harness import Check, numbers, parse

LINEAR = np.array([1, 5])
ROWS = np.array([[0, 1], [1, 2]])


def sparse(name: str, indices: np.ndarray, dims: tuple[int, ...] = (2, 3)) -> onnx.SparseTensorProto:
    values = numpy_helper.from_array(np.array([1.5, -2], np.float32), name)
    return helper.make_sparse_tensor(values, numpy_helper.from_array(indices, f"{name}_indices"), list(dims))


def constant(indices: np.ndarray, dims: tuple[int, ...] = (2, 3)) -> onnx.ModelProto:
    model = parse("(float[n, 2] x) => (float[n, 3] y) { y = MatMul(x, w) }")
    model.graph.node.insert(0, helper.make_node("Constant", [], ["w"], sparse_value=sparse("w", indices, dims)))
    return model


def initializer(indices: np.ndarray, dims: tuple[int, ...] = (2, 3)) -> onnx.ModelProto:
    model = parse("(float[n, 2] x) => (float[n, 3] y) { y = MatMul(x, w) }")
    model.graph.sparse_initializer.append(sparse("w", indices, dims))
    return model


@pytest.mark.parametrize("model", [constant, initializer])
@pytest.mark.parametrize("indices", [LINEAR, ROWS], ids=["linear", "rows"])
def test_as_dense(check: Check, model: object, indices: np.ndarray) -> None:
    assert callable(model)
    weight = np.array([[0, 1.5, 0], [0, 0, -2]], np.float32)
    runs = [{"x": numbers(n, 2)} for n in (1, 3)]
    check(model(indices), *runs, expected=[[run["x"] @ weight] for run in runs])


def test_within_a_branch(check: Check) -> None:
    model = parse("""(float[n, 3] x, bool b) => (float[n, 3] y) { y = If(b)<
        then_branch = t () => (float[n, 3] p) { p = Add(x, w) },
        else_branch = e () => (float[n, 3] q) { q = Neg(x) }> }""")
    branch = next(attribute.g for attribute in model.graph.node[0].attribute if attribute.name == "then_branch")
    branch.node.insert(0, helper.make_node("Constant", [], ["w"], sparse_value=sparse("w", np.array([0, 2]), (3,))))
    x = numbers(2, 3)
    runs = [{"x": x, "b": np.array(chosen)} for chosen in (True, False)]
    check(model, *runs, expected=[[x + np.float32([1.5, 0, -2])], [-x]])


@pytest.mark.parametrize(
    ("indices", "dims", "reason"),
    [
        (np.array([1, 6]), (2, 3), "'w' of shape .2, 3. has 2 values and indices of shape .2,., which do not fit"),
        (np.array([[0, 1], [2, 2]]), (2, 3), "which do not fit"),
        (np.array([1, 5]), (2**20, 2**20), "'w' of shape .* is too large"),
    ],
)
def test_parts_that_do_not_fit(indices: np.ndarray, dims: tuple[int, ...], reason: str) -> None:
    with pytest.raises(UnsupportedModelError, match=reason):
        deploykit.load(constant(indices, dims))

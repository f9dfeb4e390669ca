"""Products with weights in groups of few bits, and look-ups of their rows, on every runtime."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import deploykit
from deploykit.compiler.graph.quantize_weights import Kind, quantize_weights
from deploykit.compiler.model import ImportedModel
from deploykit.compiler.operators.quantized.groups import FORMATS, GROUP, Grouped, grouped
from tests.runtimes import Runtime

DEPTH, ROWS = 96, (1, 2, 5, 14, 37)
KINDS: tuple[Kind, ...] = ("q4", "q4_1", "q8")


def matrix(rows: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, DEPTH)).astype(np.float32)


def found_in(kind: str, array: np.ndarray) -> Grouped:
    found = grouped(array, FORMATS[kind])
    assert found is not None
    return found


@cache
def model(columns: int) -> onnx.ModelProto:
    """`y = x @ w`, and `r`, the rows `i` of a table."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"]), helper.make_node("Gather", ["t", "i"], ["r"])]
    inputs = [("x", TensorProto.FLOAT, ["m", DEPTH]), ("i", TensorProto.INT64, ["n"])]
    outputs = [("y", TensorProto.FLOAT, ["m", columns]), ("r", TensorProto.FLOAT, ["n", DEPTH])]
    weights = {"w": matrix(columns).T, "t": matrix(40, 1)}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(*port) for port in inputs],
        [helper.make_tensor_value_info(*port) for port in outputs],
        [numpy_helper.from_array(np.ascontiguousarray(value), name) for name, value in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def in_bits(columns: int, kind: Kind) -> ImportedModel:
    loaded = deploykit.load(model(columns), {"m": (1, 40), "n": (1, 9)})
    module, found = quantize_weights(loaded.module, kind, 100)
    assert (found.products, found.tables) == (1, 1)
    return replace(loaded, module=module)


@pytest.mark.sampled(part=12)
@pytest.mark.slow
@pytest.mark.parametrize("columns", [64, 50, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_products_and_rows(kind: Kind, columns: int, runtime: Runtime) -> None:
    weight = found_in(kind, matrix(columns)).floats().astype(np.float64)
    table = found_in("q8", matrix(40, 1)).floats()
    with runtime.session(in_bits(columns, kind)) as session:
        for rows in ROWS:
            x = np.random.default_rng(rows).normal(size=(rows, DEPTH)).astype(np.float32)
            x[0, :GROUP] = 0
            places = np.array([0, 39, -1, 7], np.int64)
            found = session(x=x, i=places)
            exact = x @ weight.T
            np.testing.assert_allclose(found["y"], exact, rtol=0, atol=1e-4 * np.abs(x).max() * np.abs(weight).max())
            np.testing.assert_allclose(found["r"], table[places], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("kind", KINDS)
def test_devices_without_vectors(kind: Kind, tmp_path: Path) -> None:
    deploykit.build(in_bits(50, kind), "embedded", output=tmp_path / "c")
    assert "grouped_matmul" in "".join(path.read_text() for path in (tmp_path / "c").glob("*.c"))


@pytest.mark.sampled(part=12)
@pytest.mark.slow
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_special_values(value: float, runtime: Runtime) -> None:
    with runtime.session(in_bits(50, "q4")) as session:
        x = matrix(3, 5)
        expected = session(x=x, i=np.zeros(1, np.int64))["y"]
        x[1, 40] = value
        found = session(x=x, i=np.zeros(1, np.int64))["y"]
    assert not np.isfinite(found[1]).any()
    np.testing.assert_allclose(found[[0, 2]], expected[[0, 2]], rtol=1e-6, atol=1e-6)


def test_what_has_no_groups() -> None:
    assert grouped(matrix(3)[:, :40], FORMATS["q4"]) is None
    for value in (np.nan, np.inf, 1e30):
        array = matrix(3)
        array[1, 1] = value
        assert grouped(array, FORMATS["q8"]) is None

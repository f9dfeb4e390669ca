"""Costs of layers whose operation counts are known by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from deploykit.compiler.cost import Cost, cost
from deploykit.compiler.dims import evaluate, to_text
from deploykit.frontends.onnx import load_onnx


def cost_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: dict[str, Sequence[int | str]],
    weights: dict[str, np.ndarray],
    rank: int = 2,
) -> Cost:
    graph = helper.make_graph(
        nodes,
        "layer",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [f"y{axis}" for axis in range(rank)])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    return cost(load_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)))


def test_matmul_counts_two_operations_for_each_product() -> None:
    weight = np.ones((8, 4), np.float32)
    result = cost_of([helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": ("n", 8)}, {"w": weight})
    assert to_text(result.flops) == "64*n"
    assert to_text(result.traffic) == "48*n + 128"


def test_padding_is_no_arithmetic() -> None:
    weight = np.ones((8, 3, 3, 3), np.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])
    result = cost_of([node], {"x": ("n", 3, "H", "W")}, {"w": weight}, rank=4)
    assert evaluate(result.flops, {"n": 2, "H": 5, "W": 7}) == 2 * weight.size * 2 * 5 * 7


@pytest.mark.parametrize(("operator", "operations"), [("Relu", 1), ("Neg", 1), ("Exp", 1), ("Identity", 0)])
def test_elementwise(operator: str, operations: int) -> None:
    result = cost_of([helper.make_node(operator, ["x"], ["y"])], {"x": ("n", 5)}, {})
    assert evaluate(result.flops, {"n": 3}) == 15 * operations


def test_a_kernel_used_twice_counts_for_each_shape() -> None:
    nodes = [helper.make_node("Relu", ["a"], ["b"]), helper.make_node("Relu", ["c"], ["d"])]
    nodes.append(helper.make_node("Concat", ["b", "d"], ["y"], axis=0))
    result = cost_of(nodes, {"a": ("n",), "c": ("m",)}, {}, rank=1)
    assert evaluate(result.flops, {"n": 3, "m": 10}) == 13

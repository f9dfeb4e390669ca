"""Weights that are too large to go through the checks of the graph are checked by themselves."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from deploykit.errors import UnsupportedModelError
from deploykit.frontends.onnx.reader import LARGE, read

COLUMNS = LARGE // 32 + 1


def model(dtype: type[np.generic] = np.float32, ir_version: int = 8, *, as_input: bool = False) -> onnx.ModelProto:
    weights = numpy_helper.from_array(np.ones((8, COLUMNS), dtype), "w")
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 8])
    w = helper.make_tensor_value_info("w", TensorProto.FLOAT, [8, COLUMNS])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", COLUMNS])
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "large", [x, w] if as_input else [x], [y], [weights])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=ir_version)


@pytest.mark.parametrize(("version", "as_input"), [(3, True), (8, True), (8, False)])
def test_they_are_weights_all_the_same(version: int, as_input: bool) -> None:
    read_model = read(model(ir_version=version, as_input=as_input))
    assert read_model.graph.initializers["w"].const_value is not None


def test_missing_bytes_are_found() -> None:
    damaged = model()
    damaged.graph.initializer[0].raw_data = damaged.graph.initializer[0].raw_data[:-4]
    with pytest.raises(UnsupportedModelError):
        read(damaged)


def test_their_dtype_is_checked() -> None:
    with pytest.raises(UnsupportedModelError, match="dtypes"):
        read(model(np.float64))

"""A graph under construction: nodes and seeded weights in order, one call each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17
Shape = Sequence[int | str]


class Graph:
    """Collects nodes. Values are referred to by name; strings in shapes are symbolic dims."""

    def __init__(self, name: str, seed: int = 0) -> None:
        self.name = name
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.outputs: list[onnx.ValueInfoProto] = []

    def input(self, name: str, shape: Shape, dtype: int = TensorProto.FLOAT) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, dtype, shape))
        return name

    def output(self, value: str, shape: Shape, dtype: int = TensorProto.FLOAT) -> None:
        self.outputs.append(helper.make_tensor_value_info(value, dtype, shape))

    def node(self, operator: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        """Adds a node; gives the name of its one output."""
        name = f"{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [output or name], name=name, **attributes))
        return output or name

    def constant(self, array: np.ndarray) -> str:
        name = f"constant_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def weight(self, *shape: int) -> str:
        """Normal numbers scaled so that a layer of that fan-in keeps the size of what it is given."""
        fan_in = int(np.prod(shape[1:])) if len(shape) == 4 else shape[0]
        return self.constant((self.random.standard_normal(shape) / np.sqrt(fan_in)).astype(np.float32))

    def model(self) -> onnx.ModelProto:
        graph = helper.make_graph(self.nodes, self.name, self.inputs, self.outputs, self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
        onnx.checker.check_model(model, full_check=True)
        return model

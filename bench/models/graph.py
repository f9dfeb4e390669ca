"""A builder for ONNX models: each call adds a node or a seeded weight."""

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
        """Add a node; returns the name of its only output."""
        name = f"{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [output or name], name=name, **attributes))
        return output or name

    def split(self, value: str, parts: int, extent: int, axis: int) -> list[str]:
        """Split a value along an axis into `parts` pieces of this extent."""
        sizes = self.constant(np.array([extent] * parts, np.int64))
        names = [f"split_{len(self.nodes)}_{part}" for part in range(parts)]
        self.nodes.append(helper.make_node("Split", [value, sizes], names, name=f"split_{len(self.nodes)}", axis=axis))
        return names

    def constant(self, array: np.ndarray) -> str:
        name = f"constant_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def weight(self, *shape: int, fan_in: int | None = None, gain: float = 1) -> str:
        """A weight of normal numbers, scaled so that a layer multiplies the variance of its input by `gain`.

        `fan_in` is the number of inputs of an output of the layer, by default that of the shape.
        """
        if fan_in is None:
            fan_in = int(np.prod(shape[1:])) if len(shape) == 4 else shape[0]
        return self.constant((self.random.standard_normal(shape) * np.sqrt(gain / fan_in)).astype(np.float32))

    def model(self) -> onnx.ModelProto:
        graph = helper.make_graph(self.nodes, self.name, self.inputs, self.outputs, self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
        onnx.checker.check_model(model, full_check=True)
        return model

"""Quantises a float model to the form that quantisation tools write (QDQ, Jacob et al., 2018).

Each tensor between operators goes through QuantizeLinear and DequantizeLinear, and each constant weight is stored as
integers, with a DequantizeLinear after it.

* Activations: uint8 with one scale and zero point, from the range that ONNX Runtime computes for random inputs. There
  is no pair between a product and a Relu or Clip that is its only user, because the pair after that clips as well.
* Weights: int8, symmetric, with a scale per output channel and 7 bits of range. Sums of two products then fit into the
  16 bits that processors without byte dot products have for them. Biases: int32 with the product of both scales.

Only the operators in `OPERATORS` are quantised; their inputs are float32.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

OPERATORS = {
    "Conv": 0,
    "Gemm": 1,
    **dict.fromkeys(("Add", "Clip", "Flatten", "GlobalAveragePool", "MaxPool", "Relu")),
}
"""The quantised operators, with the axis of the output channels in the weight, if there is one."""
_LARGEST_WEIGHT = 63
_CLIPPING = ("Clip", "Relu")


def quantize(model: onnx.ModelProto, inputs: Mapping[str, np.ndarray]) -> onnx.ModelProto:
    """The model in QDQ form with the same inputs and outputs, calibrated on `inputs`."""
    return _Quantizer(model, _ranges(model, inputs)).model()


def _ranges(model: onnx.ModelProto, inputs: Mapping[str, np.ndarray]) -> dict[str, tuple[float, float]]:
    """The smallest and the largest element of each tensor, rounded to three digits; the range includes zero."""
    import onnxruntime

    traced = onnx.ModelProto()
    traced.CopyFrom(model)
    names = [name for node in model.graph.node for name in node.output]
    del traced.graph.output[:]
    traced.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in names)
    session = onnxruntime.InferenceSession(traced.SerializeToString(), providers=["CPUExecutionProvider"])
    values = {**inputs, **dict(zip(names, session.run(names, dict(inputs)), strict=True))}
    return {
        name: (min(0.0, float(f"{array.min():.3g}")), max(0.0, float(f"{array.max():.3g}")))
        for name, array in values.items()
    }


class _Quantizer:
    def __init__(self, model: onnx.ModelProto, ranges: Mapping[str, tuple[float, float]]) -> None:
        self._source = model
        self._ranges = ranges
        self._weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
        self._users = Counter(name for node in model.graph.node for name in node.input)
        self._clipped = {
            node.input[0] for node in model.graph.node if node.op_type in _CLIPPING and self._users[node.input[0]] == 1
        }
        self._nodes: list[onnx.NodeProto] = []
        self._constants: dict[str, np.ndarray] = {}
        self._names: dict[str, str] = {}
        self._scales: dict[str, np.float32] = {}

    def model(self) -> onnx.ModelProto:
        source = self._source.graph
        outputs = {value.name for value in source.output}
        for value in source.input:
            self._activation(value.name)
        for node in source.node:
            self._node(node)
            for name in node.output:
                if name not in self._clipped and name not in outputs and node.op_type in OPERATORS:
                    self._activation(name)
        kept = [numpy_helper.from_array(array, name) for name, array in self._constants.items()]
        graph = helper.make_graph(self._nodes, f"{source.name}_int8", source.input, source.output, kept)
        result = helper.make_model(graph, opset_imports=self._source.opset_import, ir_version=self._source.ir_version)
        onnx.checker.check_model(result, full_check=True)
        return result

    def _node(self, node: onnx.NodeProto) -> None:
        inputs = [self._names.get(name, name) for name in node.input]
        axis = OPERATORS.get(node.op_type)
        for index, name in enumerate(node.input):
            if name in self._weights:
                inputs[index] = name if axis is None else self._weight(node, index, axis)
                if axis is None:
                    self._constants[name] = self._weights[name]
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        del copy.input[:]
        copy.input.extend(inputs)
        self._nodes.append(copy)

    def _activation(self, name: str) -> None:
        """Add a pair of QuantizeLinear and DequantizeLinear after the tensor `name`; its users get the result."""
        low, high = self._ranges[name]
        scale = np.float32((high - low) / 255 or 1)
        self._constants[f"{name}_scale"] = np.asarray(scale)
        self._constants[f"{name}_zero"] = np.asarray(np.uint8(round(-low / scale)))
        parameters = [f"{name}_scale", f"{name}_zero"]
        self._append("QuantizeLinear", [name, *parameters], f"{name}_quantized")
        self._append("DequantizeLinear", [f"{name}_quantized", *parameters], f"{name}_restored")
        self._names[name] = f"{name}_restored"
        self._scales[name] = scale

    def _weight(self, node: onnx.NodeProto, index: int, axis: int) -> str:
        """Store the weight (input 1) or bias (input 2) of a product as integers; returns the name of the floats."""
        weight = self._weights[node.input[1]]
        others = tuple(other for other in range(weight.ndim) if other != axis)
        scale = (np.maximum(np.abs(weight).max(axis=others), 1e-8) / _LARGEST_WEIGHT).astype(np.float32)
        name = node.input[index]
        if index == 1:
            shape = [-1 if other == axis else 1 for other in range(weight.ndim)]
            values = np.rint(weight / scale.reshape(shape)).astype(np.int8)
        else:
            axis, scale = 0, (scale * self._scales[node.input[0]]).astype(np.float32)
            values = np.rint(self._weights[name] / scale).astype(np.int32)
        self._constants[f"{name}_quantized"] = values
        self._constants[f"{name}_scale"] = scale
        self._constants[f"{name}_zero"] = np.zeros(scale.shape, values.dtype)
        parameters = [f"{name}_scale", f"{name}_zero"]
        self._append("DequantizeLinear", [f"{name}_quantized", *parameters], f"{name}_restored", axis=axis)
        return f"{name}_restored"

    def _append(self, operator: str, inputs: list[str], output: str, **attributes: Any) -> None:
        self._nodes.append(helper.make_node(operator, inputs, [output], name=output, **attributes))

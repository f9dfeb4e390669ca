"""Reads a model of integers as the layers that libraries of kernels for microcontrollers have.

The model is one of `models.quantized`: each operator stands between DequantizeLinear and QuantizeLinear, with a Relu
behind it or not. Tensors get the channels last, as such libraries have them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import onnx
from onnx import helper, numpy_helper, shape_inference

from deploykit.errors import UnsupportedModelError


@dataclass(frozen=True)
class Tensor:
    """An activation of integers: its shape is (rows, columns, channels), its numbers are `scale * (integer - zero)`."""

    name: str
    shape: tuple[int, int, int]
    scale: float
    zero: int
    dtype: str = "int8"

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))

    @property
    def bytes(self) -> int:
        return self.size * np.dtype(self.dtype).itemsize


@dataclass(frozen=True)
class Layer:
    """`kind` is `conv`, `depthwise`, `dense`, `max_pool`, `average_pool`, `add` or `softmax`.

    `weight` has the shape (outputs, rows, columns, inputs), for `depthwise` (1, rows, columns, channels) and for
    `dense` (outputs, inputs); `scales` has one number for each output. `kernel`, `strides` and `padding` are of rows
    and columns; the padding is that in front. With `relu` no result is less than 0.
    """

    kind: str
    inputs: tuple[Tensor, ...]
    output: Tensor
    weight: np.ndarray | None = None
    bias: np.ndarray | None = None
    scales: np.ndarray | None = None
    kernel: tuple[int, int] = (1, 1)
    strides: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)
    relu: bool = False

    @property
    def products(self) -> int:
        """Multiply-adds."""
        if self.weight is None:
            return 0
        rows, columns, _ = self.output.shape
        return rows * columns * self.weight.size

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the greatest integer of a result."""
        ends = np.iinfo(self.output.dtype)
        return max(ends.min, self.output.zero) if self.relu else ends.min, ends.max


@dataclass
class _Reader:
    model: onnx.ModelProto
    layers: list[Layer] = field(default_factory=list)
    tensors: dict[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        graph = shape_inference.infer_shapes(self.model).graph
        ports = [*graph.input, *graph.value_info, *graph.output]
        self._shapes = {p.name: [d.dim_value for d in p.type.tensor_type.shape.dim] for p in ports}
        self._constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
        self._writers = {name: node for node in graph.node for name in node.output}
        self._readers = {name: node for node in graph.node for name in node.input}
        self._nodes = graph.node
        for node in graph.node:  # the integers that the model is given
            if node.op_type == "DequantizeLinear" and node.input[0] in {port.name for port in graph.input}:
                self._tensor(node.input[0], node)

    def read(self) -> list[Layer]:
        for node in self._nodes:
            writer = self._writers.get(node.input[0])
            of_layer = node.op_type == "Relu" and writer is not None and writer.op_type in _KINDS
            if not of_layer and node.op_type not in ("QuantizeLinear", "DequantizeLinear", "Flatten", "Reshape"):
                self.layers.append(self._layer(node))
        return self.layers

    def _tensor(self, name: str, node: onnx.NodeProto) -> Tensor:
        """The activation `name`, whose scale and zero point are inputs of `node`."""
        shape = self._shapes[name]
        form = (shape[2], shape[3], shape[1]) if len(shape) == 4 else (1, 1, int(np.prod(shape)))
        scale, zero = (self._constants[node.input[index]] for index in (1, 2))
        self.tensors[name] = Tensor(name, form, float(scale.item()), int(zero.item()), str(zero.dtype))
        return self.tensors[name]

    def _source(self, value: str) -> Tensor:
        """The integers that a value of floats is restored from, through operators that change shapes only."""
        node = self._writers.get(value)
        while node is not None and value not in self.tensors:
            value = node.input[0]
            node = self._writers.get(value)
            if node is not None and node.op_type not in ("DequantizeLinear", "QuantizeLinear", "Flatten", "Reshape"):
                break
        return self.tensors[value]

    def _constant(self, value: str) -> tuple[np.ndarray, np.ndarray]:
        """The integers and the scales that a constant of floats is restored from."""
        node = self._writers[value]
        return self._constants[node.input[0]], np.atleast_1d(self._constants[node.input[1]])

    def _layer(self, node: onnx.NodeProto) -> Layer:
        if node.op_type not in _KINDS:
            raise UnsupportedModelError(f"it has no {node.op_type} of integers")
        quantize = self._readers[node.output[0]]
        if quantize.op_type == "Relu":
            return replace(self._between(node, self._readers[quantize.output[0]]), relu=True)
        return self._between(node, quantize)

    def _between(self, node: onnx.NodeProto, quantize: onnx.NodeProto) -> Layer:
        """The layer of a node whose result `quantize` makes integers."""
        if quantize.op_type != "QuantizeLinear":
            raise UnsupportedModelError(f"{node.op_type} is followed by {quantize.op_type}")
        output = self._tensor(quantize.output[0], quantize)
        given = {item.name: helper.get_attribute_value(item) for item in node.attribute}
        if node.op_type == "Add":
            return Layer("add", (self._source(node.input[0]), self._source(node.input[1])), output)
        source = self._source(node.input[0])
        if node.op_type == "Gemm":
            return self._dense(node, given, source, output)
        if node.op_type == "Softmax":
            return Layer("softmax", (source,), output)
        if node.op_type == "GlobalAveragePool":
            return Layer("average_pool", (source,), output, kernel=source.shape[:2])
        strides, padding = _pair(given.get("strides", (1, 1))), _pair(given.get("pads", (0, 0)))
        if node.op_type == "MaxPool":
            kernel = _pair(given["kernel_shape"])
            return Layer("max_pool", (source,), output, kernel=kernel, strides=strides, padding=padding)
        weight, scales = self._constant(node.input[1])
        kernel = _pair(weight.shape[2:])
        bias, _ = self._constant(node.input[2])
        if given.get("group", 1) == source.shape[2] == len(weight) > 1:
            return Layer(
                "depthwise", (source,), output, weight.transpose(1, 2, 3, 0), bias, scales, kernel, strides, padding
            )
        if given.get("group", 1) != 1:
            raise UnsupportedModelError("it has no convolution in groups")
        return Layer("conv", (source,), output, weight.transpose(0, 2, 3, 1), bias, scales, kernel, strides, padding)

    def _dense(self, node: onnx.NodeProto, given: dict[str, object], source: Tensor, output: Tensor) -> Layer:
        weight, scales = self._constant(node.input[1])
        bias, _ = self._constant(node.input[2])
        rows, columns, channels = source.shape
        by_output = weight if given.get("transB", 0) else weight.T
        last = by_output.reshape(-1, channels, rows, columns).transpose(0, 2, 3, 1).reshape(by_output.shape)
        return Layer("dense", (source,), output, last, bias, scales)


_KINDS = ("Add", "Conv", "Gemm", "GlobalAveragePool", "MaxPool", "Softmax")


def read_layers(model: onnx.ModelProto) -> list[Layer]:
    """The layers in order. Raises `UnsupportedModelError` if one is of another kind."""
    return _Reader(model).read()


def _pair(values: Sequence[int]) -> tuple[int, int]:
    return int(values[0]), int(values[1])

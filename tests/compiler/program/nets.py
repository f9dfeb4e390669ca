"""Small nets of convolutions, poolings and elementwise operators, drawn at random."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

OPERATORS = ("conv", "conv", "depthwise", "pointwise", "max", "average", "relu", "sigmoid", "residual")


class Net:
    """A net that grows by one operator after the other. `value` is the last tensor, `[N, channels, *sizes]`."""

    def __init__(self, seed: int, shape: Sequence[int], batch: int | str) -> None:
        self.random, self.numbers = random.Random(seed), np.random.default_rng(seed)
        self.channels, *self.sizes = shape
        self.value, self.nodes, self.weights = "x", list[onnx.NodeProto](), list[onnx.TensorProto]()
        self.given = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [batch, *shape])
        self.batch = batch

    def node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(operator, inputs, [f"v{len(self.nodes)}"], **attributes))
        return str(self.nodes[-1].output[0])

    def weight(self, *shape: int) -> str:
        values = self.numbers.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(values.astype(np.float32), name))
        return name

    def add(self, operator: str) -> None:
        match operator:
            case "relu" | "sigmoid":
                self.value = self.node(operator.capitalize(), self.value)
            case "residual":
                kept = self.value
                self.conv(self.channels, 3, pads=[1, 1, 1, 1])
                self.value = self.node("Add", kept, self.node("Relu", self.value))
            case "pointwise":
                self.conv(self.random.choice([1, 4, 8, 16]), 1)
            case _:
                self.window(operator)

    def window(self, operator: str) -> None:
        """A convolution or a pooling with any strides, dilations and padding that fit."""
        one = self.random.choice
        for _ in range(20):
            kernel, strides = [one([1, 2, 3, 4]), one([1, 2, 3])], [one([1, 1, 2, 3]), one([1, 1, 2])]
            dilations = [one([1, 1, 2]), 1]
            reach = [dilation * (k - 1) for dilation, k in zip(dilations, kernel, strict=True)]
            pads = [self.random.randint(0, min(2, k - 1)) for k in (*kernel, *kernel)]
            room = [n + pads[i] + pads[i + 2] - reach[i] - 1 for i, n in enumerate(self.sizes)]
            if min(room) >= 0:
                break
        else:
            return
        if operator in ("max", "average"):
            self.pool(operator, kernel, strides, dilations, pads)
            return
        groups = self.channels if operator == "depthwise" else 1
        self.conv(
            self.channels if groups > 1 else one([1, 3, 4, 8, 16]),
            *kernel,
            strides=strides,
            dilations=dilations,
            pads=pads,
            group=groups,
        )

    def pool(self, operator: str, kernel: list[int], strides: list[int], dilations: list[int], pads: list[int]) -> None:
        ceil = self.random.random() < 0.4
        own = {"count_include_pad": self.random.randint(0, 1)} if operator == "average" else {}
        windows = {"kernel_shape": kernel, "strides": strides, "dilations": dilations, "pads": pads}
        name = {"max": "MaxPool", "average": "AveragePool"}[operator]
        self.value = self.node(name, self.value, ceil_mode=int(ceil), **windows, **own)
        self._shrink(kernel, strides, dilations, pads, ceil=ceil)

    def conv(self, channels: int, *kernel: int, group: int = 1, pads: Sequence[int] = (0,) * 4, **own: Any) -> None:
        kernel = kernel * (3 - len(kernel))
        weight, bias = self.weight(channels, self.channels // group, *kernel), self.weight(channels)
        self.value = self.node("Conv", self.value, weight, bias, group=group, pads=pads, **own)
        self._shrink(kernel, own.get("strides", [1, 1]), own.get("dilations", [1, 1]), pads)
        self.channels = channels

    def _shrink(
        self,
        kernel: Sequence[int],
        strides: Sequence[int],
        dilations: Sequence[int],
        pads: Sequence[int],
        *,
        ceil: bool = False,
    ) -> None:
        for i, n in enumerate(self.sizes):
            room = n + pads[i] + pads[i + 2] - dilations[i] * (kernel[i] - 1) - 1
            whole = min(-(-room // strides[i]), (n + pads[i] - 1) // strides[i])
            self.sizes[i] = (whole if ceil else room // strides[i]) + 1

    def model(self) -> onnx.ModelProto:
        self.nodes.append(helper.make_node("Identity", [self.value], ["y"]))
        result = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [self.batch, self.channels, *self.sizes])
        graph = helper.make_graph(self.nodes, "net", [self.given], [result], self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=9)
        onnx.checker.check_model(model)
        return model


def random_net(seed: int, batch: int | str) -> onnx.ModelProto:
    """x[batch, C, H, W] -> y, through up to seven operators."""
    one = random.Random(-seed)
    net = Net(seed, (one.choice([1, 2, 3, 4, 8]), one.randint(5, 20), one.randint(2, 12)), batch)
    for _ in range(one.randint(2, 6)):
        net.add(one.choice(OPERATORS))
    if one.random() < 0.5:
        net.value, net.sizes = net.node("GlobalAveragePool", net.value), [1, 1]
    return net.model()


def mobile_net(batch: int | str, size: int = 64) -> onnx.ModelProto:
    """x[batch, 3, size, size] -> y[batch, 64, 1, 1]: the begin of a MobileNetV1 of a quarter of the width."""
    net = Net(0, (3, size, size), batch)
    net.conv(8, 3, strides=[2, 2], pads=[0, 0, 1, 1])
    for channels, stride in ((16, 1), (32, 2), (32, 1), (64, 2)):
        before = 0 if stride == 2 else 1
        net.add("relu")
        net.conv(net.channels, 3, group=net.channels, strides=[stride] * 2, pads=[before, before, 1, 1])
        net.add("relu")
        net.conv(channels, 1)
    net.value, net.sizes = net.node("GlobalAveragePool", net.value), [1, 1]
    return net.model()


def quantized(model: onnx.ModelProto, feeds: Sequence[Mapping[str, np.ndarray]]) -> onnx.ModelProto:
    """The model in 8 bits, with scales from what it makes of `feeds`."""

    class Feeds(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.left = iter(feeds)

        def get_next(self) -> Mapping[str, np.ndarray] | None:
            return next(self.left, None)

    with TemporaryDirectory() as folder:
        source, made = Path(folder) / "float.onnx", Path(folder) / "int8.onnx"
        onnx.save(model, source)
        quantize_static(
            source,
            made,
            Feeds(),
            quant_format=QuantFormat.QDQ,
            per_channel=True,
            activation_type=QuantType.QInt8,
            weight_type=QuantType.QInt8,
        )
        return onnx.load(made)

"""Random networks over time, and their streams run part by part next to ONNX Runtime on whole sequences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from deploykit.sessions.session import Session

CHANNELS, BANDS = 3, 4


@dataclass
class Chain:
    """A graph that grows node by node. Its tensors are [n, channels, time], or, with `time_at` 2 or 3, [n, channels,
    time, bands] or [n, channels, bands, time]."""

    random: np.random.Generator
    rank: int = 3
    time_at: int = 2
    time: int | str = "time"
    batch: int | str = "batch"
    channels: int = CHANNELS
    bands: int = BANDS
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: list[onnx.TensorProto] = field(default_factory=list)
    last: str = "x"

    def add(self, kind: str, *operands: str, **attributes: object) -> str:
        """Add a node that takes the last result first; its result is the last one then."""
        self.last, before = f"v{len(self.nodes)}", self.last
        self.nodes.append(
            helper.make_node(kind, [before, *operands], [self.last], f"node{len(self.nodes)}", **attributes)
        )
        return self.last

    def weight(self, array: object, dtype: object = np.float32) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array, dtype), name))
        return name

    def numbers(self, *shape: int) -> str:
        return self.weight(self.random.standard_normal(shape) / max(np.sqrt(np.prod(shape[1:])), 1))

    def along(self, time: int, other: int) -> list[int]:
        """A number for each spatial axis."""
        return [time if axis == self.time_at else other for axis in range(2, self.rank)]

    def conv(
        self, kernel: int, *, dilation: int = 1, stride: int = 1, pads: tuple[int, int] = (0, 0), out: int = 3
    ) -> None:
        group = self.channels if out == self.channels and self.random.random() < 0.3 else 1
        weights = self.numbers(out, self.channels // group, *self.along(kernel, 3))
        before, end = pads
        self.add(
            "Conv", weights, self.numbers(out), group=group, dilations=self.along(dilation, 1),
            strides=self.along(stride, 1), pads=[*self.along(before, 1), *self.along(end, 1)],
        )  # fmt: skip
        self.channels = out

    def pad(self, front: int, end: int = 0) -> None:
        self.add("Pad", self.weight([0, 0, *self.along(front, 0), 0, 0, *self.along(end, 0)], np.int64))

    def quantised(self, low: float = -4.0, high: float = 4.0) -> None:
        """The last result, in 8-bit integers whose zero point is not 0."""
        scale = (high - low) / 255
        zero = int(np.rint(-128 - low / scale)) + 11
        numbers = self.weight(scale), self.weight(zero, np.int8)
        self.add("QuantizeLinear", *numbers)
        self.add("DequantizeLinear", *numbers)

    def shape(self, time: int | str) -> list[int | str]:
        return [self.batch, CHANNELS, *(time if axis == self.time_at else BANDS for axis in range(2, self.rank))]

    def model(self) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes,
            "chain",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape(self.time))],
            [helper.make_tensor_value_info(self.last, TensorProto.FLOAT, None)],
            self.weights,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)

    def data(self, batch: int, frames: int) -> np.ndarray:
        sizes = [batch if n == self.batch else frames if n == self.time else n for n in self.shape(self.time)]
        sizes[self.time_at] = frames
        return self.random.standard_normal(sizes).astype(np.float32)


def grow(chain: Chain, *, causal: bool, layers: int = 3, strides: bool = True) -> int:
    """Random layers that keep time. Returns the product of their strides."""
    random, hop = chain.random, 1
    for _ in range(layers):
        kernel, dilation = int(random.integers(1, 5)), int(random.integers(1, 4))
        stride = int(random.integers(1, 4)) if strides and random.random() < 0.4 else 1
        span = (kernel - 1) * dilation + 1
        match int(random.integers(0, 7 if causal else 3)):
            case 0 | 1 | 2 if not causal:
                chain.conv(kernel, dilation=dilation, stride=stride)
            case 0 | 1:
                chain.conv(kernel, dilation=dilation, stride=stride, pads=(span - 1, 0))
            case 2:
                chain.pad(span - 1)
                chain.conv(kernel, dilation=dilation, stride=stride)
            case 3:
                chain.conv(kernel, dilation=dilation, pads=(span - 1, span - 1), out=4)
                stride = 1
                if span > 1:
                    ends = [chain.weight([n], np.int64) for n in (0, 1 - span, chain.time_at)]
                    chain.add("Slice", *ends)
            case 4:
                stride = max(stride, 1)
                pads = [*chain.along(kernel - 1, 0), *chain.along(0, 0)]
                shape = {"kernel_shape": chain.along(kernel, 1), "strides": chain.along(stride, 1), "pads": pads}
                if random.random() < 0.5:
                    chain.add("MaxPool", **shape)
                else:
                    chain.add("AveragePool", **shape, count_include_pad=1)
            case 5:
                before = chain.last
                chain.conv(kernel, dilation=dilation, pads=(span - 1, 0), out=chain.channels)
                chain.add("Add", before)
                stride = 1
            case 6:
                scale = [chain.weight(random.uniform(0.5, 2, chain.channels)) for _ in range(4)]
                chain.add("BatchNormalization", *scale)
                stride = 1
        hop *= stride
        chain.add(("Relu", "Tanh", "Sigmoid")[int(random.integers(3))])
        if random.random() < 0.3:
            chain.quantised()
    return hop


def reference(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    """The output for a whole sequence, by ONNX Runtime."""
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"x": x})
    return np.asarray(found)


def parts(x: np.ndarray, axis: int, sizes: Sequence[int]) -> Iterator[np.ndarray]:
    """Parts of a sequence whose sizes are these, again and again."""
    start, turn = 0, 0
    while start < x.shape[axis]:
        size = min(sizes[turn % len(sizes)], x.shape[axis] - start)
        yield np.ascontiguousarray(np.take(x, range(start, start + size), axis))
        start, turn = start + size, turn + 1


def streamed(
    session: Session, x: np.ndarray, axis: int, sizes: Sequence[int], reset: Mapping[str, int]
) -> list[np.ndarray]:
    """What a stream gives for each part of a sequence, from its beginning on."""
    if session.manifest.states is not None:
        session.reset(reset)
    return [next(iter(session(x=each).values())) for each in parts(x, axis, sizes)]

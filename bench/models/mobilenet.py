"""An image classifier like MobileNetV2 (Sandler et al., 2018):
image[batch, 3, 224, 224] -> scores[batch, 1000].

Inverted residuals: 1x1 expansion, 3x3 depthwise, 1x1 projection. Batch normalisation is folded, as exporters do.
"""

from __future__ import annotations

from typing import Any

import onnx

from bench.models.graph import Graph
from bench.models.transformer import number

SIDE, CLASSES, FEATURES = 224, 1000, 1280
STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
"""For each stage: expansion, channels, blocks, stride of the first block."""


def mobilenet() -> onnx.ModelProto:
    graph = Graph("mobilenet")
    value = _clipped(graph, _conv(graph, graph.input("image", ("batch", 3, SIDE, SIDE)), 3, 32, 3, stride=2))
    channels = 32
    for expansion, wider, blocks, stride in STAGES:
        for block in range(blocks):
            value = _block(graph, value, channels, wider, expansion, stride if block == 0 else 1)
            channels = wider
    value = _clipped(graph, _conv(graph, value, channels, FEATURES, 1))
    features = graph.node("Flatten", graph.node("GlobalAveragePool", value))
    weight, bias = graph.weight(FEATURES, CLASSES), graph.weight(CLASSES)
    graph.output(graph.node("Gemm", features, weight, bias, output="scores"), ("batch", CLASSES))
    return graph.model()


def _block(graph: Graph, value: str, channels: int, wider: int, expansion: int, stride: int) -> str:
    hidden = channels * expansion
    inner = value if expansion == 1 else _clipped(graph, _conv(graph, value, channels, hidden, 1))
    inner = _clipped(graph, _conv(graph, inner, hidden, hidden, 3, stride, group=hidden))
    inner = _conv(graph, inner, hidden, wider, 1, gain=1)
    return graph.node("Add", value, inner) if stride == 1 and channels == wider else inner


def _conv(
    graph: Graph, value: str, channels: int, wider: int, kernel: int, stride: int = 1, group: int = 1, gain: float = 2
) -> str:
    """A convolution. `gain` is that of the variance: 2 if an activation cuts half of it off."""
    weight, bias = graph.weight(wider, channels // group, kernel, kernel, gain=gain), graph.weight(wider)
    attributes: dict[str, Any] = {
        "strides": [stride] * 2,
        "pads": [kernel // 2] * 4,
        "group": group,
        "kernel_shape": [kernel] * 2,
    }
    return graph.node("Conv", value, weight, bias, **attributes)


def _clipped(graph: Graph, value: str) -> str:
    return graph.node("Clip", value, number(graph, 0), number(graph, 6))

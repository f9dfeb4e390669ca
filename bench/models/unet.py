"""A U-Net for the segmentation of images of any size (Ronneberger et al., 2015): image[batch, 3, height, width] ->
mask[batch, 1, height, width]. It has four levels, with 16 channels at the first; height and width are multiples of 16.
"""

from __future__ import annotations

import onnx

from bench.models.graph import Graph

CHANNELS, LEVELS = 16, 4


def unet() -> onnx.ModelProto:
    graph = Graph("unet")
    value = _pair(graph, graph.input("image", ("batch", 3, "height", "width")), 3, CHANNELS)
    across = []
    channels = CHANNELS
    for _ in range(LEVELS):
        across.append(value)
        pooled = graph.node("MaxPool", value, kernel_shape=[2, 2], strides=[2, 2])
        value = _pair(graph, pooled, channels, 2 * channels)
        channels *= 2
    for beside in reversed(across):
        channels //= 2
        weight, bias = graph.weight(2 * channels, channels, 2, 2, fan_in=2 * channels), graph.weight(channels)
        larger = graph.node("ConvTranspose", value, weight, bias, kernel_shape=[2, 2], strides=[2, 2])
        value = _pair(graph, graph.node("Concat", beside, larger, axis=1), 2 * channels, channels)
    logits = graph.node("Conv", value, graph.weight(1, CHANNELS, 1, 1), graph.weight(1))
    graph.output(graph.node("Sigmoid", logits, output="mask"), ("batch", 1, "height", "width"))
    return graph.model()


def _pair(graph: Graph, value: str, channels: int, wider: int) -> str:
    """Two 3x3 convolutions, each with Relu."""
    for inputs in (channels, wider):
        weight, bias = graph.weight(wider, inputs, 3, 3, gain=2), graph.weight(wider)
        value = graph.node("Relu", graph.node("Conv", value, weight, bias, pads=[1, 1, 1, 1]))
    return value

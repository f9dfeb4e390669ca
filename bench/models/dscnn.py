"""Keyword spotting with depthwise separable convolutions (Zhang et al., 2017, DS-CNN small): features[batch, 1, 49, 10]
-> probabilities[batch, 12]. The features are 10 coefficients for each of the 49 frames in a second of speech.
"""

from __future__ import annotations

from typing import Any

import onnx

from bench.models.graph import Graph

FRAMES, COEFFICIENTS, CHANNELS, BLOCKS, WORDS = 49, 10, 64, 4, 12


def dscnn() -> onnx.ModelProto:
    graph = Graph("dscnn")
    value = graph.input("features", ("batch", 1, FRAMES, COEFFICIENTS))
    value = _conv(graph, value, (CHANNELS, 1, 10, 4), strides=[2, 2], pads=[4, 1, 5, 2])
    for _ in range(BLOCKS):
        value = _conv(graph, value, (CHANNELS, 1, 3, 3), group=CHANNELS, pads=[1, 1, 1, 1])
        value = _conv(graph, value, (CHANNELS, CHANNELS, 1, 1))
    pooled = graph.node("Flatten", graph.node("GlobalAveragePool", value))
    logits = graph.node("Gemm", pooled, graph.weight(CHANNELS, WORDS), graph.weight(WORDS))
    graph.output(graph.node("Softmax", logits, output="probabilities", axis=-1), ("batch", WORDS))
    return graph.model()


def _conv(graph: Graph, value: str, shape: tuple[int, int, int, int], **attributes: Any) -> str:
    weight, bias = graph.weight(*shape, gain=2), graph.weight(shape[0])
    return graph.node("Relu", graph.node("Conv", value, weight, bias, **attributes))

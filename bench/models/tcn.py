"""Keyword spotting along time (after TC-ResNet, Choi et al., 2019): features[batch, 40, time] -> scores[batch, 12,
time].

Convolutions are causal: they pad in front of the first frame only, so that a frame depends on earlier ones alone.
"""

from __future__ import annotations

import onnx

from bench.models.graph import Graph

FEATURES, CHANNELS, WORDS, TAPS = 40, 24, 12, 5
DILATIONS = (1, 2, 4, 8)


def tcn() -> onnx.ModelProto:
    graph = Graph("tcn")
    features = graph.input("features", ("batch", FEATURES, "time"))
    value = _conv(graph, features, FEATURES, CHANNELS, 3)
    for dilation in DILATIONS:
        inner = _conv(graph, graph.node("Relu", value), CHANNELS, CHANNELS, TAPS, dilation)
        value = graph.node("Add", value, _conv(graph, graph.node("Relu", inner), CHANNELS, CHANNELS, TAPS, dilation))
    logits = _conv(graph, graph.node("Relu", value), CHANNELS, WORDS, 1)
    graph.output(graph.node("Softmax", logits, output="scores", axis=1), ("batch", WORDS, "time"))
    return graph.model()


def _conv(graph: Graph, value: str, inputs: int, outputs: int, taps: int, dilation: int = 1) -> str:
    weight = graph.weight(outputs, inputs, taps, fan_in=inputs * taps)
    pads = [(taps - 1) * dilation, 0]
    return graph.node("Conv", value, weight, graph.weight(outputs), dilations=[dilation], pads=pads)

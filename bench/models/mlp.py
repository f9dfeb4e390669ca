"""Three dense layers: x[batch, 64] -> probabilities[batch, 10]."""

from __future__ import annotations

import onnx

from bench.models.graph import Graph


def mlp() -> onnx.ModelProto:
    graph = Graph("mlp")
    value = graph.input("x", ("batch", 64))
    for width_in, width_out in ((64, 128), (128, 128)):
        value = graph.node(
            "Relu", graph.node("Gemm", value, graph.weight(width_in, width_out), graph.weight(width_out))
        )
    logits = graph.node("Gemm", value, graph.weight(128, 10), graph.weight(10))
    graph.output(graph.node("Softmax", logits, output="probabilities", axis=-1), ("batch", 10))
    return graph.model()

"""A tagger of words: two bidirectional LSTM layers, ids[batch, seq] -> tags[batch, seq, 17].

Each direction is 128 wide; ids are in 0..9999.
"""

from __future__ import annotations

import onnx
from onnx import TensorProto

from bench.models.graph import Graph
from bench.models.transformer import dense, integers

VOCABULARY, EMBEDDING, HIDDEN, LAYERS, TAGS = 10_000, 128, 128, 2, 17


def lstm() -> onnx.ModelProto:
    graph = Graph("lstm")
    ids = graph.input("ids", ("batch", "seq"), TensorProto.INT64)
    value = graph.node("Gather", graph.weight(VOCABULARY, EMBEDDING), ids)
    value = graph.node("Transpose", value, perm=[1, 0, 2])
    width = EMBEDDING
    for _ in range(LAYERS):
        value = _layer(graph, value, width)
        width = 2 * HIDDEN
    logits = dense(graph, graph.node("Transpose", value, perm=[1, 0, 2]), width, TAGS)
    graph.output(graph.node("Softmax", logits, output="tags", axis=-1), ("batch", "seq", TAGS))
    return graph.model()


def _layer(graph: Graph, value: str, width: int) -> str:
    """One bidirectional layer: [seq, batch, width] -> [seq, batch, 2 * HIDDEN]."""
    weights = [graph.weight(2, 4 * HIDDEN, size, fan_in=size) for size in (width, HIDDEN)]
    bias = graph.weight(2, 8 * HIDDEN, fan_in=HIDDEN)
    both = graph.node("LSTM", value, *weights, bias, hidden_size=HIDDEN, direction="bidirectional")
    joined = graph.node("Transpose", both, perm=[0, 2, 1, 3])
    return graph.node("Reshape", joined, integers(graph, 0, 0, 2 * HIDDEN))

"""One transformer encoder layer with an embedding: ids[batch, seq] -> sentence[batch, 64].

Both dims are symbolic; ids are in 0..999. The sentence vector is the mean over the sequence.
"""

from __future__ import annotations

import onnx
from onnx import TensorProto

from bench.models.graph import Graph
from bench.models.transformer import KEYS, QUERIES, attended, dense, merge_heads, normalised, split_heads

VOCABULARY, WIDTH, HEADS, HIDDEN = 1000, 64, 4, 256
HEAD = WIDTH // HEADS


def encoder() -> onnx.ModelProto:
    graph = Graph("encoder")
    ids = graph.input("ids", ("batch", "seq"), TensorProto.INT64)
    value = graph.node("Gather", graph.weight(VOCABULARY, WIDTH), ids)
    value = normalised(graph, graph.node("Add", value, _attention(graph, value)), WIDTH)
    value = normalised(graph, graph.node("Add", value, _feed_forward(graph, value)), WIDTH)
    graph.node("ReduceMean", value, output="sentence", axes=[1], keepdims=0)
    graph.output("sentence", ("batch", WIDTH))
    return graph.model()


def _attention(graph: Graph, value: str) -> str:
    queries, keys, values = (
        split_heads(graph, dense(graph, value, WIDTH, WIDTH), HEADS, HEAD, order) for order in (QUERIES, KEYS, QUERIES)
    )
    return dense(graph, merge_heads(graph, attended(graph, queries, keys, values, HEAD), WIDTH), WIDTH, WIDTH)


def _feed_forward(graph: Graph, value: str) -> str:
    return dense(graph, graph.node("Relu", dense(graph, value, WIDTH, HIDDEN)), HIDDEN, WIDTH)

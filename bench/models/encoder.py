"""One transformer encoder layer with an embedding: ids[batch, seq] -> sentence[batch, 64].

Both dims are symbolic; ids lie in 0..999. The sentence vector is the mean over the sequence.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto

from bench.models.graph import Graph

VOCABULARY, WIDTH, HEADS, HIDDEN = 1000, 64, 4, 256
HEAD = WIDTH // HEADS


def encoder() -> onnx.ModelProto:
    graph = Graph("encoder")
    ids = graph.input("ids", ("batch", "seq"), TensorProto.INT64)
    value = graph.node("Gather", graph.weight(VOCABULARY, WIDTH), ids)
    value = _normalised(graph, graph.node("Add", value, _attention(graph, value)))
    value = _normalised(graph, graph.node("Add", value, _feed_forward(graph, value)))
    graph.node("ReduceMean", value, output="sentence", axes=[1], keepdims=0)
    graph.output("sentence", ("batch", WIDTH))
    return graph.model()


def _dense(graph: Graph, value: str, width_in: int, width_out: int) -> str:
    return graph.node("Add", graph.node("MatMul", value, graph.weight(width_in, width_out)), graph.weight(width_out))


def _attention(graph: Graph, value: str) -> str:
    split = graph.constant(np.array([0, 0, HEADS, HEAD], np.int64))
    queries, keys, values = (
        graph.node("Transpose", graph.node("Reshape", _dense(graph, value, WIDTH, WIDTH), split), perm=perm)
        for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
    )
    scale = graph.constant(np.array(HEAD**-0.5, np.float32))
    scores = graph.node("Softmax", graph.node("Mul", graph.node("MatMul", queries, keys), scale), axis=-1)
    mixed = graph.node("Transpose", graph.node("MatMul", scores, values), perm=[0, 2, 1, 3])
    merged = graph.node("Reshape", mixed, graph.constant(np.array([0, 0, WIDTH], np.int64)))
    return _dense(graph, merged, WIDTH, WIDTH)


def _feed_forward(graph: Graph, value: str) -> str:
    return _dense(graph, graph.node("Relu", _dense(graph, value, WIDTH, HIDDEN)), HIDDEN, WIDTH)


def _normalised(graph: Graph, value: str) -> str:
    scale, bias = graph.constant(np.ones(WIDTH, np.float32)), graph.constant(np.zeros(WIDTH, np.float32))
    return graph.node("LayerNormalization", value, scale, bias, axis=-1)

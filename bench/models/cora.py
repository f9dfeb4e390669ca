"""The encoder of Vaswani et al. (2017), the workload of CoRa (Fegade et al., 2022): embeddings[batch, seq, 512],
attention_mask[batch, seq] -> last_hidden_state[batch, seq, 512].

Six layers, 8 heads, 2048 hidden units, at most 512 tokens. With `ids`, the input is input_ids[batch, seq] instead, from
a vocabulary of 4,096 words.
"""

from __future__ import annotations

import onnx
from onnx import TensorProto

from bench.models.graph import Graph
from bench.models.transformer import (
    KEYS,
    QUERIES,
    additive_mask,
    attended,
    dense,
    merge_heads,
    normalised,
    split_heads,
)

VOCABULARY, LAYERS, WIDTH, HEADS, HIDDEN = 4096, 6, 512, 8, 2048
HEAD = WIDTH // HEADS
OUTPUT = "last_hidden_state"


def cora(layers: int = LAYERS, *, ids: bool = False) -> onnx.ModelProto:
    graph = Graph("cora")
    if ids:
        words = graph.input("input_ids", ("batch", "seq"), TensorProto.INT64)
        value = graph.node("Gather", graph.weight(VOCABULARY, WIDTH), words)
    else:
        value = graph.input("embeddings", ("batch", "seq", WIDTH))
    mask = additive_mask(graph, graph.input("attention_mask", ("batch", "seq"), TensorProto.INT64))
    for layer in range(layers):
        value = normalised(graph, graph.node("Add", value, _attention(graph, value, mask)), WIDTH)
        hidden = graph.node("Relu", dense(graph, value, WIDTH, HIDDEN))
        value = graph.node("Add", value, dense(graph, hidden, HIDDEN, WIDTH))
        value = normalised(graph, value, WIDTH, output=OUTPUT if layer == layers - 1 else None)
    graph.output(value, ("batch", "seq", WIDTH))
    return graph.model()


def _attention(graph: Graph, value: str, mask: str) -> str:
    queries, keys, values = (
        split_heads(graph, dense(graph, value, WIDTH, WIDTH), HEADS, HEAD, order) for order in (QUERIES, KEYS, QUERIES)
    )
    mixed = attended(graph, queries, keys, values, HEAD, mask)
    return dense(graph, merge_heads(graph, mixed, WIDTH), WIDTH, WIDTH)

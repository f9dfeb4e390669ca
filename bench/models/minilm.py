"""A sentence encoder like MiniLM-L6 (Wang et al., 2020): input_ids, attention_mask, token_type_ids
[batch, seq] -> last_hidden_state[batch, seq, 384].

Six layers, 12 heads, at most 512 tokens. The vocabulary is reduced to 4,096 words, on which the time does not depend.
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
    gelu,
    integers,
    merge_heads,
    normalised,
    split_heads,
)

VOCABULARY, POSITIONS, LAYERS, WIDTH, HEADS, HIDDEN = 4096, 512, 6, 384, 12, 1536
HEAD = WIDTH // HEADS
EPSILON = 1e-12
INPUTS = ("input_ids", "attention_mask", "token_type_ids")


def minilm(layers: int = LAYERS) -> onnx.ModelProto:
    graph = Graph("minilm")
    ids, present, kinds = (graph.input(name, ("batch", "seq"), TensorProto.INT64) for name in INPUTS)
    value = _embedded(graph, ids, kinds)
    mask = additive_mask(graph, present)
    for layer in range(layers):
        value = normalised(graph, graph.node("Add", _attention(graph, value, mask), value), WIDTH, EPSILON)
        hidden = gelu(graph, dense(graph, value, WIDTH, HIDDEN))
        value = graph.node("Add", dense(graph, hidden, HIDDEN, WIDTH), value)
        value = normalised(graph, value, WIDTH, EPSILON, "last_hidden_state" if layer == layers - 1 else None)
    graph.output(value, ("batch", "seq", WIDTH))
    return graph.model()


def _embedded(graph: Graph, ids: str, kinds: str) -> str:
    """The sum of the embeddings of word, segment and position, normalised."""
    length = graph.node("Gather", graph.node("Shape", ids), integers(graph, 1), axis=0)
    positions = graph.node("Slice", integers(graph, *range(POSITIONS)), integers(graph, 0), length, integers(graph, 0))
    words = graph.node("Gather", graph.weight(VOCABULARY, WIDTH), ids)
    segments = graph.node("Gather", graph.weight(2, WIDTH), kinds)
    places = graph.node("Gather", graph.weight(POSITIONS, WIDTH), positions)
    total = graph.node("Add", graph.node("Add", words, segments), places)
    return normalised(graph, total, WIDTH, EPSILON)


def _attention(graph: Graph, value: str, mask: str) -> str:
    queries, keys, values = (
        split_heads(graph, dense(graph, value, WIDTH, WIDTH), HEADS, HEAD, order) for order in (QUERIES, KEYS, QUERIES)
    )
    mixed = attended(graph, queries, keys, values, HEAD, mask)
    return dense(graph, merge_heads(graph, mixed, WIDTH), WIDTH, WIDTH)

"""A decoder like GPT-2 small (Radford et al., 2019), which continues from stored keys and values.

    input_ids[batch, seq], past_key_0[batch, 12, past, 64], past_value_0, past_key_1, ...
    -> logits[batch, seq, words], present_key_0[batch, 12, past + seq, 64], present_value_0, ...

`past = 0` reads a prompt, `seq = 1` generates a token. GPT-2 has 12 layers and 50,257 words; both numbers are reduced
here to keep the file small (28 MB per layer). The time of a token is proportional to the weights that it reads, which
are still far larger than any cache.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto

from bench.models.graph import Graph
from bench.models.transformer import (
    QUERIES,
    attended,
    dense,
    gelu_tanh,
    integers,
    merge_heads,
    normalised,
    number,
    split_heads,
)

WORDS, POSITIONS, WIDTH, HEADS, HIDDEN = 8192, 1024, 768, 12, 3072
HEAD = WIDTH // HEADS
LAYERS = 4


def gpt2(layers: int = LAYERS) -> onnx.ModelProto:
    graph = Graph("gpt2")
    ids = graph.input("input_ids", ("batch", "seq"), TensorProto.INT64)
    cached = ("batch", HEADS, "past", HEAD)
    past = [tuple(graph.input(f"past_{kind}_{layer}", cached) for kind in ("key", "value")) for layer in range(layers)]
    places, visible = _positions(graph, ids, past[0][0])
    words = graph.weight(WORDS, WIDTH)
    value = graph.node(
        "Add", graph.node("Gather", words, ids), graph.node("Gather", graph.weight(POSITIONS, WIDTH), places)
    )
    for layer, (past_key, past_value) in enumerate(past):
        mixed = _attention(graph, normalised(graph, value, WIDTH), past_key, past_value, visible, layer)
        value = graph.node("Add", mixed, value)
        hidden = gelu_tanh(graph, dense(graph, normalised(graph, value, WIDTH), WIDTH, HIDDEN))
        value = graph.node("Add", dense(graph, hidden, HIDDEN, WIDTH), value)
    projection = graph.node("Transpose", words, perm=[1, 0])
    graph.node("MatMul", normalised(graph, value, WIDTH), projection, output="logits")
    graph.output("logits", ("batch", "seq", WORDS))
    for layer in range(layers):
        for kind in ("key", "value"):
            graph.output(f"present_{kind}_{layer}", ("batch", HEADS, "total", HEAD))
    return graph.model()


def _positions(graph: Graph, ids: str, past_key: str) -> tuple[str, str]:
    """The positions of the new words, [seq], and their attention mask, 0 or the lowest float, [seq, past + seq]."""
    new = graph.node("Gather", graph.node("Shape", ids), graph.constant(np.array(1)))
    past = graph.node("Gather", graph.node("Shape", past_key), graph.constant(np.array(2)))
    total = graph.node("Add", past, new)
    one = graph.constant(np.array(1))
    places = graph.node("Range", past, total, one)
    keys = graph.node("Range", graph.constant(np.array(0)), total, one)
    ahead = graph.node("Greater", keys, graph.node("Unsqueeze", places, integers(graph, 1)))
    return places, graph.node("Where", ahead, number(graph, float(np.finfo(np.float32).min)), number(graph, 0))


def _attention(graph: Graph, value: str, past_key: str, past_value: str, visible: str, layer: int) -> str:
    joint = dense(graph, value, WIDTH, 3 * WIDTH)
    queries, new_keys, new_values = (
        split_heads(graph, part, HEADS, HEAD, QUERIES) for part in graph.split(joint, 3, WIDTH, axis=2)
    )
    keys = graph.node("Concat", past_key, new_keys, output=f"present_key_{layer}", axis=2)
    values = graph.node("Concat", past_value, new_values, output=f"present_value_{layer}", axis=2)
    transposed = graph.node("Transpose", keys, perm=[0, 1, 3, 2])
    mixed = attended(graph, queries, transposed, values, HEAD, visible)
    return dense(graph, merge_heads(graph, mixed, WIDTH), WIDTH, WIDTH)

"""An image classifier like ViT-Ti/16 (Touvron et al., 2021):
image[batch, 3, 224, 224] -> scores[batch, 1000].

Twelve layers, 192 wide, 3 heads; queries, keys and values come from one product.
"""

from __future__ import annotations

import onnx

from bench.models.graph import Graph
from bench.models.transformer import attended, dense, gelu, integers, merge_heads, normalised

SIDE, PATCH, LAYERS, WIDTH, HEADS, HIDDEN, CLASSES = 224, 16, 12, 192, 3, 768, 1000
HEAD = WIDTH // HEADS
TOKENS = (SIDE // PATCH) ** 2 + 1


def vit() -> onnx.ModelProto:
    graph = Graph("vit")
    value = _embedded(graph, graph.input("image", ("batch", 3, SIDE, SIDE)))
    for _ in range(LAYERS):
        value = graph.node("Add", value, _attention(graph, normalised(graph, value, WIDTH)))
        hidden = gelu(graph, dense(graph, normalised(graph, value, WIDTH), WIDTH, HIDDEN))
        value = graph.node("Add", value, dense(graph, hidden, HIDDEN, WIDTH))
    first = graph.node("Gather", normalised(graph, value, WIDTH), integers(graph, 0), axis=1)
    token = graph.node("Reshape", first, integers(graph, -1, WIDTH))
    scores = graph.node("Gemm", token, graph.weight(WIDTH, CLASSES), graph.weight(CLASSES), output="scores")
    graph.output(scores, ("batch", CLASSES))
    return graph.model()


def _embedded(graph: Graph, image: str) -> str:
    """A learned token, then a token per patch, with positions added: [batch, 197, 192]."""
    weight, bias = graph.weight(WIDTH, 3, PATCH, PATCH), graph.weight(WIDTH)
    patches = graph.node("Conv", image, weight, bias, strides=[PATCH, PATCH])
    flat = graph.node("Transpose", graph.node("Reshape", patches, integers(graph, 0, WIDTH, -1)), perm=[0, 2, 1])
    batch = graph.node("Gather", graph.node("Shape", image), integers(graph, 0), axis=0)
    shape = graph.node("Concat", batch, integers(graph, 1, WIDTH), axis=0)
    token = graph.node("Expand", graph.weight(1, 1, WIDTH), shape)
    return graph.node("Add", graph.node("Concat", token, flat, axis=1), graph.weight(1, TOKENS, WIDTH))


def _attention(graph: Graph, value: str) -> str:
    joint = graph.node("Reshape", dense(graph, value, WIDTH, 3 * WIDTH), integers(graph, 0, 0, 3, HEADS, HEAD))
    split = graph.node("Transpose", joint, perm=[2, 0, 3, 1, 4])
    queries, keys, values = (
        graph.node("Squeeze", graph.node("Gather", split, integers(graph, part), axis=0), integers(graph, 0))
        for part in range(3)
    )
    mixed = attended(graph, queries, graph.node("Transpose", keys, perm=[0, 1, 3, 2]), values, HEAD)
    return dense(graph, merge_heads(graph, mixed, WIDTH), WIDTH, WIDTH)

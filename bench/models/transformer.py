"""Parts of transformers in the form of PyTorch's exporter: attention, feed-forward and normalisation as single
operators. Values are [batch, seq, width] unless stated otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import TensorProto

from bench.models.graph import Graph

QUERIES, KEYS = (0, 2, 1, 3), (0, 2, 3, 1)
"""Permutations of [batch, seq, heads, head] to [batch, heads, seq, head], and to [batch, heads, head, seq]."""


def integers(graph: Graph, *values: int) -> str:
    """A constant int64 vector."""
    return graph.constant(np.array(values, np.int64))


def number(graph: Graph, value: float) -> str:
    """A constant float32 scalar."""
    return graph.constant(np.array(value, np.float32))


def dense(graph: Graph, value: str, width_in: int, width_out: int) -> str:
    return graph.node("Add", graph.node("MatMul", value, graph.weight(width_in, width_out)), graph.weight(width_out))


def normalised(graph: Graph, value: str, width: int, epsilon: float = 1e-5, output: str | None = None) -> str:
    scale, bias = graph.constant(np.ones(width, np.float32)), graph.constant(np.zeros(width, np.float32))
    return graph.node("LayerNormalization", value, scale, bias, output=output, axis=-1, epsilon=epsilon)


def gelu(graph: Graph, value: str) -> str:
    """`x / 2 * (1 + erf(x / sqrt(2)))` (Hendrycks and Gimpel, 2016)."""
    error = graph.node("Erf", graph.node("Div", value, number(graph, np.sqrt(2))))
    doubled = graph.node("Mul", value, graph.node("Add", error, number(graph, 1)))
    return graph.node("Mul", doubled, number(graph, 0.5))


def gelu_tanh(graph: Graph, value: str) -> str:
    """`x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))`, the form in GPT-2."""
    cubed = graph.node("Mul", graph.node("Pow", value, number(graph, 3)), number(graph, 0.044715))
    inner = graph.node("Mul", graph.node("Add", value, cubed), number(graph, np.sqrt(2 / np.pi)))
    outer = graph.node("Add", graph.node("Tanh", inner), number(graph, 1))
    return graph.node("Mul", graph.node("Mul", value, number(graph, 0.5)), outer)


def additive_mask(graph: Graph, present: str) -> str:
    """present[batch, seq] -> the mask that `attended` adds, [batch, 1, 1, seq]: 0 where a word is present, else the
    lowest float."""
    unsqueezed = graph.node("Unsqueeze", present, integers(graph, 1, 2))
    absent = graph.node("Sub", number(graph, 1), graph.node("Cast", unsqueezed, to=TensorProto.FLOAT))
    return graph.node("Mul", absent, number(graph, float(np.finfo(np.float32).min)))


def split_heads(graph: Graph, value: str, heads: int, head: int, order: Sequence[int] = QUERIES) -> str:
    split = graph.node("Reshape", value, integers(graph, 0, 0, heads, head))
    return graph.node("Transpose", split, perm=list(order))


def merge_heads(graph: Graph, value: str, width: int) -> str:
    """[batch, heads, seq, head] -> [batch, seq, width]."""
    return graph.node("Reshape", graph.node("Transpose", value, perm=list(QUERIES)), integers(graph, 0, 0, width))


def attended(graph: Graph, queries: str, keys: str, values: str, head: int, mask: str | None = None) -> str:
    """Scaled dot-product attention (Vaswani et al., 2017) of queries[batch, heads, n, head], transposed
    keys[batch, heads, head, m] and values[batch, heads, m, head]; `mask` is added to the scores.
    """
    scores = graph.node("Mul", graph.node("MatMul", queries, keys), number(graph, head**-0.5))
    if mask is not None:
        scores = graph.node("Add", scores, mask)
    return graph.node("MatMul", graph.node("Softmax", scores, axis=-1), values)

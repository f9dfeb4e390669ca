"""The graphs inside nodes: the branches of Ifs and the bodies of loops, which are attributes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx


def graphs_of(attribute: onnx.AttributeProto) -> Iterator[onnx.GraphProto]:
    if attribute.HasField("g"):
        yield attribute.g
    yield from attribute.graphs


def nested(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.GraphProto]:
    """The graphs inside nodes, at any depth; each graph comes before the graphs inside it."""
    for attribute in (attribute for node in nodes for attribute in node.attribute):
        for graph in graphs_of(attribute):
            yield graph
            yield from nested(graph.node)

"""The graphs of a model: branches and bodies are attributes of nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx


def graphs_of(attribute: onnx.AttributeProto) -> Iterator[onnx.GraphProto]:
    if attribute.HasField("g"):
        yield attribute.g
    yield from attribute.graphs


def nested(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.GraphProto]:
    """The graphs within nodes, at any depth; each before those in it."""
    for attribute in (attribute for node in nodes for attribute in node.attribute):
        for graph in graphs_of(attribute):
            yield graph
            yield from nested(graph.node)

"""Sorts the nodes of a model so that each comes after the nodes whose results it reads.

The specification demands this order. ONNX Runtime does not in a model's main graph, so there are models in which a tool
has appended nodes at the end."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence

import onnx

from deploykit.frontends.onnx.graphs import nested


def in_order(proto: onnx.ModelProto) -> onnx.ModelProto:
    """`proto`, or a copy with sorted nodes, which otherwise keep their order. Nodes of a cycle come last."""
    order = _order(proto.graph.node)
    if order == list(range(len(order))):
        return proto
    found = onnx.ModelProto()
    found.CopyFrom(proto)
    del found.graph.node[:]
    found.graph.node.extend(proto.graph.node[at] for at in order)
    return found


def _order(nodes: Sequence[onnx.NodeProto]) -> list[int]:
    """The indices of `nodes` in an order in which they can run."""
    writers = {name: at for at, node in enumerate(nodes) for name in node.output if name}
    readers: dict[int, list[int]] = {}
    missing = [0] * len(nodes)
    for at, node in enumerate(nodes):
        for writer in {writers[name] for name in _reads(node) if name in writers} - {at}:
            readers.setdefault(writer, []).append(at)
            missing[at] += 1
    ready = [at for at, count in enumerate(missing) if not count]
    order: list[int] = []
    while ready:
        at = heapq.heappop(ready)
        order.append(at)
        for reader in readers.get(at, ()):
            missing[reader] -= 1
            if not missing[reader]:
                heapq.heappush(ready, reader)
    return order + [at for at, count in enumerate(missing) if count]


def _reads(node: onnx.NodeProto) -> Iterable[str]:
    """The names that a node or a graph inside it reads. These may include names that the inner graph defines itself."""
    yield from node.input
    for graph in nested([node]):
        yield from (name for inner in graph.node for name in inner.input)
        yield from (output.name for output in graph.output)

"""Nodes in the bodies of functions, and where nodes are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from deploykit.frontends.onnx.node import Node


def place_of(source: ir.Node | View) -> str:
    """The position of a node in its graph, as a text."""
    if isinstance(source, View) or source.graph is None:
        return "in the body of a function"
    nodes = list(source.graph)
    return f"node {nodes.index(source) + 1} of {len(nodes)} of graph '{source.graph.name or ''}'"


def resolved(inner: ir.Node, function: ir.Function, node: Node) -> View:
    """A copy of a function's node whose attribute references are replaced by the caller's attributes."""
    attributes = []
    for attribute in inner.attributes.values():
        if not attribute.is_ref():
            attributes.append(attribute)
            continue
        name = attribute.ref_attr_name or ""
        given = node.attributes.get(name) or function.attributes.get(name)
        if given is not None and given.value is not None:
            attributes.append(ir.Attr(attribute.name, given.type, given.value))
    return View(
        inner.op_type,
        inner.domain,
        f"{node.name}/{inner.name or inner.op_type}",
        {a.name: a for a in attributes},
        inner.inputs,
        inner.outputs,
    )


@dataclass(frozen=True)
class View:
    """A node of a function body for one call: with resolved attributes, and the body's own names of values."""

    op_type: str
    domain: str
    name: str
    attributes: Mapping[str, ir.Attr]
    inputs: Sequence[ir.Value | None]
    outputs: Sequence[ir.Value]

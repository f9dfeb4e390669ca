"""Imports the ONNX operators DepthToSpace, SpaceToDepth (`compiler.operators.blocks`)."""

from __future__ import annotations

from collections.abc import Mapping

from deploykit.compiler.operators import blocks
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.value import Value
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator

_ORDERS: Mapping[str, blocks.Order] = {"DCR": "DCR", "CRD": "CRD"}


def _order(node: Node) -> blocks.Order:
    return _ORDERS[node.choice("mode", _ORDERS, "DCR")]


@operator("DepthToSpace")
def depth_to_space(ctx: Context, node: Node, x: Value) -> Value:
    return blocks.depth_to_space(ctx, x, node.int("blocksize"), _order(node))


@operator("SpaceToDepth")
def space_to_depth(ctx: Context, node: Node, x: Value) -> Value:
    return blocks.space_to_depth(ctx, x, node.int("blocksize"), _order(node))

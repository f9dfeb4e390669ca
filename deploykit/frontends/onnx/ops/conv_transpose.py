"""Imports the ONNX operator ConvTranspose (`compiler.operators.conv_transpose`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.conv_transpose import conv_transpose
from deploykit.frontends.onnx.attributes import AUTO_PADS, SAME, axis_attribute, explicit_pads
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator

if TYPE_CHECKING:
    from deploykit.compiler.operators.building.windows import Same


@operator("ConvTranspose")
def conv_transpose_operator(ctx: Context, node: Node, x: Value, w: Value, bias: Value | None = None) -> Value:
    rank = x.rank - 2
    return conv_transpose(
        ctx,
        x,
        w,
        bias,
        strides=axis_attribute(node, "strides", rank, 1),
        dilations=axis_attribute(node, "dilations", rank, 1),
        pads=_pads(node, rank),
        extra=axis_attribute(node, "output_padding", rank, 0),
        sizes=_sizes(node, rank) if node.has("output_shape") else None,
        group=node.int("group", 1),
    )


def _sizes(node: Node, rank: int) -> list[int]:
    """The output sizes of the spatial axes; some exporters write batch and channels before them."""
    sizes = node.ints("output_shape")[-rank:]
    if len(sizes) != rank:
        raise Unsupported(f"'output_shape' has {len(sizes)} sizes for {rank} spatial axes")
    return sizes


def _pads(node: Node, rank: int) -> Sequence[int] | Same:
    automatic = node.choice("auto_pad", AUTO_PADS, "NOTSET")
    if automatic in SAME:
        return SAME[automatic]
    if automatic != "VALID" and node.has("output_shape"):
        return node.ints("pads", [])
    return explicit_pads(node, rank)

"""Imports the ONNX operator NonMaxSuppression (`compiler.operators.images.suppression`)."""

from __future__ import annotations

from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.images import suppression
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator


@operator("NonMaxSuppression")
def non_max_suppression(
    ctx: Context,
    node: Node,
    boxes: Value,
    scores: Value,
    most: Value | None = None,
    overlap: Value | None = None,
    score: Value | None = None,
) -> Value:
    centred = bool(node.int("center_point_box", 0))
    return suppression.non_max_suppression(ctx, boxes, scores, most, overlap, score, centred=centred)

"""Imports the ONNX operators RoiAlign, MaxRoiPool (`compiler.operators.images.regions`). Before opset 16 RoiAlign has
no shift by half a pixel."""

from __future__ import annotations

from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.images import regions as pooling
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator


@operator("RoiAlign")
def roi_align(ctx: Context, node: Node, x: Value, regions: Value, images: Value) -> Value:
    default = "half_pixel" if node.opset >= 16 else "output_half_pixel"
    mode = node.choice("mode", ("avg", "max"), "avg")
    coordinates = node.choice("coordinate_transformation_mode", ("half_pixel", "output_half_pixel"), default)
    return pooling.roi_align(
        ctx,
        x,
        regions,
        images,
        bins=(node.int("output_height", 1), node.int("output_width", 1)),
        scale=node.float("spatial_scale", 1.0),
        samples=node.int("sampling_ratio", 0),
        average=mode == "avg",
        half_pixel=coordinates == "half_pixel",
    )


@operator("MaxRoiPool")
def max_roi_pool(ctx: Context, node: Node, x: Value, regions: Value) -> Value:
    return pooling.max_roi_pool(ctx, x, regions, node.ints("pooled_shape"), node.float("spatial_scale", 1.0))

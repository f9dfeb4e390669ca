"""Imports the ONNX operators Upsample, Resize (`compiler.operators.images.resize`).

The scales of Upsample are an attribute up to opset 8. Up to opset 10 all coordinates are asymmetric. From opset 11 on,
sizes may be given instead of scales, and an empty operand counts as absent.
"""

from __future__ import annotations

from collections.abc import Mapping

from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.integers import is_plain
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.images.resampling import COORDINATES, NEAREST_MODES, Method
from deploykit.compiler.operators.images.resize import Policy, resize_by, resize_to
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator

_POLICIES: Mapping[str, Policy] = {
    "stretch": "stretch",
    "not_larger": "not_larger",
    "not_smaller": "not_smaller",
}


@operator("Upsample")
def upsample_by_attribute(ctx: Context, node: Node, x: Value) -> Value:
    scales = ctx.constant(node.floats("scales"), "float32")
    return resize_by(ctx, x, range(x.rank), scales, _asymmetric(node))


@operator("Upsample", since=9)
@operator("Resize", since=10)
def resize_asymmetric(ctx: Context, node: Node, x: Value, scales: Value) -> Value:
    return resize_by(ctx, x, range(x.rank), scales, _asymmetric(node))


def _asymmetric(node: Node) -> Method:
    mode = node.choice("mode", ("nearest", "linear", "bilinear"), "nearest")
    return Method("nearest" if mode == "nearest" else "linear", "asymmetric", "simple")


@operator("Resize", since=11)
def resize(
    ctx: Context,
    node: Node,
    x: Value,
    roi: Value | None = None,
    scales: Value | None = None,
    sizes: Value | None = None,
) -> Value:
    method = Method(
        node.choice("mode", ("nearest", "linear", "cubic"), "nearest"),
        node.choice("coordinate_transformation_mode", COORDINATES, "half_pixel"),
        node.choice("nearest_mode", NEAREST_MODES, "round_prefer_floor"),
        bool(node.int("antialias", 0)),
        bool(node.int("exclude_outside", 0)),
        node.float("cubic_coeff_a", -0.75),
        node.float("extrapolation_value", 0.0),
    )
    axes = node.axes(x.rank)
    roi = roi if method.coordinates == "tf_crop_and_resize" else None
    if scales is not None and not _is_empty(scales):
        if sizes is not None and not _is_empty(sizes):
            raise Unsupported("both scales and sizes are given; only one of them is allowed")
        return resize_by(ctx, x, axes, scales, method, roi)
    if sizes is None:
        raise Unsupported("neither scales nor sizes are given")
    policy = _POLICIES[node.choice("keep_aspect_ratio_policy", _POLICIES, "stretch")]
    return resize_to(ctx, x, axes, sizes, method, roi, policy)


def _is_empty(operand: Value) -> bool:
    return any(is_plain(n) and n == 0 for n in operand.shape)

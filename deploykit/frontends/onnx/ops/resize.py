"""ONNX: Upsample, Resize (`compiler.operators.resize`)."""

from __future__ import annotations

from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.errors import Unsupported
from deploykit.compiler.operators.resampling import (
    COORDINATES,
    NEAREST_MODES,
    Axis,
    Method,
)
from deploykit.compiler.operators.resize import is_empty, keep_aspect_ratio, resample, resize_by, with_roi
from deploykit.compiler.operators.value import Value
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator


@operator("Upsample")
def upsample_attribute(ctx: Context, node: Node, x: Value) -> Value:
    scales = ctx.constant(node.floats("scales"), "float32")
    return resize_by(ctx, x, list(range(x.rank)), scales, _simple(node))


@operator("Upsample", since=9)
@operator("Resize", since=10)
def resize_simple(ctx: Context, node: Node, x: Value, scales: Value) -> Value:
    return resize_by(ctx, x, list(range(x.rank)), scales, _simple(node))


def _simple(node: Node) -> Method:
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
    if scales is not None and not is_empty(scales):
        if sizes is not None and not is_empty(sizes):
            raise Unsupported("both scales and sizes are given, and only one of them can hold")
        return resize_by(ctx, x, axes, scales, method, roi)
    if sizes is None:
        raise Unsupported("neither scales nor sizes are given")
    policy = node.choice("keep_aspect_ratio_policy", ("stretch", "not_larger", "not_smaller"), "stretch")
    wanted = ctx.ints(sizes, minimum=0, hint="size")
    if policy == "stretch":
        changes = [Axis(axis, x.shape[axis], size, None) for axis, size in zip(axes, wanted, strict=True)]
    else:
        changes = keep_aspect_ratio(ctx, x, axes, wanted, policy)
    return resample(ctx, x, with_roi(ctx, changes, roi), method)

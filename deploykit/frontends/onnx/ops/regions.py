"""ONNX: RoiAlign, MaxRoiPool (`compiler.operators.regions`)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tvm import ir, te, tirx

from deploykit.compiler.operators.broadcast import compute_dtype, load, store
from deploykit.compiler.operators.context import Context
from deploykit.compiler.operators.errors import Unsupported
from deploykit.compiler.operators.imperative import Array, Code, imperative
from deploykit.compiler.operators.indices import checked
from deploykit.compiler.operators.integers import clamp, equal, expr, exprs
from deploykit.compiler.operators.reduce_axes import lowest
from deploykit.compiler.operators.regions import Align, axis_of, bin_of, images_of, rounded, span
from deploykit.compiler.operators.sampling import number
from deploykit.compiler.operators.value import Value
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator


@operator("RoiAlign")
def roi_align(ctx: Context, node: Node, x: Value, regions: Value, images: Value) -> Value:
    mode = node.choice("mode", ("avg", "max"), "avg")
    default = "half_pixel" if node.opset >= 16 else "output_half_pixel"
    counts = regions.shape[0], images.shape[0]
    half = node.choice("coordinate_transformation_mode", ("half_pixel", "output_half_pixel"), default) == "half_pixel"
    rule = Align(
        scale=node.float("spatial_scale", 1.0),
        offset=0.5 if half else 0.0,
        ratio=node.int("sampling_ratio", 0),
        average=mode == "avg",
        malformed=not half,
    )
    bins = node.int("output_height", 1), node.int("output_width", 1)
    if min(bins) < 1:
        raise Unsupported(f"a result of {bins[0]} by {bins[1]} bins; both must be positive")
    ctx.require(equal(regions.shape[1], 4), "regions of {} coordinates", regions.shape[1])
    ctx.require(equal(*counts), "{} regions, images of {} are given", *counts)
    shape = exprs((regions.shape[0], x.shape[1], *bins))
    images = checked(ctx, images, [(0, x.shape[0] - 1)], position=2)

    def build(*tensors: te.Tensor) -> Sequence[te.Tensor]:
        def body(code: Code, data: Array, boxes: Array, indices: Array, y: Array) -> None:
            with code.loop("r", shape[0]) as r:
                image = code.cell("image", clamp(tirx.Cast("int64", indices[r]), 0, x.shape[0] - 1))
                box = [load(boxes, regions.dtype, (r, i)) for i in range(4)]
                axes = [axis_of(code, rule, (box[1 - a], box[3 - a]), bins[a]) for a in range(2)]

                def pixel(*position: ir.Expr) -> ir.Expr:
                    return load(data, x.dtype, position)

                with code.loop("c", shape[1]) as c, code.loop("i", bins[0]) as i, code.loop("j", bins[1]) as j:
                    read = partial(pixel, image.value, c)
                    y[r, c, i, j] = store(bin_of(code, rule, read, x.shape[2:], axes, (i, j)), x.dtype)

        return imperative("roi_align", tensors, [(shape, str(tensors[0].dtype))], body)

    (y,) = ctx.kernel("roi_align", build, x, regions, images, dtype=(x.dtype,))
    return y


@operator("MaxRoiPool")
def max_roi_pool(ctx: Context, node: Node, x: Value, regions: Value) -> Value:
    bins = node.ints("pooled_shape")
    scale = node.float("spatial_scale", 1.0)
    ctx.require(equal(regions.shape[1], 5), "regions of {} numbers", regions.shape[1])
    shape = exprs((regions.shape[0], x.shape[1], *bins))
    wide = compute_dtype(x.dtype)
    images = checked(ctx, images_of(ctx, regions), [(0, x.shape[0] - 1)], what="images of")

    def build(*tensors: te.Tensor) -> Sequence[te.Tensor]:
        def body(code: Code, data: Array, boxes: Array, indices: Array, y: Array) -> None:
            with code.loop("r", shape[0]) as r:
                image = code.cell("image", clamp(expr(indices[r]), 0, x.shape[0] - 1))
                corners = [load(boxes, regions.dtype, (r, i)) for i in range(1, 5)]
                ends = [code.cell("end", rounded(value * number(value, scale))) for value in corners]
                with code.loop("c", shape[1]) as c, code.loop("i", bins[0]) as i, code.loop("j", bins[1]) as j:
                    spans = [
                        span(code, (ends[1 - a].value, ends[3 - a].value), at, (bins[a], x.shape[2 + a]))
                        for a, at in enumerate((i, j))
                    ]
                    best = code.cell("best", lowest(wide))
                    with (
                        code.loop("v", spans[0][1].value, spans[0][0].value) as v,
                        code.loop("h", spans[1][1].value, spans[1][0].value) as h,
                    ):
                        best.value = tirx.max(best.value, load(data, x.dtype, (image.value, c, v, h)))
                    empty = spans[0][1].value * spans[1][1].value == 0
                    y[r, c, i, j] = store(tirx.Select(empty, tirx.const(0, wide), best.value), x.dtype)

        return imperative("max_roi_pool", tensors, [(shape, str(tensors[0].dtype))], body)

    (y,) = ctx.kernel("max_roi_pool", build, x, regions, images, dtype=(x.dtype,))
    return y

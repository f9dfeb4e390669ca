"""Imports the ONNX operators GridSample, AffineGrid (`compiler.operators.images.grid`). Before opset 20 the modes are
called `bilinear` and `bicubic` instead of `linear` and `cubic`."""

from __future__ import annotations

from collections.abc import Mapping

from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.images import grid as sampling
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator

_MODES: Mapping[str, sampling.Mode] = {
    "nearest": "nearest",
    "linear": "linear",
    "cubic": "cubic",
    "bilinear": "linear",
    "bicubic": "cubic",
}
_PADDINGS: Mapping[str, sampling.Padding] = {"zeros": "zeros", "border": "border", "reflection": "reflection"}


@operator("GridSample")
def grid_sample(ctx: Context, node: Node, x: Value, grid: Value) -> Value:
    mode = _MODES[node.choice("mode", _MODES, "linear")]
    padding = _PADDINGS[node.choice("padding_mode", _PADDINGS, "zeros")]
    return sampling.grid_sample(ctx, x, grid, mode=mode, padding=padding, align=node.int("align_corners", 0) == 1)


@operator("AffineGrid")
def affine_grid(ctx: Context, node: Node, theta: Value, size: Value) -> Value:
    sizes = ctx.ints(size, minimum=1, hint="grid_size")[2:]
    return sampling.affine_grid(ctx, theta, sizes, align=node.int("align_corners", 0) == 1)

"""Winograd convolutions, F(4 x 4, 3 x 3): 3 by 3 kernels with fewer multiplications.

    y = A^T [ (G w G^T) * (B^T x B) ] A        for tiles x of 6 by 6, and y of 4 by 4 outputs

with the matrices of Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (2015). For each pair of input
and output channel, 16 outputs take 36 products instead of 144. Rounding errors are several times those of the plain
sum. `winograd_weight_array` computes `G w G^T`. The definition here has the rest; its operations are counted as those
of the plain sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm import te, tirx

from deploykit.compiler.operators.anchors.conv import OPERATIONS, ConvShape

OUTPUTS, TAPS, POINTS = 4, 3, 6
"""Along each dim: the outputs of a tile, the taps of the kernel, the inputs of a tile."""

INPUT = (
    (4, 0, -5, 0, 1, 0),
    (0, -4, -4, 1, 1, 0),
    (0, 4, -4, -1, 1, 0),
    (0, -2, -1, 2, 1, 0),
    (0, 2, -1, -2, 1, 0),
    (0, 4, 0, -5, 0, 1),
)
"""`B^T`."""

OUTPUT = (
    (1, 1, 1, 1, 1, 0),
    (0, 1, -1, 2, -2, 0),
    (0, 1, 1, 4, 4, 0),
    (0, 1, -1, 8, -8, 1),
)
"""`A^T`."""

WEIGHT = (
    (1 / 4, 0, 0),
    (-1 / 6, -1 / 6, -1 / 6),
    (-1 / 6, 1 / 6, -1 / 6),
    (1 / 24, 1 / 12, 1 / 6),
    (1 / 24, -1 / 12, 1 / 6),
    (0, 0, 1),
)
"""`G`."""


def winograd_weight_array(weight: np.ndarray, width: int, block: int) -> np.ndarray:
    """Weights `[O, C, 3, 3]` as `[O / width, C / block, 6, 6, block, width]`; the last panel is padded with zeros."""
    outputs, inputs = weight.shape[:2]
    g = np.array(WEIGHT)
    turned = np.einsum("ai,ocij,bj->abco", g, weight.astype("float64"), g).astype(weight.dtype)
    panels = -(-outputs // width)
    padded = np.zeros((POINTS, POINTS, inputs, panels * width), weight.dtype)
    padded[..., :outputs] = turned
    cut = padded.reshape(POINTS, POINTS, inputs // block, block, panels, width)
    return np.ascontiguousarray(cut.transpose(4, 2, 0, 1, 3, 5))


def conv_winograd(
    data: te.Tensor,
    packed: te.Tensor,
    turn_in: te.Tensor,
    turn_out: te.Tensor,
    spatial: Sequence[Any],
    *,
    shape: ConvShape,
    channels: int,
) -> te.Tensor:
    """The convolution of `[N, *, C]`, of shape `[N, *spatial, channels]`. `turn_in` is `INPUT`, `turn_out` is
    `OUTPUT`."""
    a, b, p, q = (te.reduce_axis((0, POINTS), name=name) for name in "abpq")
    channel = te.reduce_axis((0, data.shape[-1]), name="c")
    block, width = packed.shape[-2:]

    def element(n: Any, y: Any, x: Any, o: Any) -> Any:
        at = [
            tirx.floordiv(place, OUTPUTS) * OUTPUTS + tap - begin
            for place, tap, begin in zip((y, x), (p, q), shape.begins, strict=True)
        ]
        inside = [
            index >= 0 if before else index < size
            for index, size in zip(at, data.shape[1:-1], strict=True)
            for before in (True, False)
        ]
        value = tirx.if_then_else(tirx.all(*inside), data(n, *at, channel), tirx.const(0, data.dtype))
        place = (tirx.floordiv(o, width), tirx.floordiv(channel, block), a, b, tirx.floormod(channel, block))
        factor = packed(*place, tirx.floormod(o, width))
        outer = turn_out(tirx.floormod(y, OUTPUTS), a) * turn_out(tirx.floormod(x, OUTPUTS), b)
        return te.sum(value * turn_in(a, p) * turn_in(b, q) * outer * factor, axis=[a, b, p, q, channel])

    full = (data.shape[0], *spatial, channels)
    notes = {**shape.annotations("winograd"), OPERATIONS: 2 * TAPS * TAPS * int(data.shape[-1])}
    return te.compute(full, element, name="conv", attrs=notes)

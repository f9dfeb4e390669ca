"""Convolutions from operands that are laid out for register tiles.

Weights have `rows` output channels next to each other (`pack_weight`); the data is taken as it is (anchor `direct`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm import te, tirx

from deploykit.compiler.schedules.anchors.conv import ConvShape, inside, output_size, reach, sources
from deploykit.compiler.schedules.anchors.matmul import accumulator, rounded


def pack_weight(weight: te.Tensor, groups: int, rows: int) -> te.Tensor:
    """`[O, C, *kernel]` as `[groups, ceil(O / groups / rows), C, *kernel, rows]`, filled up with zeros."""
    per_group = int(weight.shape[0]) // groups

    def element(group: Any, tile: Any, *rest: Any) -> Any:
        *at, row = rest
        channel = tile * rows + row
        value = weight(group * per_group + channel, *at)
        if per_group % rows == 0:
            return value
        return tirx.if_then_else(channel < per_group, value, tirx.const(0, weight.dtype))

    tiles = -(-per_group // rows)
    return te.compute((groups, tiles, *weight.shape[1:], rows), element, name="pack_weight")


def pack_weight_array(weight: np.ndarray, groups: int, rows: int) -> np.ndarray:
    """`pack_weight` of a constant."""
    per_group = weight.shape[0] // groups
    tiles = -(-per_group // rows)
    padded = np.zeros((groups, tiles * rows, *weight.shape[1:]), weight.dtype)
    padded[:, :per_group] = weight.reshape(groups, per_group, *weight.shape[1:])
    return np.ascontiguousarray(np.moveaxis(padded.reshape(groups, tiles, rows, *weight.shape[1:]), 2, -1))


def packed_conv(data: te.Tensor, packed: te.Tensor, shape: ConvShape, channels: int, dtype: str) -> te.Tensor:
    """A convolution with `channels` outputs from the data as it is."""
    kernel = [int(width) for width in packed.shape[3:-1]]
    spatial = [output_size(data.shape[dim + 2], width, shape, dim) for dim, width in enumerate(kernel)]
    channel, taps = _depth(packed)
    per_group, wide = channels // shape.groups, accumulator(dtype)

    def element(n: Any, o: Any, *at: Any) -> Any:
        c = tirx.floordiv(o, per_group) * packed.shape[2] + channel
        value = inside(data, (n, c), sources(shape, at, taps), reach(shape))
        return te.sum(
            value.astype(wide) * _factor(packed, o, per_group, channel, taps).astype(wide), axis=[channel, *taps]
        )

    attrs = {**shape.annotations("direct"), "deploykit.padding": list(shape.padding)}
    return rounded(te.compute((data.shape[0], channels, *spatial), element, name="conv", attrs=attrs), dtype)


def _depth(packed: te.Tensor) -> tuple[te.IterVar, list[te.IterVar]]:
    """Reduced axes over input channels and taps."""
    taps = [te.reduce_axis((0, width), name=f"k{i}") for i, width in enumerate(packed.shape[3:-1])]
    return te.reduce_axis((0, packed.shape[2]), name="c"), taps


def _factor(packed: te.Tensor, output: Any, per_group: int, channel: Any, taps: Sequence[Any]) -> Any:
    """The weight of an output channel, from packed ones."""
    rows = int(packed.shape[-1])
    group, own = tirx.floordiv(output, per_group), tirx.floormod(output, per_group)
    return packed(group, tirx.floordiv(own, rows), channel, *taps, tirx.floormod(own, rows))


def digits(index: Any, extents: Sequence[int]) -> list[Any]:
    """The row-major coordinates of `index` in a box of `extents`."""
    digits: list[Any] = []
    for extent in reversed(extents):
        digits.append(tirx.floormod(index, extent) if extent > 1 else tirx.IntImm("int64", 0))
        index = tirx.floordiv(index, extent) if extent > 1 else index
    return digits[::-1]

"""Convolutions with channels last: data and results are `[N, *spatial, C]`.

Weights are packed into panels `[groups, panels, *kernel, C / groups, width]`, each with `width` output channels of a
group; the last panel is padded with zeros (`pack_panels`). For a depthwise convolution, weights are `[*kernel, C]`.
`channels_last` and `channels_first` convert tensors; `graph.channels_last` cancels conversions that undo each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm import te, tirx

from deploykit.compiler.operators.anchors.conv import ConvShape, reach, sources
from deploykit.compiler.operators.anchors.matmul import accumulator, rounded


def conv_last(
    data: te.Tensor, packed: te.Tensor, spatial: Sequence[Any], *, shape: ConvShape, channels: int, dtype: str
) -> te.Tensor:
    """The convolution, of shape `[N, *spatial, channels]`, from weights in panels."""
    kernel, (depth, width) = packed.shape[2:-2], packed.shape[-2:]
    taps = [te.reduce_axis((0, extent), name=f"k{i}") for i, extent in enumerate(kernel)]
    channel = te.reduce_axis((0, depth), name="c")
    per_group, wide = channels // shape.groups, accumulator(dtype)

    def element(n: Any, *index: Any) -> Any:
        *at, o = index
        group, own = tirx.floordiv(o, per_group), tirx.floormod(o, per_group)
        c = channel if shape.groups == 1 else group * depth + channel
        value = _inside(data, n, c, sources(shape, at, taps), shape)
        factor = packed(group, tirx.floordiv(own, width), *taps, channel, tirx.floormod(own, width))
        return te.sum(value.astype(wide) * factor.astype(wide), axis=[*taps, channel])

    full = (data.shape[0], *spatial, channels)
    return rounded(te.compute(full, element, name="conv", attrs=shape.annotations("panels")), dtype)


def depthwise_last(
    data: te.Tensor, weight: te.Tensor, spatial: Sequence[Any], *, shape: ConvShape, dtype: str
) -> te.Tensor:
    """The convolution of each channel with a kernel of its own, `[N, *spatial, C]`, from weights `[*kernel, C]`."""
    taps = [te.reduce_axis((0, extent), name=f"k{i}") for i, extent in enumerate(weight.shape[:-1])]
    wide = accumulator(dtype)

    def element(n: Any, *index: Any) -> Any:
        *at, c = index
        value = _inside(data, n, c, sources(shape, at, taps), shape)
        return te.sum(value.astype(wide) * weight(*taps, c).astype(wide), axis=taps)

    full = (data.shape[0], *spatial, data.shape[-1])
    return rounded(te.compute(full, element, name="depthwise", attrs=shape.annotations("depthwise")), dtype)


def _inside(data: te.Tensor, n: Any, c: Any, at: Sequence[Any], shape: ConvShape) -> Any:
    """The element of channel `c` at the spatial index `at`, or 0 outside of the spatial dims."""
    conditions: list[Any] = []
    for index, size, (before, beyond) in zip(at, data.shape[1:-1], reach(shape), strict=True):
        conditions += [index >= 0] if before else []
        conditions += [index < size] if beyond else []
    value = data(n, *at, c)
    return tirx.if_then_else(tirx.all(*conditions), value, tirx.const(0, data.dtype)) if conditions else value


def pack_panels(weight: te.Tensor, groups: int, width: int) -> te.Tensor:
    """Weights `[O, C / groups, *kernel]`, packed into panels."""
    per_group = int(weight.shape[0]) // groups

    def element(group: Any, panel: Any, *rest: Any) -> Any:
        *taps, c, lane = rest
        own = panel * width + lane
        value = weight(group * per_group + own, c, *taps)
        if per_group % width == 0:
            return value
        return tirx.if_then_else(own < per_group, value, tirx.const(0, weight.dtype))

    panels = -(-per_group // width)
    return te.compute((groups, panels, *weight.shape[2:], weight.shape[1], width), element, name="pack_panels")


def pack_panels_array(weight: np.ndarray, groups: int, width: int) -> np.ndarray:
    """`pack_panels` of a constant."""
    per_group = weight.shape[0] // groups
    panels = -(-per_group // width)
    padded = np.zeros((groups, panels * width, *weight.shape[1:]), weight.dtype)
    padded[:, :per_group] = weight.reshape(groups, per_group, *weight.shape[1:])
    cut = padded.reshape(groups, panels, width, *weight.shape[1:])
    return np.ascontiguousarray(np.moveaxis(cut, (2, 3), (-1, -2)))


def depthwise_weight(weight: te.Tensor) -> te.Tensor:
    """`[C, 1, *kernel]` as `[*kernel, C]`."""
    full = (*weight.shape[2:], weight.shape[0])
    return te.compute(full, lambda *at: weight(at[-1], 0, *at[:-1]), name="depthwise_weight")


def depthwise_weight_array(weight: np.ndarray) -> np.ndarray:
    """`depthwise_weight` of a constant."""
    return np.ascontiguousarray(np.moveaxis(weight[:, 0], 0, -1))


def channels_last(data: te.Tensor, spatial: int) -> te.Tensor:
    """`[N, *channels, *spatial]` as `[N, *spatial, *channels]`, for a number of spatial dims."""
    return te.compute(
        last_order(data.shape, spatial), lambda *at: data(*first_order(at, spatial)), name="channels_last"
    )


def channels_first(data: te.Tensor, spatial: int) -> te.Tensor:
    """`[N, *spatial, *channels]` as `[N, *channels, *spatial]`."""
    return te.compute(
        first_order(data.shape, spatial), lambda *at: data(*last_order(at, spatial)), name="channels_first"
    )


def last_order(dims: Sequence[Any], spatial: int) -> list[Any]:
    """`[N, *channels, *spatial]` -> `[N, *spatial, *channels]`."""
    return [dims[0], *dims[len(dims) - spatial :], *dims[1 : len(dims) - spatial]]


def first_order(dims: Sequence[Any], spatial: int) -> list[Any]:
    """`[N, *spatial, *channels]` -> `[N, *channels, *spatial]`."""
    return [dims[0], *dims[1 + spatial :], *dims[1 : 1 + spatial]]

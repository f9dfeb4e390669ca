"""Convolutions by Winograd's method: which ones, and as which kernels.

A convolution of 3 by 3 without strides, of float32 and with constant weights, becomes

    conv                          one kernel for a CPU (`anchors.winograd`), or
    points, products, conv        three kernels, which GPUs need (`anchors.winograd_parts`)

if it has whole vectors of channels, and images that are large enough for its weights. Both forms take the same weights,
which are transformed when the model is built. The results that the three kernels hand on are larger than data and
result; so they are declined if a GPU could not bind them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from tvm import ir, relax, tirx

from deploykit.compiler.constants import constant, read
from deploykit.compiler.decisions import Declined
from deploykit.compiler.devices.cpu import Device, TransformKernels
from deploykit.compiler.dims import largest
from deploykit.compiler.dims.bounds import Box
from deploykit.compiler.graph.merge_kernels import PATTERN
from deploykit.compiler.operators.anchors.conv import ConvShape
from deploykit.compiler.operators.anchors.winograd import (
    INPUT,
    OUTPUT,
    POINTS,
    TAPS,
    conv_winograd,
    winograd_weight_array,
)
from deploykit.compiler.operators.anchors.winograd_parts import (
    tiles_of,
    winograd_outputs,
    winograd_points,
    winograd_products,
)
from deploykit.compiler.operators.building.kernel_calls import FUSABLE, OPAQUE, call_te
from deploykit.compiler.schedules.conv.winograd import FEWEST_TILES, winograd_depth, worthwhile
from deploykit.compiler.tir.values import bits_of

FEWEST_CHANNELS = 16
"""The number of channels for which the method pays, even if they are a single vector."""

LEAST_BITS = 128
"""The least width of vectors, in bits, for which transformed tiles pay."""


@dataclass(frozen=True)
class Winograd:
    """A convolution of data with channels last, without its operands. `spatial` are the extents of its result; `width`
    is the number of output channels of a panel of weights. Images have at least `fewest` tiles."""

    shape: ConvShape
    dtype: str
    spatial: list[tirx.Expr]
    width: int
    fewest: int = FEWEST_TILES

    def declined(self, data: relax.Expr, weight: relax.Expr, device: Device, box: Box) -> Declined | None:
        """The reason why the convolution does not use the method, if there is one."""
        shape = self.shape
        if not isinstance(weight, ir.GenericConst):
            return Declined("its weights are computed")
        if not device.transforms or device.vector_bits < LEAST_BITS:
            return Declined("on this device it takes longer")
        if shape.groups > 1:
            return Declined("it has groups")
        sizes, lanes = [int(extent) for extent in weight.ty.shape], device.lanes(32)
        if sizes[2:] != [TAPS, TAPS] or any(n > 1 for n in (*shape.strides, *shape.dilation)):
            return Declined(f"it is not {TAPS} by {TAPS} with strides and dilations of 1")
        if min(shape.padding) < 0:
            return Declined("it crops")
        if any(str(tensor.ty.dtype) != "float32" for tensor in (data, weight)) or self.dtype != "float32":
            return Declined("it is not in float32")
        fewest = min(2 * lanes, max(lanes, FEWEST_CHANNELS))
        if any(size % lanes or size < fewest for size in sizes[:2]):
            return Declined(f"its channels are not at least {fewest}, in whole vectors of {lanes}")
        if not worthwhile(sizes[0] * sizes[1] * TAPS * TAPS, self.spatial, self.fewest):
            return Declined("its images are too small, or of unknown size, for the size of its weights")
        if device.transform_kernels is not None:
            return self._declined_in_parts(data, sizes[:2], device.transform_kernels, box)
        return None

    def _declined_in_parts(
        self, data: relax.Expr, channels: list[int], limits: TransformKernels, box: Box
    ) -> Declined | None:
        """The reason why three kernels would not do."""
        if min(channels) < limits.channels:
            return Declined(f"it has fewer than {limits.channels} channels")
        down, across = tiles_of(self.spatial)
        points = largest(data.ty.shape[0] * down * across * (POINTS * POINTS * bits_of(self.dtype) // 8), box)
        if points is not None and sum(-(-points * n // limits.binding_bytes) for n in channels) >= limits.bindings:
            return Declined("its transformed tiles may be larger than a GPU can bind")
        return None

    def kernels(
        self, builder: relax.BlockBuilder, data: relax.Expr, weight: relax.Constant, device: Device
    ) -> relax.Expr:
        """The convolution with `weight`, which is `[O, C, 3, 3]`."""
        channels, depth = int(weight.ty.shape[0]), winograd_depth(int(data.ty.shape[-1]), device.lanes(32))
        with read(weight) as taps:
            turned = constant(winograd_weight_array(taps, self.width, depth))
        turn_in, turn_out = (constant(np.array(matrix, self.dtype)) for matrix in (INPUT, OUTPUT))
        if device.transform_kernels is None:
            build = partial(conv_winograd, shape=self.shape, channels=channels)
            return call_te(builder, build, data, turned, turn_in, turn_out, self.spatial, name="conv")
        alone, before_others = {PATTERN: OPAQUE}, {PATTERN: FUSABLE}
        build = partial(winograd_points, shape=self.shape)
        points = builder.emit(call_te(builder, build, data, turn_in, self.spatial, name="points", attributes=alone))
        build = partial(winograd_products, channels=channels)
        products = builder.emit(call_te(builder, build, points, turned, name="products", attributes=alone))
        given = (products, turn_out, data.ty.shape[0], self.spatial)
        return call_te(builder, winograd_outputs, *given, name="conv", attributes=before_others)

"""Products and convolutions of bfloat16 instead of float32: operands are rounded, sums stay float32.

Weights are rounded and packed at build time. Other operands are rounded by kernels of their own, which fusion appends
to the kernels that compute them. Winograd's method stays in float32, because its transforms would lose digits; where a
CPU has instructions for bfloat16, it pays for large images only, and with tile registers for none.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from tvm import ir, relax, te, tirx

from deploykit.compiler.constants import constant, read
from deploykit.compiler.decisions import Declined
from deploykit.compiler.devices.cpu import Device
from deploykit.compiler.dtypes import numpy_dtype
from deploykit.compiler.graph.integer_products import Build, padded_once, panel_columns, product_over
from deploykit.compiler.operators.anchors.conv import ConvShape
from deploykit.compiler.operators.anchors.integer import (
    Padding,
    PanelPacking,
    Taps,
    integer_matmul,
    packed_array,
)
from deploykit.compiler.operators.building.float_formats import encode
from deploykit.compiler.operators.building.kernel_calls import call_te
from deploykit.compiler.schedules.conv.winograd import FEWEST_TILES
from deploykit.compiler.schedules.integer.dot import DOTS

BF16 = "bf16"
"""The name of the pass in decisions."""

STORED = numpy_dtype("bfloat16")


def declined(left: relax.Expr, right: relax.Expr, device: Device, *, kept: bool = False) -> Declined | None:
    """The reason why a product of these operands stays in float32. One that is `kept` does so for the
    user."""
    if not device.bf16:
        return Declined("the device computes in float32")
    if not isinstance(right, ir.GenericConst):
        return Declined("both operands are computed")
    if kept:
        return Declined("--keep names it")
    if any(str(operand.ty.dtype) != "float32" for operand in (left, right)) or len(left.ty.shape) < 2:
        return Declined("it is no product of float32 with a matrix")
    return None


def fewest_tiles(device: Device) -> int:
    """The fewest tiles of an image for which Winograd's method in float32 is faster than a product of bfloat16."""
    return 2 * FEWEST_TILES if device.bf16 and DOTS[device.bf16].group > 1 else FEWEST_TILES


def matmul(builder: relax.BlockBuilder, left: relax.Expr, right: relax.Constant, device: Device) -> relax.Call:
    """The product of `left` `[..., M, K]` and a constant `[..., K, N]`."""
    with read(right) as array:
        return _product(builder, rounded(builder, left, device), array, device, partial(partial, integer_matmul))


def conv(
    builder: relax.BlockBuilder, data: relax.Expr, weight: relax.Constant, shape: ConvShape, device: Device
) -> relax.Call:
    """The convolution of data `[N, *spatial, C]` with a constant `[O, C, *kernel]`."""
    outputs, _, *kernel = (int(extent) for extent in weight.ty.shape)
    zero = constant(np.zeros(1, np.uint16))
    halves = padded_once(builder, rounded(builder, data, device), zero, Padding(shape.begins, shape.ends))
    taps = Taps(tuple(kernel), shape.strides, shape.dilation)
    with read(weight) as array:
        matrix = np.moveaxis(array, 1, -1).reshape(outputs, -1).T
        return _product(builder, halves, matrix, device, product_over(taps))


def _product(
    builder: relax.BlockBuilder,
    halves: relax.Expr,
    matrix: np.ndarray,
    device: Device,
    build: Build,
) -> relax.Call:
    """The product of rounded numbers and a constant matrix."""
    dot = DOTS[device.bf16]
    packing = PanelPacking(dot.name, panel_columns(device, matrix.shape[-1]), dot.group, factors="bf16")
    panels = constant(packed_array(matrix.astype(STORED).view(np.uint16), packing))
    return call_te(builder, build(packing=packing), halves, panels, matrix.shape[-1], name="bf16_product")


def rounded(builder: relax.BlockBuilder, tensor: relax.Expr, device: Device) -> relax.Var:
    """The bits of the numbers of a tensor as bfloat16. A CPU that multiplies pairs of them also has an instruction for
    that. It makes subnormal numbers zeros, as products do."""

    def element(value: ir.Expr) -> ir.Expr:
        if DOTS[device.bf16].group > 1:
            return tirx.reinterpret("uint16", tirx.Cast("bfloat16", value))
        return encode(value, "bfloat16")

    def bits(x: te.Tensor) -> te.Tensor:
        return te.compute(x.shape, lambda *at: element(x(*at)), name="bf16")

    return builder.emit(call_te(builder, bits, tensor, name="bf16"))

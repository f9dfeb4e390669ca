"""Replaces exact products of integers, of which the right ones have 8 bits, by kernels.

The calls that `operators.building.integer_calls` describes become `call_tir` of the anchors in
`operators.anchors.integer`. Right operands that are constant are packed at build time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np
from tvm import ir, relax, te

from deploykit.compiler.constants import array_of, constant
from deploykit.compiler.devices.cpu import Device
from deploykit.compiler.graph.share_tables import Packed
from deploykit.compiler.operators.anchors.integer import (
    Padding,
    PanelPacking,
    Taps,
    column_sums,
    integer_conv,
    integer_depthwise,
    integer_matmul,
    packed,
    packed_array,
    padded,
    place,
    repeated,
    without_offset,
)
from deploykit.compiler.operators.building.integer_calls import CONV, MATMUL, Geometry
from deploykit.compiler.operators.building.kernel_calls import OPAQUE, call_te
from deploykit.compiler.schedules.integer import words
from deploykit.compiler.schedules.integer.dot import PACKED_4X8, Dot, dot_for
from deploykit.compiler.tir.values import static

Build: TypeAlias = Callable[..., Callable[..., te.Tensor]]
"""Gives the function that computes a product, for the `packing` of its panels."""

Rule: TypeAlias = "Callable[[relax.BlockBuilder, relax.Call, Device, list[Packed]], relax.Expr]"

ONCE = {"op_pattern": OPAQUE}
"""Attributes of a kernel that copies data, so that work before it is done once per element."""


def rule(call: relax.Call) -> Rule | None:
    """The function that replaces `call` by a kernel, if it is one of these products. It appends the constant matrix of
    a product, as it is packed, to the list."""
    if getattr(call.op, "name", "") != "relax.call_pure_packed" or not isinstance(call.args[0], relax.ExternFunc):
        return None
    return {MATMUL: _matmul, CONV: _conv}.get(str(call.args[0].global_symbol))


def _matmul(builder: relax.BlockBuilder, call: relax.Call, device: Device, packed_weights: list[Packed]) -> relax.Expr:
    _, a, b = call.args
    depth = static(a.ty.shape[-1])
    return _product(builder, a, b, None, device, depth, partial(partial, integer_matmul), packed_weights)


def _product(
    builder: relax.BlockBuilder,
    left: relax.Expr,
    right: relax.Expr,
    outputs: int | None,
    device: Device,
    neighbours: int | None,
    build: Build,
    packed_weights: list[Packed],
) -> relax.Expr:
    """A kernel for the product of the left operand and panels of `right` `[..., K, N]`. `outputs` are those of
    a convolution, of all its groups. Each `neighbours` of a row's left factors are next to each other in memory. If the
    instruction needs an offset on the left operand, a further kernel subtracts its contribution."""
    known = array_of(right) if isinstance(right, ir.GenericConst) else None
    dtype = str(left.ty.dtype)
    dot = dot_for(device, dtype, known, neighbours)
    dot = (words.halved(dot, dtype, known) if known is not None else None) or dot
    packing = _packing(device, dot, dtype, static(right.ty.shape[-1]))
    if known is not None:
        panels = constant(packed_array(known, packing))
        if not packing.halved:
            packed_weights.append(Packed(right, panels, partial(place, packing)))
    else:
        panels = builder.emit(call_te(builder, partial(packed, packing=packing), right, name="pack"))
    columns = right.ty.shape[-1] if outputs is None else outputs
    total = call_te(builder, build(packing=packing), left, panels, columns, name="integer_product")
    if not packing.offset:
        return total
    if known is not None:
        added = known.sum(axis=-2, dtype=np.int32, keepdims=True)
        sums = constant(added if outputs is None else added.reshape(1, outputs))
    else:
        sums = builder.emit(call_te(builder, column_sums, right, name="column_sums"))
    product = builder.emit(total)
    return call_te(builder, without_offset, product, sums, packing.offset, name="without_offset")


def _packing(device: Device, dot: Dot, left: str, columns: int | None) -> PanelPacking:
    """The packed layout for an instruction."""
    if device.vector_bits == 0:
        width = _scalar_width(device, dot, columns)
        if not width:
            return PanelPacking("", 1, 1)
        return PanelPacking(dot.name, width, dot.group, dot.offset(left), halved=dot.name in words.HALVED.values())
    return PanelPacking(dot.name, panel_columns(device, columns), dot.group, dot.offset(left))


def _scalar_width(device: Device, dot: Dot, columns: int | None) -> int:
    """The columns of a panel where kernels in C call functions, on rows or on words; 0 if there are none."""
    functions = device.row_functions
    return (
        words.width(dot, columns) if functions is None or dot.name not in functions.dots else functions.width(columns)
    )


def panel_columns(device: Device, columns: int | None) -> int:
    """The columns of a panel for a device with vectors: those that leave the fewest empty."""
    lanes = device.lanes(32)
    vectors = 2
    if columns is not None:
        widths = (2, 1) if device.amx else (2, 3, 1)
        vectors = min(widths, key=lambda vectors: -(-columns // (lanes * vectors)) * vectors)
    return lanes * vectors


def _conv(builder: relax.BlockBuilder, call: relax.Call, device: Device, packed_weights: list[Packed]) -> relax.Expr:
    _, data, weight, zero, numbers = call.args
    geometry = _geometry([int(n) for n in numbers.values], len(data.ty.shape) - 2)
    padding = Padding(geometry.before, geometry.after)
    array = array_of(weight)
    outputs, *kernel, _ = array.shape
    taps = Taps(tuple(kernel), geometry.strides, geometry.dilation)
    if geometry.groups > 1 and array.shape[-1] == 1:
        if outputs > geometry.groups:
            build = partial(repeated, times=outputs // geometry.groups)
            data = builder.emit(call_te(builder, build, data, name="repeated", attributes=ONCE))
        own = constant(np.ascontiguousarray(np.moveaxis(array[..., 0], 0, -1)))
        build = partial(integer_depthwise, taps=taps, padding=padding)
        return call_te(builder, build, data, own, zero, name="integer_depthwise")
    data = padded_once(builder, data, zero, padding)
    array, groups = _joined(array, geometry.groups, device, str(data.ty.dtype))
    matrix = array.reshape(groups, outputs // groups, -1).swapaxes(1, 2)
    weights = constant(np.ascontiguousarray(matrix if groups > 1 else matrix[0]))
    # Words of four factors, as GPUs multiply them, do not know where a group begins.
    neighbours = array.shape[-1] if groups == 1 else None
    product = product_over(taps, groups)
    return _product(builder, data, weights, outputs, device, neighbours, product, packed_weights)


def padded_once(builder: relax.BlockBuilder, data: relax.Expr, zero: relax.Expr, padding: Padding) -> relax.Expr:
    """Data `[N, *spatial, C]` with padding, by a kernel of its own."""
    if not padding.any:
        return data
    build = partial(padded, padding=padding)
    return builder.emit(call_te(builder, build, data, zero, name="padded", attributes=ONCE))


def product_over(taps: Taps, groups: int = 1) -> Build:
    """The product of a convolution: that of two matrices, if it has one tap and no strides."""
    if groups == 1 and all(n == 1 for n in (*taps.kernel, *taps.strides)):
        return partial(partial, integer_matmul)
    return partial(partial, integer_conv, taps=taps, groups=groups)


def _joined(array: np.ndarray, groups: int, device: Device, left: str) -> tuple[np.ndarray, int]:
    """Filters `[O, *kernel, C / groups]` with neighbouring groups as one, with zeros for the channels of the others,
    and the number of groups that there are then."""
    outputs, channels = len(array) // groups, array.shape[-1]
    together = _together(groups, outputs, channels, device, left)
    if together == 1:
        return array, groups
    joined = np.zeros((*array.shape[:-1], together * channels), array.dtype)
    member = np.arange(len(array)) // outputs % together
    for n in range(together):
        joined[member == n, ..., n * channels : (n + 1) * channels] = array[member == n]
    return joined, groups // together


def _together(groups: int, outputs: int, channels: int, device: Device, left: str) -> int:
    """How many groups of a convolution are computed as one. They fill columns of a panel that would be empty; without
    vectors, where copies of a few left factors cost more than products, they also fill a step's terms."""
    if device.dots[0] == PACKED_4X8:
        return 1
    dot = dot_for(device, left, None, None)
    if device.vector_bits:
        width, terms = device.lanes(32), 0
    else:
        width, terms = _scalar_width(device, dot, None), dot.group

    def fit(n: int) -> bool:
        return n * outputs <= width or (n * channels <= terms and n * outputs <= 2 * terms)

    return max(n for n in range(1, groups + 1) if n == 1 or (groups % n == 0 and fit(n)))


def _geometry(numbers: Sequence[int], rank: int) -> Geometry:
    lists = [tuple(numbers[i * rank : (i + 1) * rank]) for i in range(4)]
    return Geometry(lists[0], lists[1], lists[2], lists[3], numbers[-1])

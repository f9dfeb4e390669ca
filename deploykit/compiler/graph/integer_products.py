"""Replaces exact products of 8-bit integers by kernels.

The calls that `operators.building.integer_calls` describes become `call_tir` of the anchors in
`operators.anchors.integer`. Right operands that are constant are packed at build time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np
from tvm import ir, relax

from deploykit.compiler.constants import array_of, constant
from deploykit.compiler.devices.cpu import Device
from deploykit.compiler.devices.helium import WIDTH
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
    without_offset,
)
from deploykit.compiler.operators.building.integer_calls import CONV, MATMUL, Geometry
from deploykit.compiler.operators.building.kernel_calls import OPAQUE, call_te
from deploykit.compiler.schedules.integer import words
from deploykit.compiler.schedules.integer.dot import Dot, dot_for
from deploykit.compiler.schedules.integer.helium import VMLADAVA
from deploykit.compiler.tir.values import static

Rule: TypeAlias = "Callable[[relax.BlockBuilder, relax.Call, Device, list[Packed]], relax.Expr]"


def rule(call: relax.Call) -> Rule | None:
    """The function that replaces `call` by a kernel, if it is one of these products. It appends the constant matrix of
    a product, as it is packed, to the list."""
    if getattr(call.op, "name", "") != "relax.call_pure_packed" or not isinstance(call.args[0], relax.ExternFunc):
        return None
    return {MATMUL: _matmul, CONV: _conv}.get(str(call.args[0].global_symbol))


def _matmul(builder: relax.BlockBuilder, call: relax.Call, device: Device, packed_weights: list[Packed]) -> relax.Expr:
    _, a, b = call.args
    depth = static(a.ty.shape[-1])
    build = partial(partial, integer_matmul)
    return _product(builder, a, b, device, depth, lambda packing: build(packing=packing), packed_weights)


def _product(
    builder: relax.BlockBuilder,
    left: relax.Expr,
    right: relax.Expr,
    device: Device,
    neighbours: int | None,
    build: Callable[[PanelPacking], Callable[..., object]],
    packed_weights: list[Packed],
) -> relax.Expr:
    """A kernel for the product of the left operand and panels of `right` `[..., K, N]`. Each `neighbours` of a row's
    left factors are next to each other in memory. If the instruction needs an offset on the left operand, a further
    kernel subtracts its contribution."""
    known = array_of(right) if isinstance(right, ir.GenericConst) else None
    dot = dot_for(device, known, neighbours)
    packing = _packing(device, dot, str(left.ty.dtype), static(right.ty.shape[-1]))
    if known is not None:
        panels = constant(packed_array(known, packing))
        packed_weights.append(Packed(right, panels, partial(place, packing)))
    else:
        panels = builder.emit(call_te(builder, partial(packed, packing=packing), right, name="pack"))
    total = call_te(builder, build(packing), left, panels, right.ty.shape[-1], name="integer_product")
    if not packing.offset:
        return total
    if known is not None:
        sums = constant(known.sum(axis=-2, dtype=np.int32, keepdims=True))
    else:
        sums = builder.emit(call_te(builder, column_sums, right, name="column_sums"))
    product = builder.emit(total)
    return call_te(builder, without_offset, product, sums, packing.offset, name="without_offset")


def _packing(device: Device, dot: Dot, left: str, columns: int | None) -> PanelPacking:
    """The packed layout for an instruction. The vectors per panel leave the fewest columns empty."""
    if device.vector_bits == 0:
        width = WIDTH if dot.name == VMLADAVA else words.width(dot, columns)
        return PanelPacking(dot.name, width, dot.group, dot.offset(left)) if width else PanelPacking("", 1, 1)
    lanes = device.lanes(32)
    vectors = 2
    if columns is not None:
        vectors = min((2, 3, 1), key=lambda vectors: -(-columns // (lanes * vectors)) * vectors)
    return PanelPacking(dot.name, lanes * vectors, dot.group, dot.offset(left))


def _conv(builder: relax.BlockBuilder, call: relax.Call, device: Device, packed_weights: list[Packed]) -> relax.Expr:
    _, data, weight, zero, numbers = call.args
    geometry = _geometry([int(n) for n in numbers.values], len(data.ty.shape) - 2)
    padding = Padding(geometry.before, geometry.after)
    array = array_of(weight)
    outputs, *kernel, _ = array.shape
    taps = Taps(tuple(kernel), geometry.strides, geometry.dilation)
    if geometry.groups > 1:
        own = constant(np.ascontiguousarray(np.moveaxis(array[..., 0], 0, -1)))
        build = partial(integer_depthwise, taps=taps, padding=padding)
        return call_te(builder, build, data, own, zero, name="integer_depthwise")
    if padding.any:
        attributes = {"op_pattern": OPAQUE}  # so that work before padding is done once per element
        build = partial(padded, padding=padding)
        data = builder.emit(call_te(builder, build, data, zero, name="padded", attributes=attributes))
    matrix = constant(np.ascontiguousarray(array.reshape(outputs, -1).T))
    channels = array.shape[-1]
    if all(n == 1 for n in (*kernel, *geometry.strides)):
        build = partial(partial, integer_matmul)
    else:
        build = partial(partial, integer_conv, taps=taps)
    return _product(builder, data, matrix, device, channels, lambda packing: build(packing=packing), packed_weights)


def _geometry(numbers: Sequence[int], rank: int) -> Geometry:
    lists = [tuple(numbers[i * rank : (i + 1) * rank]) for i in range(4)]
    return Geometry(lists[0], lists[1], lists[2], lists[3], numbers[-1])

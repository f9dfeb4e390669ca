"""Sums of products of integers in int32, or of bfloat16 in float32: matrix products and convolutions with
channels last.

Right operands are packed as `[..., panels, groups, width, group]`, padded with zeros (`packed`): `width` neighbouring
columns, and for each column `group` neighbouring terms of its sum. Integers of 4 bits share bytes (`halved`): one has a
term of the first half of a group in its lower half, and the one of the second half at the same place in its upper half.
The terms of a convolution are numbered tap by tap, with the channels of a tap next to each other, so that its weights
are a matrix `[taps * channels, outputs]`.

Left operands are raw: the caller accounts for their zero points. Only a depthwise convolution pads its data itself; for
others, `padded` adds the padding to the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Literal

import numpy as np
from tvm import sym, te, tirx

from deploykit.basics.mapped import set_aside
from deploykit.compiler.operators.anchors.annotation import ANCHOR
from deploykit.compiler.operators.anchors.matmul import batch_index, broadcast, widened

DOT = "deploykit.dot"
"""Annotation of an integer anchor: the name of the instruction that its right operand is packed for."""

STRIDES, DILATION, BEFORE = "deploykit.strides", "deploykit.dilation", "deploykit.before"

GROUPS = "deploykit.groups"
"""Annotation of a convolution: the number of groups. The columns of a group are next to each other."""


@dataclass(frozen=True)
class PanelPacking:
    """How the right operand is packed for the instruction `dot`, and the `offset` that is added to the left operand.
    `factors` are integers, or the bits of bfloat16, which are summed in float32. If they are `halved`, they are
    integers of 4 bits, two in a byte."""

    dot: str
    width: int
    group: int
    offset: int = 0
    factors: Literal["integer", "bf16"] = "integer"
    halved: bool = False

    @property
    def sums(self) -> str:
        return "int32" if self.factors == "integer" else "float32"


@dataclass(frozen=True)
class Taps:
    """The window of a convolution without padding. Every field has one entry per spatial axis."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilation: tuple[int, ...]

    def counts(self, sizes: Sequence[Any]) -> list[Any]:
        """The number of windows along each axis."""
        return [
            sym.Analyzer().simplify(tirx.floordiv(tirx.const(1, "int64") * size - (k - 1) * d - 1, s) + 1)
            for size, k, s, d in zip(sizes, self.kernel, self.strides, self.dilation, strict=True)
        ]

    def places(self, at: Sequence[Any], taps: Sequence[Any]) -> list[Any]:
        """The spatial index of each tap of the window at `at`."""
        return [i * s + t * d for i, t, s, d in zip(at, taps, self.strides, self.dilation, strict=True)]


def integer_matmul(a: te.Tensor, panels: te.Tensor, columns: Any, packing: PanelPacking) -> te.Tensor:
    """`(a + offset) @ b`, where `panels` is `packed(b)` and `b` has `columns` columns; `a` is of rank 2 or more."""
    lead_shape = list(panels.shape[:-4])
    batch = broadcast(list(a.shape[:-2]), lead_shape)
    depth = te.reduce_axis((0, a.shape[-1]), name="k")

    def element(*index: Any) -> Any:
        *lead, row, column = index
        left = a(*batch_index(a.shape[:-2], lead, batch), row, depth)
        right = _right(panels, batch_index(lead_shape, lead, batch), packing, depth, column)
        return te.sum(_left(left, packing) * right, axis=depth)

    attrs = {ANCHOR: f"{packing.factors}_matmul", DOT: packing.dot}
    return te.compute((*batch, a.shape[-2], columns), element, name=f"{packing.factors}_matmul", attrs=attrs)


def integer_conv(
    data: te.Tensor, panels: te.Tensor, columns: int, taps: Taps, packing: PanelPacking, groups: int = 1
) -> te.Tensor:
    """The convolution `[N, *counts, columns]` of `data + offset` `[N, *spatial, C]` with `columns` outputs. More groups
    than one have panels `[groups, ...]`, each of its own outputs for its own channels."""
    reduce = [te.reduce_axis((0, k), name=f"k{i}") for i, k in enumerate(taps.kernel)]
    channels, outputs = sym.Analyzer().simplify(data.shape[-1] // groups), columns // groups
    channel = te.reduce_axis((0, channels), name="c")

    def element(n: Any, *index: Any) -> Any:
        *at, column = index
        term: Any = 0
        for tap, width in zip(reduce, taps.kernel, strict=True):
            term = term * width + tap
        term = term * channels + channel
        lead, first, own = [], 0, column
        if groups > 1:
            group, own = tirx.floordiv(column, outputs), tirx.floormod(column, outputs)
            lead, first = [group], group * channels
        left = data(n, *taps.places(at, reduce), first + channel)
        right = _right(panels, lead, packing, term, own)
        return te.sum(_left(left, packing) * right, axis=[*reduce, channel])

    attrs = {
        ANCHOR: f"{packing.factors}_conv",
        DOT: packing.dot,
        STRIDES: list(taps.strides),
        DILATION: list(taps.dilation),
        **({GROUPS: groups} if groups > 1 else {}),
    }
    shape = (data.shape[0], *taps.counts(data.shape[1:-1]), columns)
    return te.compute(shape, element, name=f"{packing.factors}_conv", attrs=attrs)


@dataclass(frozen=True)
class Padding:
    """The number of elements that are added before and after each spatial axis."""

    before: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def any(self) -> bool:
        return any((*self.before, *self.after))

    def around(self, sizes: Sequence[Any]) -> list[Any]:
        """The sizes including the padding."""
        return [size + b + a for size, b, a in zip(sizes, self.before, self.after, strict=True)]

    def read(self, data: te.Tensor, zero: te.Tensor, index: Sequence[Any]) -> Any:
        """The element of the padded `data` `[N, *spatial, C]` at `index`: in the padding, the one element of `zero`."""
        n, *at, channel = index
        source = [i - b for i, b in zip(at, self.before, strict=True)]
        value = data(n, *source, channel)
        if not self.any:
            return value
        inside = [
            condition
            for i, size, b, a in zip(source, data.shape[1:-1], self.before, self.after, strict=True)
            for condition in (*([i >= 0] if b else []), *([i < size] if a else []))
        ]
        return tirx.if_then_else(tirx.all(*inside), value, zero(*[tirx.IntImm("int64", 0)] * len(zero.shape)))


def integer_depthwise(data: te.Tensor, weight: te.Tensor, zero: te.Tensor, taps: Taps, padding: Padding) -> te.Tensor:
    """The convolution of each channel of the padded `data` `[N, *spatial, C]` with its own weights `[*kernel, C]`."""
    reduce = [te.reduce_axis((0, k), name=f"k{i}") for i, k in enumerate(taps.kernel)]

    def element(n: Any, *index: Any) -> Any:
        *at, channel = index
        left = padding.read(data, zero, [n, *taps.places(at, reduce), channel])
        return te.sum(left.astype("int32") * weight(*reduce, channel).astype("int32"), axis=reduce)

    attrs = {
        ANCHOR: "integer_depthwise",
        STRIDES: list(taps.strides),
        DILATION: list(taps.dilation),
        BEFORE: list(padding.before),
    }
    shape = (data.shape[0], *taps.counts(padding.around(data.shape[1:-1])), data.shape[-1])
    return te.compute(shape, element, name="integer_depthwise", attrs=attrs)


def padded(data: te.Tensor, zero: te.Tensor, padding: Padding) -> te.Tensor:
    """`data` `[N, *spatial, C]`, padded around its spatial axes with the one element of `zero`."""
    shape = (data.shape[0], *padding.around(data.shape[1:-1]), data.shape[-1])
    return te.compute(shape, lambda *index: padding.read(data, zero, index), name="padded")


def repeated(data: te.Tensor, times: int) -> te.Tensor:
    """`data` with every position of the last axis `times` times."""
    shape = (*data.shape[:-1], data.shape[-1] * times)
    return te.compute(shape, lambda *index: data(*index[:-1], tirx.floordiv(index[-1], times)), name="repeated")


def packed(b: te.Tensor, packing: PanelPacking) -> te.Tensor:
    """The matrix `[..., K, N]`, packed into panels."""
    *lead, depth, columns = b.shape
    known = sym.Analyzer()
    panels = known.simplify((columns + (packing.width - 1)) // packing.width)
    groups = known.simplify((depth + (packing.group - 1)) // packing.group)

    def element(*index: Any) -> Any:
        *at, panel, group, lane, part = index
        k, column = group * packing.group + part, panel * packing.width + lane
        inside = tirx.all(k < depth, column < columns)
        return tirx.if_then_else(inside, b(*at, k, column), tirx.const(0, b.dtype))

    return te.compute((*lead, panels, groups, packing.width, packing.group), element, name="packed")


def packed_array(b: np.ndarray, packing: PanelPacking) -> np.ndarray:
    """`packed` of a constant."""
    *lead, depth, columns = b.shape
    panels, groups = -(-columns // packing.width), -(-depth // packing.group)
    filled = b
    if (depth, columns) != (groups * packing.group, panels * packing.width):
        filled = np.zeros((*lead, groups * packing.group, panels * packing.width), b.dtype)
        filled[..., :depth, :columns] = b
    split = filled.reshape(prod(lead), groups, packing.group, panels, packing.width)
    places = set_aside(split.transpose(0, 3, 1, 4, 2))
    places = places.reshape(*lead, panels, groups, packing.width, packing.group)
    if not packing.halved:
        return places
    half = packing.group // 2
    lower, upper = places[..., :half].view(np.uint8), places[..., half:].view(np.uint8)
    return np.ascontiguousarray((lower & 15) | (upper << 4)).view(np.int8)


def place(packing: PanelPacking, term: Any, column: Any) -> tuple[Any, ...]:
    """The index in the panels of the right element for a term and a column."""
    width, group = packing.width, packing.group
    panel, lane = tirx.floordiv(column, width), tirx.floormod(column, width)
    if group == 1:
        return panel, term, lane, tirx.IntImm("int64", 0)
    if packing.halved:
        return panel, tirx.floordiv(term, group), lane, tirx.floormod(term, group // 2)
    return panel, tirx.floordiv(term, group), lane, tirx.floormod(term, group)


def column_sums(b: te.Tensor) -> te.Tensor:
    """The sums of columns, `[..., K, N] -> [..., 1, N]`: the product with a row of ones."""
    *lead, depth, columns = b.shape
    k = te.reduce_axis((0, depth), name="k")

    def element(*index: Any) -> Any:
        *at, _, column = index
        return te.sum(b(*at, k, column).astype("int32"), axis=k)

    return te.compute((*lead, 1, columns), element, name="column_sums")


def without_offset(product: te.Tensor, sums: te.Tensor, offset: int) -> te.Tensor:
    """`product` without the contribution of the `offset` that was added to all left elements. `sums` are column
    sums."""
    rank = len(sums.shape)

    def element(*index: Any) -> Any:
        lead = batch_index(sums.shape[:-2], index[len(index) - rank : -2], product.shape[len(index) - rank : -2])
        return product(*index) - sums(*lead, *([tirx.IntImm("int64", 0)] if rank > 1 else []), index[-1]) * offset

    return te.compute(product.shape, element, name="without_offset")


def _right(panels: te.Tensor, lead: Sequence[Any], packing: PanelPacking, term: Any, column: Any) -> Any:
    """The right factor for a term and a column, in the dtype of sums."""
    value = widened(panels(*lead, *place(packing, term, column)), packing.sums)
    if not packing.halved:
        return value
    upper = tirx.floordiv(tirx.floormod(term, packing.group), packing.group // 2)
    return (value << tirx.Cast("int32", 28 - 4 * upper)) >> 28


def _left(value: Any, packing: PanelPacking) -> Any:
    wide = widened(value, packing.sums)
    return wide + packing.offset if packing.offset else wide

"""Convolutions and their transposes over any number of spatial dims, channels first.

`data` is `[N, C, *spatial]`; weights are `[O, C / groups, *kernel]`, for the transpose `[C, O / groups, *kernel]`.
`padding` lists all begins, then all ends. Sums are kept in `accumulator(dtype)`.

`conv` and `conv_transpose` are the definitions. `tiled_conv` computes the same from operands laid out for register
tiles: `planes`, the padded data cut into one plane for each phase of the strides, so that consecutive outputs always
read consecutive elements, and `pack_weight`, which groups `rows` output channels next to each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd, prod
from typing import Any

import numpy as np
from tvm import sym, te, tirx

from deploykit.compiler.schedules.anchors.matmul import accumulator, rounded

ANCHOR = {"deploykit.anchor": "conv"}


@dataclass(frozen=True)
class ConvShape:
    """The attributes that a convolution and its transpose share, one entry a spatial dim (`padding` two)."""

    strides: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int

    @property
    def steps(self) -> tuple[int, ...]:
        """For each spatial dim the distance between phases that occur: taps read phases `tap * dilation % stride`."""
        return tuple(gcd(d, s) for d, s in zip(self.dilation, self.strides, strict=True))

    def phases(self, kernel: Sequence[int]) -> tuple[int, ...]:
        """For each spatial dim, how many phases a kernel of this size reads."""
        found = zip(kernel, self.strides, self.steps, strict=True)
        return tuple(min(width, stride // step) for width, stride, step in found)

    @property
    def contiguous(self) -> bool:
        """Whether the data itself is the only plane."""
        return all(stride == 1 for stride in self.strides) and not any(self.padding)

    @property
    def begins(self) -> tuple[int, ...]:
        return self.padding[: len(self.strides)]

    @property
    def ends(self) -> tuple[int, ...]:
        return self.padding[len(self.strides) :]


def conv(data: te.Tensor, weight: te.Tensor, shape: ConvShape, dtype: str) -> te.Tensor:
    """Cross-correlation as `Conv` of ONNX defines it."""
    kernel = list(weight.shape[2:])
    spatial = [
        output_size(size, width, shape, dim)
        for dim, (size, width) in enumerate(zip(data.shape[2:], kernel, strict=True))
    ]
    channel = te.reduce_axis((0, weight.shape[1]), name="c")
    taps = [te.reduce_axis((0, width), name=f"k{i}") for i, width in enumerate(kernel)]
    out_per_group = _simplify(weight.shape[0] // shape.groups)
    wide = accumulator(dtype)

    def element(n: Any, o: Any, *at: Any) -> Any:
        source = [
            p * stride + tap * dilation - begin
            for p, tap, stride, dilation, begin in zip(
                at, taps, shape.strides, shape.dilation, shape.begins, strict=True
            )
        ]
        c = channel if shape.groups == 1 else o // out_per_group * weight.shape[1] + channel
        value = _inside(data, (n, c), source, _reach(shape)).astype(wide)
        return te.sum(value * weight(o, channel, *taps).astype(wide), axis=[channel, *taps])

    out = te.compute((data.shape[0], weight.shape[0], *spatial), element, name="conv", attrs=ANCHOR)
    return rounded(out, dtype)


def output_size(size: Any, width: Any, shape: ConvShape, dim: int) -> Any:
    """The extent of a spatial dim of the result for data of `size` and a kernel of `width`."""
    padded = size + shape.begins[dim] + shape.ends[dim]
    return _simplify((padded - shape.dilation[dim] * (width - 1) - 1) // shape.strides[dim] + 1)


def planes(data: te.Tensor, kernel: Sequence[int], shape: ConvShape, dtype: str) -> te.Tensor:
    """`[N, C, phases, *extents]`: plane `p` holds what taps of phase `p` read, as `dtype`, zeros outside."""
    phases = shape.phases(kernel)
    extents = [
        _simplify(output_size(size, width, shape, dim) + (width - 1) * shape.dilation[dim] // shape.strides[dim])
        for dim, (size, width) in enumerate(zip(data.shape[2:], kernel, strict=True))
    ]

    def element(n: Any, c: Any, phase: Any, *at: Any) -> Any:
        parts = _digits(phase, phases)
        source = [
            p * stride + part * step - begin
            for p, part, stride, step, begin in zip(at, parts, shape.strides, shape.steps, shape.begins, strict=True)
        ]
        reach = [(begin > 0, True) for begin in shape.begins]
        return _inside(data, (n, c), source, reach).astype(dtype)

    return te.compute((*data.shape[:2], prod(phases), *extents), element, name="planes")


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


def tiled_conv(
    data: te.Tensor, packed: te.Tensor, shape: ConvShape, channels: int, spatial: Sequence[Any], dtype: str
) -> te.Tensor:
    """A convolution with `channels` outputs of extents `spatial` from planes (or data that `contiguous` allows)."""
    kernel = [int(width) for width in packed.shape[3:-1]]
    rows, per_group = int(packed.shape[-1]), channels // shape.groups
    phases = shape.phases(kernel)
    channel = te.reduce_axis((0, packed.shape[2]), name="c")
    taps = [te.reduce_axis((0, width), name=f"k{i}") for i, width in enumerate(kernel)]
    wide = accumulator(dtype)

    def element(n: Any, o: Any, *at: Any) -> Any:
        group, own = tirx.floordiv(o, per_group), tirx.floormod(o, per_group)
        source = [p + tap_offset(shape, dim, taps[dim]) for dim, p in enumerate(at)]
        plane = [] if shape.contiguous else [tap_phase(shape, phases, taps)]
        value = data(n, group * packed.shape[2] + channel, *plane, *source)
        factor = packed(group, tirx.floordiv(own, rows), channel, *taps, tirx.floormod(own, rows))
        return te.sum(value.astype(wide) * factor.astype(wide), axis=[channel, *taps])

    attrs = {**ANCHOR, "deploykit.strides": list(shape.strides), "deploykit.dilation": list(shape.dilation)}
    full = (data.shape[0], channels, *spatial)
    return rounded(te.compute(full, element, name="conv", attrs=attrs), dtype)


def tap_offset(shape: ConvShape, dim: int, tap: Any) -> Any:
    """How far from an output's own position in its plane a tap reads, along one dim."""
    return tap * shape.dilation[dim] // shape.strides[dim]


def tap_phase(shape: ConvShape, phases: Sequence[int], taps: Sequence[Any]) -> Any:
    """Which plane a tap reads."""
    index: Any = 0
    for dim, (count, tap) in enumerate(zip(phases, taps, strict=True)):
        step = shape.steps[dim]
        digit = tap * shape.dilation[dim] % shape.strides[dim] // step if count > 1 else 0
        index = index * count + digit
    return index


def _digits(index: Any, extents: Sequence[int]) -> list[Any]:
    digits: list[Any] = []
    for extent in reversed(extents):
        digits.append(tirx.floormod(index, extent) if extent > 1 else tirx.IntImm("int64", 0))
        index = tirx.floordiv(index, extent) if extent > 1 else index
    return digits[::-1]


def conv_transpose(
    data: te.Tensor, weight: te.Tensor, shape: ConvShape, output_padding: Sequence[int], dtype: str
) -> te.Tensor:
    """`ConvTranspose` of ONNX, in gather form: each output element sums the input elements that scatter to it."""
    kernel = list(weight.shape[2:])
    spatial = [
        _simplify((size - 1) * stride - begin - end + dilation * (width - 1) + extra + 1)
        for size, begin, end, dilation, width, stride, extra in zip(
            data.shape[2:],
            shape.begins,
            shape.ends,
            shape.dilation,
            kernel,
            shape.strides,
            output_padding,
            strict=True,
        )
    ]
    in_per_group = _simplify(weight.shape[0] // shape.groups)
    out_per_group = weight.shape[1]
    channel = te.reduce_axis((0, in_per_group), name="c")
    taps = [te.reduce_axis((0, width), name=f"k{i}") for i, width in enumerate(kernel)]
    wide = accumulator(dtype)

    def element(n: Any, o: Any, *at: Any) -> Any:
        scattered = [
            p + begin - tap * dilation
            for p, tap, dilation, begin in zip(at, taps, shape.dilation, shape.begins, strict=True)
        ]
        group = o // out_per_group
        c = group * in_per_group + channel
        source = [tirx.floordiv(p, stride) for p, stride in zip(scattered, shape.strides, strict=True)]
        whole = [
            tirx.floormod(p, stride) == 0 for p, stride in zip(scattered, shape.strides, strict=True) if stride > 1
        ]
        value = _inside(data, (n, c), source, [(True, True)] * len(kernel), whole).astype(wide)
        factor = weight(c, o - group * out_per_group, *taps).astype(wide)
        return te.sum(value * factor, axis=[channel, *taps])

    full = (data.shape[0], _simplify(out_per_group * shape.groups), *spatial)
    return rounded(te.compute(full, element, name="conv_transpose"), dtype)


def _reach(shape: ConvShape) -> list[tuple[bool, bool]]:
    """For each spatial dim, whether the kernel can reach before the begin and beyond the end of the data."""
    return [(begin > 0, end > 0) for begin, end in zip(shape.begins, shape.ends, strict=True)]


def _inside(
    data: te.Tensor,
    lead: tuple[Any, ...],
    at: Sequence[Any],
    reach: Sequence[tuple[bool, bool]],
    also: Sequence[Any] = (),
) -> Any:
    """The element of `data` at `at`, or 0 outside of its spatial dims or where a condition of `also` fails."""
    conditions = list(also)
    for index, size, (before, beyond) in zip(at, data.shape[2:], reach, strict=True):
        conditions += [index >= 0] if before else []
        conditions += [index < size] if beyond else []
    value = data(*lead, *at)
    return tirx.if_then_else(tirx.all(*conditions), value, tirx.const(0, data.dtype)) if conditions else value


def _simplify(value: Any) -> Any:
    return sym.Analyzer().simplify(value) if not isinstance(value, int) else value

"""Expresses transposed convolutions as ordinary ones.

Along one dim with stride `s`, output `p` of a transposed convolution with padding `b` is element `u = p + b` of the sum
of all scattered kernels. With `u = a * s + f`, the taps that contribute are `f + s * t`, for the input at `a - t`:

    y_f[a] = sum over t of x[a - t] * w[f + s * t]

So each of the `s` *phases* `f` is a convolution with stride 1 and kernels of width `ceil(k / s)`. All phases together
are one convolution with `s` times the output channels (`phase_shape`, `phase_weight`), and `interleaved` joins them.
Only kernels whose width is not a multiple of the stride are padded with zeros. This holds for dilation 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from tvm import te, tirx

from deploykit.compiler.operators.anchors.conv import ConvShape


def phase_shape(kernel: Sequence[int], output_padding: Sequence[int], shape: ConvShape) -> ConvShape:
    """The convolution that computes all phases of a transposed convolution."""
    begins, ends = [], []
    for dim, (width, extra) in enumerate(zip(kernel, output_padding, strict=True)):
        stride, begin = shape.strides[dim], shape.begins[dim]
        narrow = -(-width // stride)
        first = begin // stride
        beyond = (width - shape.ends[dim] + extra - 1) // stride
        begins.append(narrow - 1 - first)
        ends.append(beyond)
    ones = (1,) * len(kernel)
    return ConvShape(ones, (*begins, *ends), ones, shape.groups)


def phase_weight(weight: te.Tensor, shape: ConvShape) -> te.Tensor:
    """Weights `[C, O / groups, *kernel]` as `[groups * phases * O / groups, C / groups, *narrow]`, with the channels of
    a phase next to each other."""
    inputs, outputs = int(weight.shape[0]) // shape.groups, int(weight.shape[1])
    phases, kernel = prod(shape.strides), [int(width) for width in weight.shape[2:]]
    narrow = [-(-width // stride) for width, stride in zip(kernel, shape.strides, strict=True)]

    def element(channel: Any, c: Any, *at: Any) -> Any:
        group, phase = tirx.floordiv(channel, phases * outputs), tirx.floordiv(channel, outputs)
        parts = _digits(tirx.floormod(phase, phases), shape.strides)
        taps = [
            f + stride * (count - 1 - t) for f, stride, count, t in zip(parts, shape.strides, narrow, at, strict=True)
        ]
        inside = [tap < width for tap, width in zip(taps, kernel, strict=True)]
        value = weight(group * inputs + c, tirx.floormod(channel, outputs), *taps)
        return tirx.if_then_else(tirx.all(*inside), value, tirx.const(0, weight.dtype))

    return te.compute((outputs * shape.groups * phases, inputs, *narrow), element, name="phase_weight")


def phase_weight_array(weight: np.ndarray, shape: ConvShape) -> np.ndarray:
    """`phase_weight` of a constant."""
    groups, outputs = shape.groups, weight.shape[1]
    inputs, kernel = weight.shape[0] // groups, weight.shape[2:]
    narrow = [-(-width // stride) for width, stride in zip(kernel, shape.strides, strict=True)]
    wide = np.zeros((*weight.shape[:2], *(n * s for n, s in zip(narrow, shape.strides, strict=True))), weight.dtype)
    wide[(slice(None), slice(None), *(slice(width) for width in kernel))] = weight
    parts = [extent for pair in zip(narrow, shape.strides, strict=True) for extent in pair]
    cut = wide.reshape(groups, inputs, outputs, *parts)
    rank = len(kernel)
    taps, phases = range(3, 3 + 2 * rank, 2), range(4, 4 + 2 * rank, 2)
    moved = np.flip(cut, tuple(taps)).transpose(0, *phases, 2, 1, *taps)
    return np.ascontiguousarray(moved.reshape(groups * outputs * prod(shape.strides), inputs, *narrow))


def interleaved(data: te.Tensor, extents: Sequence[Any], shape: ConvShape) -> te.Tensor:
    """The phases `[N, *, groups * phases * O / groups]`, joined to `[N, *extents, O]`."""
    phases = prod(shape.strides)
    channels = int(data.shape[-1]) // phases
    outputs = channels // shape.groups

    def element(n: Any, *index: Any) -> Any:
        *at, o = index
        phase: Any = 0
        source: list[Any] = []
        for p, stride, begin in zip(at, shape.strides, shape.begins, strict=True):
            scattered = p + begin
            phase = phase * stride + (tirx.floormod(scattered, stride) if stride > 1 else 0)
            source.append(tirx.floordiv(scattered, stride) - begin // stride if stride > 1 else p)
        group = tirx.floordiv(o, outputs) * ((phases - 1) * outputs) if shape.groups > 1 else 0
        return data(n, *source, group + phase * outputs + o)

    return te.compute((data.shape[0], *extents, channels), element, name="interleaved")


def _digits(index: Any, extents: Sequence[int]) -> list[Any]:
    """The row-major coordinates of `index` in a box of `extents`."""
    found: list[Any] = []
    for extent in reversed(extents):
        found.append(tirx.floormod(index, extent) if extent > 1 else tirx.IntImm("int64", 0))
        index = tirx.floordiv(index, extent) if extent > 1 else index
    return found[::-1]

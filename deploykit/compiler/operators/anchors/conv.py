"""The definitions of convolutions and transposed convolutions, channels first, over any number of spatial dims.

`data` is `[N, C, *spatial]`; weights are `[O, C / groups, *kernel]`, for the transpose `[C, O / groups, *kernel]`.
`padding` lists all begins, then all ends. Sums are kept in `accumulator(dtype)`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import sym, te, tirx

from deploykit.compiler.operators.anchors.matmul import accumulator, rounded

OPERATIONS = "deploykit.operations"
"""Annotation of a block whose rule uses another algorithm than its definition: the operations per element."""


@dataclass(frozen=True)
class ConvShape:
    """The attributes that convolutions and transposed convolutions share: one entry per spatial dim, two for
    `padding`."""

    strides: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int

    def annotations(self, anchor: str) -> dict[str, Any]:
        """The annotations of an anchor's block."""
        entries = {"strides": self.strides, "padding": self.padding, "dilation": self.dilation}
        return {"deploykit.anchor": anchor, **{f"deploykit.{name}": list(value) for name, value in entries.items()}}

    @staticmethod
    def of_notes(notes: Mapping[str, Any], groups: int) -> ConvShape:
        """The attributes, read back from `annotations`."""
        strides, padding, dilation = (
            tuple(int(n) for n in notes[f"deploykit.{name}"]) for name in ("strides", "padding", "dilation")
        )
        return ConvShape(strides, padding, dilation, groups)

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
    out_per_group = simplified(weight.shape[0] // shape.groups)
    wide = accumulator(dtype)

    def element(n: Any, o: Any, *at: Any) -> Any:
        source = sources(shape, at, taps)
        c = channel if shape.groups == 1 else o // out_per_group * weight.shape[1] + channel
        value = inside(data, (n, c), source, reach(shape)).astype(wide)
        return te.sum(value * weight(o, channel, *taps).astype(wide), axis=[channel, *taps])

    return rounded(te.compute((data.shape[0], weight.shape[0], *spatial), element, name="conv"), dtype)


def conv_transpose(
    data: te.Tensor, weight: te.Tensor, shape: ConvShape, output_padding: Sequence[int], dtype: str
) -> te.Tensor:
    """`ConvTranspose` of ONNX, in gather form: each output element sums the input elements that scatter to it."""
    kernel = list(weight.shape[2:])
    spatial = [
        transposed_size(size, kernel[dim], shape, dim, extra)
        for dim, (size, extra) in enumerate(zip(data.shape[2:], output_padding, strict=True))
    ]
    in_per_group = simplified(weight.shape[0] // shape.groups)
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
        value = inside(data, (n, c), source, [(True, True)] * len(kernel), whole).astype(wide)
        factor = weight(c, o - group * out_per_group, *taps).astype(wide)
        return te.sum(value * factor, axis=[channel, *taps])

    full = (data.shape[0], simplified(out_per_group * shape.groups), *spatial)
    return rounded(te.compute(full, element, name="conv_transpose"), dtype)


def output_size(size: Any, width: Any, shape: ConvShape, dim: int) -> Any:
    """The extent of a spatial dim of the result for data of `size` and a kernel of `width`."""
    padded = size + shape.begins[dim] + shape.ends[dim]
    return simplified((padded - shape.dilation[dim] * (width - 1) - 1) // shape.strides[dim] + 1)


def transposed_size(size: Any, width: Any, shape: ConvShape, dim: int, extra: int) -> Any:
    """The extent of a spatial dim of the result of a transposed convolution."""
    full = (size - 1) * shape.strides[dim] + shape.dilation[dim] * (width - 1) + 1
    return simplified(full - shape.begins[dim] - shape.ends[dim] + extra)


def sources(shape: ConvShape, at: Sequence[Any], taps: Sequence[Any]) -> list[Any]:
    """The spatial index in the data that an output element reads for each tap."""
    steps = zip(at, taps, shape.strides, shape.dilation, shape.begins, strict=True)
    return [p * stride + tap * dilation - begin for p, tap, stride, dilation, begin in steps]


def reach(shape: ConvShape) -> list[tuple[bool, bool]]:
    """For each spatial dim, whether a kernel can reach before the begin and beyond the end of the data."""
    return [(begin > 0, end > 0) for begin, end in zip(shape.begins, shape.ends, strict=True)]


def inside(
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


def simplified(value: Any) -> Any:
    return sym.Analyzer().simplify(value) if not isinstance(value, int) else value

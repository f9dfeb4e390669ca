"""Depthwise convolutions over data with the channels last: a kernel for each channel, vectors along the channels.

Takes the `depthwise` anchor (`anchors.channels_last.depthwise_last`). Along the last spatial dim, `TILE` neighbouring
outputs of one vector of channels are summed together, so that a vector of weights is loaded once for all of them. The
outputs that read padding there are computed one at a time; along the other dims, taps in the padding are left out of
the loops. The last tile and the last vector are moved back and overlap the ones before. The epilogue is applied before
storing. One unit of parallel work is a line of outputs.

Declines other convolutions, and those whose epilogue is not along the channels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import ir, tirx

from deploykit.compiler.schedules.access import Views, analyse
from deploykit.compiler.schedules.anchors.conv import ConvShape
from deploykit.compiler.schedules.device import Device
from deploykit.compiler.schedules.finish import Finish, finish_of
from deploykit.compiler.schedules.inline import ANCHOR
from deploykit.compiler.schedules.loops import (
    Code,
    as_index,
    bits_of,
    const,
    dtype_of,
    local,
    loop,
    static,
    unravel,
    vectorized,
)
from deploykit.compiler.schedules.nest import Axis, Buffer, Expr, Stage, collect, sequence

TILE = 6
"""Outputs that are summed together."""


def depthwise(stage: Stage, views: Views, device: Device) -> list[Any] | str:
    """Statements that compute `stage`, or why it is not a depthwise convolution."""
    notes = stage.annotations
    if notes.get(ANCHOR) != "depthwise":
        return "no depthwise convolution"
    combine = stage.combine
    if combine is None or not isinstance(combine.source, tirx.Mul) or stage.store is None:
        return "its sum is not one of products"
    finish = finish_of(stage, views)
    found = analyse([finish.plain], stage.axes)
    if finish.scalar or not all(access.contiguous(len(stage.axes) - 1) for access in found):
        return "its epilogue is not along the channels"
    data, weight = (collect(side, ir.TensorLoad)[0].source for side in (combine.source.a, combine.source.b))
    channels = int(data.shape[-1])
    shape = ConvShape.of_notes(notes, channels)
    dtype = dtype_of(stage.store.buffer)
    lanes = device.lanes(bits_of(dtype))
    while lanes > channels:
        lanes //= 2
    task = _Depthwise(
        data, views.flat(data), views.flat(weight), shape, weight.shape[:-1], stage.axes, finish, channels, lanes, dtype
    )
    return [task.lines(device.parallel)]


@dataclass(frozen=True)
class _Depthwise:
    """One convolution, with vectors of `lanes` channels."""

    data: Buffer
    flat: Buffer
    weight: Buffer
    shape: ConvShape
    kernel: Sequence[Any]
    axes: tuple[Axis, ...]
    finish: Finish
    channels: int
    lanes: int
    dtype: str

    def lines(self, parallel: bool) -> Any:
        """All lines of outputs."""
        extents = [as_index(axis.extent) for axis in self.axes[:-2]]
        total = extents[0]
        for extent in extents[1:]:
            total = total * extent

        def line(index: Expr) -> Any:
            code = Code()
            image, *outer = (code.let("place", place) for place in unravel(index, extents))
            spans = [self.taps(code, dim, at) for dim, at in enumerate(outer)]
            self.sweep(code, [image, *outer], spans)
            return code.statement()

        return loop("line", total, line, tirx.ForKind.PARALLEL if parallel else tirx.ForKind.SERIAL)

    def taps(self, code: Code, dim: int, at: Expr) -> tuple[Expr, Expr]:
        """The first tap inside of the data along a dim for the output at `at`, and the one after the last."""
        shape, width = self.shape, int(self.kernel[dim])
        dilation, corner = shape.dilation[dim], at * shape.strides[dim] - shape.begins[dim]
        size = as_index(self.data.shape[dim + 1])
        first, stop = const(0), const(width)
        if shape.begins[dim] > 0:
            first = code.let("first", tirx.truncdiv(tirx.max(-corner, const(0)) + (dilation - 1), const(dilation)))
        if shape.ends[dim] > 0:
            reach = tirx.truncdiv(tirx.max(size - corner, const(0)) + (dilation - 1), const(dilation))
            stop = code.let("stop", tirx.min(reach, const(width)))
        return first, stop

    def sweep(self, code: Code, place: Sequence[Expr], spans: Sequence[tuple[Expr, Expr]]) -> None:
        """One line: the outputs before the inner ones, the inner ones in tiles, the others."""
        shape, stride, width = self.shape, self.shape.strides[-1], int(self.kernel[-1])
        extent, size = as_index(self.axes[-2].extent), as_index(self.data.shape[-2])
        reach = (width - 1) * shape.dilation[-1]
        begin = tirx.min(const(-(-shape.begins[-1] // stride)), extent)
        last = tirx.floordiv(size - 1 - reach + shape.begins[-1], const(stride)) + 1
        begin = code.let("begin", begin)
        end = code.let("end", tirx.max(tirx.min(last, extent), begin) if shape.ends[-1] > 0 else extent)
        whole = (const(0), const(width))

        def edge(x: Expr) -> Any:
            inner = Code()
            along = self.taps(inner, len(self.kernel) - 1, x)
            inner.add(self.vectors(1, [*place, x], [*spans, along]))
            return inner.statement()

        def tile(number: Expr) -> Any:
            inner = Code()
            x = inner.let("x", tirx.min(begin + number * TILE, end - TILE))
            inner.add(self.vectors(TILE, [*place, x], [*spans, whole]))
            return inner.statement()

        tiles = loop("tile", tirx.truncdiv(end - begin + (TILE - 1), const(TILE)), tile)
        single = loop("x", end - begin, lambda x: self.vectors(1, [*place, begin + x], [*spans, whole]))
        code.add(loop("x", begin, edge))
        code.add(tirx.IfThenElse(end - begin >= TILE, tiles, single))
        if shape.ends[-1] > 0:
            code.add(loop("x", extent - end, lambda x: edge(end + x)))

    def vectors(self, outputs: int, place: Sequence[Expr], spans: Sequence[tuple[Expr, Expr]]) -> Any:
        """All channels of some neighbouring outputs."""

        def vector(number: Expr) -> Any:
            code = Code()
            channel = code.let("channel", tirx.min(number * self.lanes, const(self.channels - self.lanes)))
            code.add(self.sums(outputs, place, spans, channel))
            return code.statement()

        return loop("vector", -(-self.channels // self.lanes), vector)

    def sums(self, outputs: int, place: Sequence[Expr], spans: Sequence[tuple[Expr, Expr]], channel: Expr) -> Any:
        """One vector of channels of some neighbouring outputs."""
        cell, lanes = local("sums", outputs * self.lanes, self.dtype), self.lanes
        image, *at = place

        def each(body: Callable[[Expr, Expr, Expr], Any]) -> Any:
            def output(o: Expr) -> Any:
                return vectorized(lanes, lambda lane: body(o, channel + lane, o * lanes + lane))

            return loop("o", outputs, output, tirx.ForKind.UNROLLED)

        def tap(taps: Sequence[Expr]) -> Any:
            offset, factor = image, const(0)
            for dim, (index, t) in enumerate(zip(at, taps, strict=True)):
                inside = index * self.shape.strides[dim] - self.shape.begins[dim] + t * self.shape.dilation[dim]
                offset = offset * as_index(self.data.shape[dim + 1]) + inside
                factor = factor * int(self.kernel[dim]) + t

            def add(o: Expr, c: Expr, p: Expr) -> Any:
                source = (offset + o * self.shape.strides[-1]) * self.channels + c
                value = tirx.BufferLoad(self.flat, [source]).astype(self.dtype)
                weight = tirx.BufferLoad(self.weight, [factor * self.channels + c]).astype(self.dtype)
                return tirx.BufferStore(cell, tirx.BufferLoad(cell, [p]) + value * weight, [p])

            return each(add)

        def taps(chosen: list[Expr]) -> Any:
            dim = len(chosen)
            if dim == len(spans):
                return tap(chosen)
            first, stop = spans[dim]
            whole = static(first) == 0 and static(stop) is not None
            kind = tirx.ForKind.UNROLLED if whole and dim == len(spans) - 1 else tirx.ForKind.SERIAL
            return loop("k", stop if whole else stop - first, lambda k: taps([*chosen, first + k]), kind)

        def store(o: Expr, c: Expr, p: Expr) -> Any:
            variables = [axis.var for axis in self.axes]
            index = [image, *at[:-1], at[-1] + o, c]
            return self.finish(tirx.BufferLoad(cell, [p]), dict(zip(variables, index, strict=True)))

        nothing = tirx.const(0, self.dtype)
        return sequence(
            [
                tirx.AllocBuffer(cell),
                each(lambda _o, _c, p: tirx.BufferStore(cell, nothing, [p])),
                taps([]),
                each(store),
            ]
        )

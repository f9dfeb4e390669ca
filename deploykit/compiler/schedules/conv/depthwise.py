"""Depthwise convolutions with channels last: one kernel per channel, with vectors along the channels.

The rule takes the `depthwise` anchor (`anchors.channels_last.depthwise_last`). `TILE` neighbouring outputs of one
vector of channels are summed together, so that each vector of weights is loaded once for all of them (`output_lines`).
The last vector is moved back and overlaps the one before. The epilogue is applied before storing. Machines without
vectors get loops over `PORTABLE_LANES` channels instead. One unit of parallel work is a line of outputs.

It declines other convolutions, and epilogues that are not along the channels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from tvm import ir, tirx

from deploykit.compiler.decisions import Declined
from deploykit.compiler.devices.cpu import Device
from deploykit.compiler.devices.row_functions import RowFunctions
from deploykit.compiler.operators.anchors.conv import ConvShape
from deploykit.compiler.schedules.conv.output_lines import Lines, Span, side_by_side
from deploykit.compiler.schedules.kernel.access import Views, analyse
from deploykit.compiler.schedules.kernel.finish import Finish, finish_of
from deploykit.compiler.schedules.kernel.kinds import another_kind
from deploykit.compiler.schedules.kernel.loops import Code, local, loop, unrolled
from deploykit.compiler.schedules.kernel.pointers import address, pointer, run
from deploykit.compiler.schedules.kernel.stages import Axis, Stage
from deploykit.compiler.schedules.pointwise.fours import LANES
from deploykit.compiler.schedules.pointwise.rows import row_of
from deploykit.compiler.tir.rewriting import Buffer, Expr, collect, sequence
from deploykit.compiler.tir.values import as_index, bits_of, const, dtype_of

TILE = 6
"""The number of outputs that are summed together."""

CHUNK = 32
"""The most channels whose sums are in memory at a time, for functions on vectors."""

PORTABLE_LANES = 8
"""The channels that replace a vector, for a C compiler: two of the narrowest float32 vectors."""


def depthwise(stage: Stage, views: Views, device: Device) -> list[tirx.Stmt] | Declined:
    """Statements that compute `stage`, or the reason why it is not a depthwise convolution."""
    notes = stage.annotations
    other = another_kind(stage, "depthwise")
    if other is not None:
        return other
    combine = stage.combine
    if combine is None or not isinstance(combine.source, tirx.Mul) or stage.store is None:
        return Declined("its sum is not one of products")
    finish = finish_of(stage, views)
    found = analyse([finish.plain], stage.axes)
    vectors = device.vector_bits > 0
    if vectors and (finish.scalar or not all(access.contiguous(len(stage.axes) - 1) for access in found)):
        return Declined("its epilogue is not along the channels")
    data, weight = (collect(side, ir.TensorLoad)[0].source for side in (combine.source.a, combine.source.b))
    channels = int(data.shape[-1])
    dtype = dtype_of(stage.store.buffer)
    lanes = device.lanes(bits_of(dtype)) if vectors else PORTABLE_LANES
    while lanes > channels:
        lanes //= 2
    kernel = [int(extent) for extent in weight.shape[:-1]]
    lines = Lines(data, ConvShape.of_notes(notes, channels), kernel, stage.axes[:-1], TILE)
    task = _Depthwise(lines, views.flat(data), views.flat(weight), stage.axes, finish, channels, lanes, dtype, vectors)
    kind = tirx.ForKind.PARALLEL if device.parallel else tirx.ForKind.SERIAL
    functions = device.row_functions
    outputs: Callable[[int, Sequence[Expr], Sequence[Span]], tirx.Stmt] = task.vectors
    if functions is not None and {dtype, dtype_of(data), dtype_of(weight)} == {"float32"} and len(kernel) <= 2:
        outputs = partial(task.chunks, functions)
    return [loop("line", lines.total, lambda index: lines.line(index, outputs), kind)]


@dataclass(frozen=True)
class _Depthwise:
    """One convolution, computed `lanes` channels at a time."""

    lines: Lines
    data: Buffer
    weight: Buffer
    axes: tuple[Axis, ...]
    finish: Finish
    channels: int
    lanes: int
    dtype: str
    exact: bool

    def vectors(self, outputs: int, place: Sequence[Expr], spans: Sequence[Span]) -> tirx.Stmt:
        """All channels of some neighbouring outputs."""

        def vector(number: Expr) -> tirx.Stmt:
            code = Code()
            channel = code.let("channel", tirx.min(number * self.lanes, const(self.channels - self.lanes)))
            code.add(self.sums(outputs, place, spans, channel))
            return code.statement()

        return loop("vector", -(-self.channels // self.lanes), vector)

    def chunks(self, functions: RowFunctions, outputs: int, place: Sequence[Expr], spans: Sequence[Span]) -> tirx.Stmt:
        """The same, by functions on rows."""
        most = min(CHUNK, -(-self.channels // LANES) * LANES)
        sums, shape = local("sums", outputs * most, self.dtype), self.lines.shape
        first, counts = [first for first, _ in spans], [stop - first for first, stop in spans]
        width, taps = as_index(self.lines.data.shape[-2]) * self.channels, self.lines.kernel[-1]
        factor = const(0)
        for extent, tap in zip(self.lines.kernel, first, strict=True):
            factor = factor * extent + tap
        row = width * shape.dilation[0] if len(spans) > 1 else const(0)
        column = const(shape.dilation[-1] * self.channels)
        apart = (const(taps * self.channels), const(self.channels))

        def chunk(index: Expr) -> tirx.Stmt:
            code, start = Code(), index * most
            count: Expr = const(most)
            if self.channels % most:
                count = code.let("channels", tirx.min(count, self.channels - start))
            data, declared = pointer("data", self.data, self.lines.offset(place, first, start))
            weights = address(self.weight, factor * self.channels + start)
            numbers = (const(shape.strides[-1] * self.channels), const(outputs), row, column, *[const(1), *counts][-2:])
            code.add(
                *declared, run(functions.name("multiply_taps_float"), sums, data, *numbers, weights, *apart, count)
            )
            between = tirx.truncdiv(count + (LANES - 1), const(LANES)) * LANES
            for o in range(outputs):
                code.add(row_of(functions, count, most, partial(self.stored, place, o, start, sums, o * between)))
            return code.statement()

        return sequence([tirx.AllocBuffer(sums), loop("chunk", -(-self.channels // most), chunk)])

    def stored(
        self, place: Sequence[Expr], o: int, start: Expr, sums: Buffer, first: Expr, index: Expr
    ) -> tirx.BufferStore:
        """The store of the sum at `first + index`, that of a channel from `start` on, for the output `o`."""
        coordinates = [*place[:-1], place[-1] + o, start + index]
        at = dict(zip((axis.var for axis in self.axes), coordinates, strict=True))
        return self.finish(tirx.BufferLoad(sums, [first + index]), at)

    def sums(self, outputs: int, place: Sequence[Expr], spans: Sequence[Span], channel: Expr) -> tirx.Stmt:
        """One vector of channels of some neighbouring outputs."""
        cell, lanes = local("sums", outputs * self.lanes, self.dtype), self.lanes

        def each(body: Callable[[Expr, Expr, Expr], tirx.Stmt]) -> tirx.Stmt:
            if self.exact:
                return unrolled(
                    "o",
                    outputs,
                    lambda o: side_by_side(lanes, True, lambda lane: body(o, channel + lane, o * lanes + lane)),
                    False,
                )
            return side_by_side(
                lanes,
                False,
                lambda lane: unrolled("o", outputs, lambda o: body(o, channel + lane, o * lanes + lane), True),
            )

        def tap(taps: list[Expr]) -> tirx.Stmt:
            offset, factor = self.lines.offset(place, taps, const(0)), const(0)
            for width, t in zip(self.lines.kernel, taps, strict=True):
                factor = factor * width + t
            step = self.lines.shape.strides[-1] * self.channels

            def add(o: Expr, c: Expr, p: Expr) -> tirx.Stmt:
                value = tirx.BufferLoad(self.data, [offset + o * step + c]).astype(self.dtype)
                weight = tirx.BufferLoad(self.weight, [factor * self.channels + c]).astype(self.dtype)
                return tirx.BufferStore(cell, tirx.BufferLoad(cell, [p]) + value * weight, [p])

            return each(add)

        def store(o: Expr, c: Expr, p: Expr) -> tirx.Stmt:
            index = [*place[:-1], place[-1] + o, c]
            at = dict(zip((axis.var for axis in self.axes), index, strict=True))
            return self.finish(tirx.BufferLoad(cell, [p]), at)

        nothing = tirx.const(0, self.dtype)
        return sequence(
            [
                tirx.AllocBuffer(cell),
                each(lambda _o, _c, p: tirx.BufferStore(cell, nothing, [p])),
                self.lines.over_taps(spans, tap, unrolled=self.exact),
                each(store),
            ]
        )

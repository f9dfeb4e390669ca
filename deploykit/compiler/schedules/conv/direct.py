"""Convolutions directly from the data, for machines without vectors or caches.

The rule takes the `panels` anchor (`anchors.channels_last.conv_last`) on such machines. A tile of neighbouring outputs
by the channels of a panel is summed together, so that each element of the data and each weight is loaded once for
several products (`output_lines`). The innermost loop runs along the channels: consecutive sums take consecutive weights
and are independent. So a C compiler can vectorise it if the machine has vectors after all. Where the device says how
many sums fit its registers, there is no such loop: each product is written out, and a C compiler keeps the sums there.
Channels of neighbouring taps lie side by side in the data and in the weights, so one loop runs along both. Nothing is
copied; the epilogue is applied before storing. One unit of parallel work is a line of outputs.

It declines other convolutions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from tvm import ir, tirx

from deploykit.compiler.decisions import Declined
from deploykit.compiler.devices.cpu import Device
from deploykit.compiler.devices.row_functions import RowFunctions
from deploykit.compiler.operators.anchors.conv import ConvShape
from deploykit.compiler.schedules.conv.output_lines import Lines, Span, exact_width
from deploykit.compiler.schedules.kernel.access import Views
from deploykit.compiler.schedules.kernel.finish import Finish, finish_of
from deploykit.compiler.schedules.kernel.kinds import another_kind
from deploykit.compiler.schedules.kernel.loops import local, loop, unrolled
from deploykit.compiler.schedules.kernel.pointers import address, pointer, run
from deploykit.compiler.schedules.kernel.stages import Axis, Stage
from deploykit.compiler.schedules.pointwise.rows import row_of
from deploykit.compiler.tir.rewriting import Buffer, Expr, collect, sequence
from deploykit.compiler.tir.values import as_index, const, dtype_of

TILES = (4, 5, 3)
"""The numbers of outputs that are summed together, the usual first."""

WIDEST = 8
"""The most channels of a panel: with 4 outputs, the sums fill the registers of a machine that has 32."""

WIDEST_SPELLED = 4
"""The most where each product is written out: more sums would leave no registers for the factors."""


def portable_width(channels: int, device: Device, dtype: str) -> int:
    """The channels of a panel, for `channels` output channels of a group."""
    if dtype == "float32" and device.row_functions is not None and device.row_functions.whole:
        return device.row_functions.float_width(channels)
    width = WIDEST_SPELLED if device.float_sums else WIDEST
    while width // 2 >= channels:
        width //= 2
    return width


def direct_conv(stage: Stage, views: Views, device: Device) -> list[tirx.Stmt] | Declined:
    """Statements that compute `stage`, or the reason why it is not a convolution for a machine without vectors."""
    notes = stage.annotations
    other = another_kind(stage, "panels")
    if other is not None:
        return other
    if device.vector_bits:
        return Declined("the device has vectors")
    combine = stage.combine
    if combine is None or not isinstance(combine.source, tirx.Mul) or stage.store is None:
        return Declined("its sum is not one of products")
    data, packed = (collect(side, ir.TensorLoad)[0].source for side in (combine.source.a, combine.source.b))
    groups, panels, *kernel, depth, width = (int(extent) for extent in packed.shape)
    dtype = dtype_of(stage.store.buffer)
    functions = device.row_functions
    if functions is None or not functions.takes(width) or {dtype, dtype_of(data), dtype_of(packed)} != {"float32"}:
        functions = None
    spelled = dtype == "float32" and 0 < width <= device.float_sums // min(TILES)
    tiles = [tile for tile in TILES if not spelled or tile * width <= device.float_sums]
    most = tiles[0] if functions is None else functions.float_rows
    exact = functions is None
    lines = Lines(data, ConvShape.of_notes(notes, groups), kernel, stage.axes[:-1], most, exact=exact)
    if functions is None:
        lines = replace(lines, width=exact_width(lines.inner, tiles))
    task = _Direct(
        lines,
        views.flat(data),
        views.flat(packed),
        stage.axes,
        finish_of(stage, views),
        (groups, panels, depth, width),
        int(stage.axes[-1].extent) // groups,
        dtype,
        spelled,
        functions,
    )
    kind = tirx.ForKind.PARALLEL if device.parallel else tirx.ForKind.SERIAL
    return [loop("line", lines.total, lambda index: lines.line(index, task.panels), kind)]


@dataclass(frozen=True)
class _Direct:
    """One convolution. `sizes` are the numbers of groups and of panels of a group, and the depth and width of a
    panel. `spelled`: there is no loop along the channels of a panel. `functions` add products
    and store results, if there are some."""

    lines: Lines
    data: Buffer
    packed: Buffer
    axes: tuple[Axis, ...]
    finish: Finish
    sizes: tuple[int, int, int, int]
    channels: int
    dtype: str
    spelled: bool
    functions: RowFunctions | None

    def panels(self, outputs: int, place: Sequence[Expr], spans: Sequence[Span]) -> tirx.Stmt:
        """All channels of some neighbouring outputs."""
        groups, panels = self.sizes[:2]
        of_panel = self.tile if self.functions is None else partial(self.by_rows, self.functions)

        def panel(group: Expr, index: Expr) -> tirx.Stmt:
            return of_panel(outputs, place, spans, group, index)

        return loop("group", groups, lambda group: loop("panel", panels, lambda index: panel(group, index)))

    def by_rows(
        self,
        functions: RowFunctions,
        outputs: int,
        place: Sequence[Expr],
        spans: Sequence[Span],
        group: Expr,
        panel: Expr,
    ) -> tirx.Stmt:
        """The same as `tile` by functions on rows. Taps along the last dim that are next to each other are one
        run of terms."""
        groups, panels, depth, width = self.sizes
        sums = local("sums", outputs * width, self.dtype)
        step = const(self.lines.shape.strides[-1] * int(self.lines.data.shape[-1]))

        def terms(taps: list[Expr], count: Expr) -> tirx.Stmt:
            start = group * panels + panel
            for extent, tap in zip(self.lines.kernel, taps, strict=True):
                start = start * extent + tap
            data, declared = pointer("data", self.data, self.lines.offset(place, taps, group * depth))
            weights = address(self.packed, start * (depth * width))
            own = [const(width)] if functions.whole else []
            name = functions.name("multiply_outputs")
            return sequence([*declared, run(name, sums, data, step, const(outputs), weights, count, *own)])

        def row(taps: list[Expr]) -> tirx.Stmt:
            first, stop = spans[-1]
            return terms([*taps, first], as_index((stop - first) * depth))

        def store(o: int, lane: Expr) -> tirx.BufferStore:
            return self.store(place, o, group, panel, lane, tirx.BufferLoad(sums, [lane + o * width]))

        nothing = tirx.const(0, self.dtype)
        adjacent = self.lines.shape.dilation[-1] == 1 and groups == 1
        added = (
            self.lines.over_taps(spans[:-1], row)
            if adjacent
            else self.lines.over_taps(spans, lambda taps: terms(taps, const(depth)))
        )
        cells = outputs * width
        cleared = row_of(functions, cells, cells, lambda p: tirx.BufferStore(sums, nothing, [p]))
        stored = [row_of(functions, self.existing(panel), width, partial(store, o)) for o in range(outputs)]
        return sequence([tirx.AllocBuffer(sums), cleared, added, *stored])

    def store(
        self, place: Sequence[Expr], o: Expr | int, group: Expr, panel: Expr, lane: Expr, value: Expr
    ) -> tirx.BufferStore:
        """The store of the result of a lane for the output `o`."""
        channel = group * self.channels + panel * self.sizes[-1] + lane
        index = [*place[:-1], place[-1] + o, channel]
        return self.finish(value, dict(zip((axis.var for axis in self.axes), index, strict=True)))

    def existing(self, panel: Expr) -> Expr | int:
        """The number of lanes of a panel that are channels."""
        width = self.sizes[-1]
        return width if self.channels % width == 0 else tirx.min(self.channels - panel * width, width)

    def tile(self, outputs: int, place: Sequence[Expr], spans: Sequence[Span], group: Expr, panel: Expr) -> tirx.Stmt:
        """The channels of one panel, for some neighbouring outputs."""
        groups, panels, depth, width = self.sizes
        cell = local("sums", outputs * width, self.dtype)
        joined = groups == 1 and self.lines.shape.dilation[-1] == 1

        def each(body: Callable[[Expr, Expr, Expr], tirx.Stmt], count: Expr | None = None) -> tirx.Stmt:
            def lane(index: Expr) -> tirx.Stmt:
                found = unrolled("o", outputs, lambda o: body(o, index, o * width + index), True)
                return tirx.IfThenElse(index < count, found, None) if self.spelled and count is not None else found

            if self.spelled:
                return unrolled("lane", width, lane, True)
            return loop("lane", width if count is None else count, lane)

        def terms(taps: list[Expr]) -> tirx.Stmt:
            count: Expr | int = depth
            if joined:
                first, stop = spans[-1]
                taps, count = [*taps, first], (stop - first) * depth
            start = group * panels + panel
            for extent, tap in zip(self.lines.kernel, taps, strict=True):
                start = start * extent + tap

            def term(channel: Expr) -> tirx.Stmt:
                source = self.lines.offset(place, taps, group * depth + channel)
                step = self.lines.shape.strides[-1] * int(self.lines.data.shape[-1])

                def add(o: Expr, lane: Expr, p: Expr) -> tirx.Stmt:
                    value = tirx.BufferLoad(self.data, [source + o * step]).astype(self.dtype)
                    weight = tirx.BufferLoad(self.packed, [(start * depth + channel) * width + lane])
                    total = tirx.BufferLoad(cell, [p]) + value * weight.astype(self.dtype)
                    return tirx.BufferStore(cell, total, [p])

                return each(add)

            return loop("c", count, term)

        def store(o: Expr, lane: Expr, p: Expr) -> tirx.Stmt:
            return self.store(place, o, group, panel, lane, tirx.BufferLoad(cell, [p]))

        nothing = tirx.const(0, self.dtype)
        last = self.existing(panel)
        return sequence(
            [
                tirx.AllocBuffer(cell),
                each(lambda _o, _lane, p: tirx.BufferStore(cell, nothing, [p])),
                self.lines.over_taps(spans[:-1] if joined else spans, terms),
                each(store, None if isinstance(last, int) else last),
            ]
        )

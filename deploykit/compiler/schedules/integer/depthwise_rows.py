"""Depthwise convolutions of integers with channels last, for CPUs with vectors that C calls functions for
(`devices.row_functions`): these add the products of a vector of channels at a time, tap by tap.

The rule takes the anchor `integer_depthwise` with weights `[*kernel, C]` over one or two axes. Sums of some channels of
neighbouring outputs are in memory, from where they are stored as those of other products are (`sums`).

It declines other stages, devices and forms of factors.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tvm import ir, sym, tirx

from deploykit.compiler.decisions import Declined
from deploykit.compiler.devices.cpu import Device
from deploykit.compiler.devices.row_functions import RowFunctions
from deploykit.compiler.schedules.integer.depthwise_outputs import (
    Depthwise,
    Taps,
    Values,
    depthwise_of,
    places_of,
    rows,
    taps_at,
)
from deploykit.compiler.schedules.integer.sums import Sums, stored
from deploykit.compiler.schedules.kernel.access import Views
from deploykit.compiler.schedules.kernel.kinds import another_kind
from deploykit.compiler.schedules.kernel.loops import Code, index_of, local, loop
from deploykit.compiler.schedules.kernel.pointers import address, pointer, run
from deploykit.compiler.schedules.kernel.stages import Stage
from deploykit.compiler.tir.rewriting import Buffer, Expr, collect, substitute
from deploykit.compiler.tir.values import bits_of, const, dtype_of

EIGHT = 8
"""Sums of an output take a multiple of this."""


def depthwise_rows(stage: Stage, views: Views, device: Device) -> list[tirx.Stmt] | Declined:
    """Statements that compute `stage`, or the reason why it is no depthwise convolution by functions on rows."""
    other = another_kind(stage, "integer_depthwise")
    if other is not None:
        return other
    functions = device.row_functions
    if functions is None:
        return Declined("the device has no functions on rows")
    task = depthwise_of(stage, views)
    if isinstance(task, Declined):
        return task
    if any(extent != 1 for extent in task.kernel[:-2]):
        return Declined("its kernel has more than two axes")
    emitter = _Outputs(task, views, functions)
    return [rows(task, views, emitter.inner, emitter.edge, partial(_copied, functions))]


class _Outputs:
    """Emits outputs of one convolution."""

    def __init__(self, task: Depthwise, views: Views, functions: RowFunctions) -> None:
        self.task, self.views, self.functions = task, views, functions
        self.most = min(functions.channels, -(-task.channels // EIGHT) * EIGHT)
        self.outputs = functions.channels // self.most

    def inner(self, at: Values, first: Expr, outputs: Expr) -> tirx.Stmt:
        """Neighbouring outputs of a row whose taps lie in the data."""
        axis = self.task.axes[-2]
        taps = taps_at(self.task, self.views, at)
        start = taps.start
        moved = sym.Analyzer().simplify(substitute(start, {axis.var: axis.var + 1}) - start)

        def block(index: Expr) -> tirx.Stmt:
            code, x = Code(), first + index * self.outputs
            count = code.let("outputs", tirx.min(const(self.outputs), outputs - index * self.outputs))
            here = {**at, axis.var: index_of(axis, x)}
            code.add(
                self._channels(here, taps_at(self.task, self.views, here), moved, count, const(0), self.task.channels)
            )
            return code.statement()

        return loop("x", tirx.floordiv(outputs + (self.outputs - 1), const(self.outputs)), block)

    def edge(self, at: Values, taps: Taps, first: Expr, count: int) -> tirx.Stmt:
        """`count` channels of an output from `first` on."""
        return self._channels(at, taps, const(0), const(1), first, count)

    def _channels(self, at: Values, taps: Taps, step: Expr, outputs: Expr, first: Expr, count: int) -> tirx.Stmt:
        """`count` channels from `first` on of neighbouring outputs, whose data are `step` elements apart."""
        code = Code()
        sums = local("sums", self.outputs * self.most, "int32")
        code.add(tirx.AllocBuffer(sums))
        base, offsets = places_of(self.task, self.task.weight)
        kernel = [1, *self.task.kernel][-2:]
        column = taps.places[1] if kernel[1] > 1 else const(0)
        row = taps.places[kernel[1]] if kernel[0] > 1 else const(0)
        between = offsets[1] if len(offsets) > 1 else const(0)

        def chunk(index: Expr) -> tirx.Stmt:
            inner, start = Code(), index * self.most
            channels: Expr = const(self.most)
            if count % self.most:
                channels = inner.let("channels", tirx.min(channels, count - start))
            place = taps.start + start if taps.copied else taps.start + (first + start)
            data, declared = pointer("data", taps.source, place)
            inner.add(
                *declared,
                run(
                    self.functions.name(f"multiply_taps_{dtype_of(taps.source)}"),
                    sums,
                    data,
                    *(step, outputs, row, column, const(kernel[0]), const(kernel[1])),
                    address(self.views.flat(self.task.weight.source), base + (first + start)),
                    *(between, channels),
                ),
            )
            store = partial(self._stored, at, first + start)
            inner.add(stored(store, Sums(sums, outputs, self.most, channels), self.functions))
            return inner.statement()

        code.add(loop("chunk", -(-count // self.most), chunk))
        return code.statement()

    def _stored(self, at: Values, first: Expr, value: Expr, output: Expr, index: Expr) -> tirx.BufferStore:
        """The store of the result for a channel, `output` outputs later."""
        *_, row, channel = self.task.axes
        here = {**at, row.var: at[row.var] + index_of(row, output)}
        done = self.task.finish(value, {channel.var: index_of(channel, first + index)})
        return substitute(done, here)


def _copied(
    functions: RowFunctions, target: Buffer, start: Expr, value: Callable[[Expr], Expr], count: int
) -> tirx.Stmt:
    """A copy of neighbouring factors, or of a factor that is the same for all channels."""
    channel = ir.Var("c", "int64")
    each = value(channel)
    to = address(target, start)
    if channel in collect(each, ir.Var):
        load = collect(value(const(0)), ir.TensorLoad)[-1]
        size = bits_of(dtype_of(target)) // 8
        return run(functions.name("copy_bytes"), to, address(load.source, load.indices[0]), const(count * size))
    if dtype_of(target) == "int16":
        return loop("c", count, lambda c: tirx.BufferStore(target, each, [start + c]))
    return run(functions.name("fill_bytes"), to, each.astype("int32"), const(count))

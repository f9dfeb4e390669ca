"""Depthwise convolutions of 8-bit integers with channels last, in vectors along the channels.

The rule takes the anchor `integer_depthwise` (`anchors.integer`) with weights `[*kernel, C]`. For each run of channels
that fills a vector, the weights stay in registers for a whole row of outputs. Outputs whose taps all lie in the data
read them unconditionally; for other outputs, each tap is checked. One unit of parallel work is a row of outputs.

Where the device multiplies 16-bit integers to 32-bit ones, a vector has twice as many channels, whose factors are
converted to 16 bits only.

It declines other stages, machines without vectors, and epilogues that have no vector form.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import tvm_ffi
from tvm import ir, tirx

from deploykit.compiler.decisions import Declined
from deploykit.compiler.devices.cpu import Device
from deploykit.compiler.operators.anchors.integer import BEFORE, DILATION, STRIDES
from deploykit.compiler.schedules.integer.dot import WIDENING
from deploykit.compiler.schedules.kernel.access import Views
from deploykit.compiler.schedules.kernel.finish import Finish, finish_of
from deploykit.compiler.schedules.kernel.kinds import another_kind
from deploykit.compiler.schedules.kernel.loops import Code, index_of, local, loop, unravel, vectorized
from deploykit.compiler.schedules.kernel.stages import Axis, Stage
from deploykit.compiler.tir.rewriting import Buffer, Expr, call_name, collect, sequence, substitute
from deploykit.compiler.tir.values import as_index, consecutive, const, dtype_of


@dataclass(frozen=True)
class _Depthwise:
    """A convolution. `source` is a term of its sums; `inner` is the same term for taps that lie in the data. `spans`
    are, along each spatial axis, the outputs whose taps all lie in the data: the first one and the one after the
    last."""

    axes: tuple[Axis, ...]
    taps: tuple[Axis, ...]
    source: Expr
    inner: Expr
    finish: Finish
    spans: tuple[tuple[Expr, Expr], ...]
    channels: int


def integer_depthwise(stage: Stage, views: Views, device: Device) -> list[tirx.Stmt] | Declined:
    """Statements that compute `stage`, or the reason why it is not a depthwise convolution of integers."""
    other = another_kind(stage, "integer_depthwise")
    if other is not None:
        return other
    if device.vector_bits == 0:
        return Declined("the device has no vectors")
    combine, channels = stage.combine, stage.axes[-1].static
    if combine is None or channels is None or any(axis.static is None for axis in stage.reduce):
        return Declined("its channels or taps are not known")
    finish = finish_of(stage, views)
    if finish.scalar:
        return Declined("its epilogue has no vector form")
    source = views.value(combine.source)
    inner = tvm_ffi.structural_map(source, (ir.Call, _inside))
    task = _Depthwise(stage.axes, stage.reduce, source, inner, finish, spans_of(stage), channels)
    return [_tasks(task, device)]


def _inside(call: ir.Call) -> Expr:
    return call.args[1] if call_name(call) == "if_then_else" else call


def spans_of(stage: Stage) -> tuple[tuple[Expr, Expr], ...]:
    """Along each spatial axis, the first output whose taps all lie in the data, and the one after the last."""
    assert stage.combine is not None
    assert isinstance(stage.combine.source, tirx.Mul)
    data = next(load.source for load in collect(stage.combine.source.a, ir.TensorLoad) if len(load.indices) > 1)
    notes = [[int(n) for n in stage.annotations[name]] for name in (STRIDES, DILATION, BEFORE)]
    spans = []
    for dim, (stride, step, before) in enumerate(zip(*notes, strict=True)):
        extent = as_index(stage.axes[dim + 1].extent)
        reach = ((stage.reduce[dim].static or 1) - 1) * step
        first = tirx.min(const(-(-before // stride)), extent)
        room = as_index(data.shape[dim + 1]) + (before - reach - 1)
        stop = tirx.min(tirx.floordiv(room, const(stride)) + 1, extent)
        spans.append((first, tirx.max(stop, first)))
    return tuple(spans)


def span_of_row(
    code: Code, places: Sequence[Expr], spans: Sequence[tuple[Expr, Expr]], width: Expr
) -> tuple[Expr, Expr]:
    """The outputs of a row of `width` whose taps all lie in the data, as variables of `code`: the first one and the one
    after the last. `places` are those of the row along the other spatial axes."""
    between = [
        condition
        for place, (first, stop) in zip(places, spans, strict=False)
        for condition in (place >= first, place < stop)
    ]
    whole = tirx.all(*between) if between else tirx.const(True, "bool")
    first, stop = (tirx.Select(whole, end, width) for end in spans[-1])
    return code.let("first", first), code.let("stop", stop)


def _tasks(task: _Depthwise, device: Device) -> tirx.Stmt:
    """All rows of outputs."""
    *outer, row, _ = task.axes
    extents = [as_index(axis.extent) for axis in outer]

    def body(index: Expr) -> tirx.Stmt:
        code = Code()
        counts = [code.let("count", extent) for extent in extents]
        places = [code.let("place", place) for place in unravel(index, counts)]
        at = {axis.var: index_of(axis, place) for axis, place in zip(outer, places, strict=True)}
        width = as_index(row.extent)
        first, stop = span_of_row(code, places[1:], task.spans, width)

        def run(channel: Expr, lanes: int) -> tirx.Stmt:
            def output(source: Expr, x: Expr) -> tirx.Stmt:
                done = _output(task, source, channel, lanes, device)
                return substitute(done, {**at, row.var: index_of(row, x)})

            inner = loop("x", stop - first, lambda x: output(task.inner, first + x))
            if task.inner.same_as(task.source):
                return inner
            edge = loop(
                "x",
                first + (width - stop),
                lambda x: output(task.source, tirx.Select(x < first, x, x + (stop - first))),
            )
            return sequence([inner, edge])

        code.add(*_channel_runs(task.channels, device.lanes(16 if device.widening else 32), run))
        return code.statement()

    total = extents[0]
    for extent in extents[1:]:
        total = total * extent
    return loop("task", total, body, tirx.ForKind.PARALLEL if device.parallel else tirx.ForKind.SERIAL)


def _channel_runs(channels: int, lanes: int, run: Callable[[Expr, int], tirx.Stmt]) -> list[tirx.Stmt]:
    """`run(first channel, lanes)` for all channels, in whole vectors, then in halves of vectors."""
    statements = [loop("c", channels // lanes, lambda c: run(c * lanes, lanes))]
    done, width = channels // lanes * lanes, lanes // 2
    while done < channels:
        if channels - done >= width:
            statements.append(run(const(done), width))
            done += width
        width //= 2
    return statements


def _output(task: _Depthwise, source: Expr, first: Expr, lanes: int, device: Device) -> tirx.Stmt:
    """`lanes` channels from `first` on of one output."""
    sums = local("sums", lanes, "int32")
    channel = task.axes[-1]

    def add_widened(taps: dict[ir.Var, Expr]) -> tirx.Stmt:
        assert isinstance(source, tirx.Mul)
        assert device.widening is not None
        multiply, half = WIDENING[device.widening], device.lanes(32)
        factors = [local(name, lanes, "int16") for name in ("left", "right")]
        steps: list[tirx.Stmt] = []
        for factor, wide in zip(factors, (source.a, source.b), strict=True):

            def lane(j: Expr, factor: Buffer = factor, wide: Expr = wide) -> tirx.Stmt:
                value = substitute(wide, {**taps, channel.var: index_of(channel, first + j)})
                return tirx.BufferStore(factor, value.astype("int16"), [j])

            steps += [tirx.AllocBuffer(factor), vectorized(lanes, lane)]
        for start in range(0, lanes, half):
            at = [consecutive(const(start), half)]
            product = multiply(*(tirx.BufferLoad(factor, at) for factor in factors))
            steps.append(tirx.BufferStore(sums, tirx.BufferLoad(sums, at) + product, at))
        return sequence(steps)

    def add(taps: dict[ir.Var, Expr]) -> tirx.Stmt:
        def lane(j: Expr) -> tirx.Stmt:
            value = substitute(source, {**taps, channel.var: index_of(channel, first + j)})
            return tirx.BufferStore(sums, tirx.BufferLoad(sums, [j]) + value, [j])

        return vectorized(lanes, lane)

    def store(j: Expr) -> tirx.Stmt:
        return task.finish(tirx.BufferLoad(sums, [j]), {channel.var: index_of(channel, first + j)})

    nothing = tirx.const(0, "int32")
    wide = device.widening is not None and lanes == device.lanes(16) and isinstance(source, tirx.Mul)
    added = _each_tap(task.taps, {}, add_widened if wide else add)
    steps = [vectorized(lanes, lambda j: tirx.BufferStore(sums, nothing, [j])), *added]
    return sequence([tirx.AllocBuffer(sums), *steps, vectorized(lanes, store)])


def _each_tap(
    taps: Sequence[Axis], chosen: dict[ir.Var, Expr], body: Callable[[dict[ir.Var, Expr]], tirx.Stmt]
) -> list[tirx.Stmt]:
    """`body` for every tap, unrolled."""
    if not taps:
        return [body(chosen)]
    first, *rest = taps
    statements: list[tirx.Stmt] = []
    for index in range(first.static or 0):
        statements += _each_tap(rest, {**chosen, first.var: tirx.IntImm(dtype_of(first.var), index)}, body)
    return statements

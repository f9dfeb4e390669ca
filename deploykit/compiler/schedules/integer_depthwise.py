"""Depthwise convolutions of 8-bit integers, channels last: vectors along the channels.

Takes the anchor `integer_depthwise` (`anchors.integer`): data without padding of its own, weights `[*kernel, C]`. For
each run of channels that fills a vector, the weights stay in registers for a whole row of outputs. One unit of parallel
work is a row of outputs.

Declines other stages, machines without vectors, and epilogues that have no vector form.
"""

from __future__ import annotations

from typing import Any

from tvm import ir, tirx

from deploykit.compiler.schedules.access import Views
from deploykit.compiler.schedules.device import Device
from deploykit.compiler.schedules.finish import Finish, finish_of
from deploykit.compiler.schedules.inline import ANCHOR
from deploykit.compiler.schedules.loops import Code, as_index, const, dtype_of, local, loop, unravel, vectorized
from deploykit.compiler.schedules.nest import Axis, Expr, Stage, sequence, substitute


def integer_depthwise(stage: Stage, views: Views, device: Device) -> list[Any] | str:
    """Statements that compute `stage`, or why it is not a depthwise convolution of integers."""
    if stage.annotations.get(ANCHOR) != "integer_depthwise":
        return "no depthwise convolution of integers"
    if device.vector_bits == 0:
        return "the device has no vectors"
    combine, channels = stage.combine, stage.axes[-1].static
    if combine is None or channels is None or any(axis.static is None for axis in stage.reduce):
        return "its channels or taps are not known"
    finish = finish_of(stage, views)
    if finish.scalar:
        return "its epilogue has no vector form"
    *outer, row, _ = stage.axes
    lanes = device.lanes(32)
    extents = [as_index(axis.extent) for axis in outer]

    def task(index: Expr) -> Any:
        code = Code()
        counts = [code.let("count", extent) for extent in extents]
        places = [code.let("place", place) for place in unravel(index, counts)]
        at = {axis.var: _exact(place, axis) for axis, place in zip(outer, places, strict=True)}

        def run(first: Expr, width: int) -> Any:
            return loop(
                "x",
                row.extent,
                lambda x: substitute(_output(stage, views, finish, first, width), {**at, row.var: _exact(x, row)}),
            )

        code.add(loop("c", channels // lanes, lambda c: run(c * lanes, lanes)))
        done, width = channels // lanes * lanes, lanes // 2
        while done < channels:
            if channels - done >= width:
                code.add(run(const(done), width))
                done += width
            width //= 2
        return code.statement()

    total = extents[0]
    for extent in extents[1:]:
        total = total * extent
    return [loop("task", total, task, tirx.ForKind.PARALLEL if device.parallel else tirx.ForKind.SERIAL)]


def _output(stage: Stage, views: Views, finish: Finish, first: Expr, width: int) -> Any:
    """`width` channels from `first` on of one output."""
    assert stage.combine is not None
    sums = local("sums", width, "int32")
    channel = stage.axes[-1]
    source = views.value(stage.combine.source)

    def add(taps: dict[ir.Var, Expr]) -> Any:
        def lane(j: Expr) -> Any:
            value = substitute(source, {**taps, channel.var: _exact(first + j, channel)})
            return tirx.BufferStore(sums, tirx.BufferLoad(sums, [j]) + value, [j])

        return vectorized(width, lane)

    def store(j: Expr) -> Any:
        return finish(tirx.BufferLoad(sums, [j]), {channel.var: _exact(first + j, channel)})

    nothing = tirx.const(0, "int32")
    steps = [vectorized(width, lambda j: tirx.BufferStore(sums, nothing, [j])), *_each_tap(stage.reduce, {}, add)]
    return sequence([tirx.AllocBuffer(sums), *steps, vectorized(width, store)])


def _each_tap(taps: tuple[Axis, ...], chosen: dict[ir.Var, Expr], body: Any) -> list[Any]:
    """`body` for every tap, side by side in the code."""
    if not taps:
        return [body(chosen)]
    first, *rest = taps
    statements: list[Any] = []
    for index in range(first.static or 0):
        statements += _each_tap(tuple(rest), {**chosen, first.var: tirx.IntImm(dtype_of(first.var), index)}, body)
    return statements


def _exact(value: Expr, axis: Axis) -> Expr:
    return value if dtype_of(axis.var) == dtype_of(value) else value.astype(dtype_of(axis.var))

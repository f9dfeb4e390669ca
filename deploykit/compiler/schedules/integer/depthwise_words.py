"""Depthwise convolutions of integers with channels last, for CPUs without vectors.

The rule takes the anchor `integer_depthwise` with weights `[*kernel, C]`, where the device has one of `words.TILES`.
With `smlad`, the data and weights of four channels are read as words, and both halves of a widened word are factors.
With `mla`, channels are computed one by one. Taps are unrolled, and their places are constants where sizes are.
Taps at an edge are copied as words; on a `compact` device they are a loop.

It declines other stages, devices and forms of factors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

import numpy as np
from tvm import ir, tirx

from deploykit.compiler.decisions import Declined
from deploykit.compiler.devices.cpu import Device
from deploykit.compiler.schedules.integer.depthwise_outputs import (
    WORD,
    Depthwise,
    Taps,
    Values,
    depthwise_of,
    places_of,
    rows,
    taps_at,
)
from deploykit.compiler.schedules.integer.words import TILES, called, word
from deploykit.compiler.schedules.kernel.access import Views
from deploykit.compiler.schedules.kernel.kinds import another_kind
from deploykit.compiler.schedules.kernel.loops import index_of, local, loop
from deploykit.compiler.schedules.kernel.pointers import address, pointer, run
from deploykit.compiler.schedules.kernel.stages import Stage
from deploykit.compiler.tir.rewriting import Buffer, Expr, collect, sequence, substitute
from deploykit.compiler.tir.values import const, dtype_of, static


def depthwise_words(stage: Stage, views: Views, device: Device) -> list[tirx.Stmt] | Declined:
    """Statements that compute `stage`, or the reason why it is no depthwise convolution for a CPU without vectors."""
    other = another_kind(stage, "integer_depthwise")
    if other is not None:
        return other
    dot = next((dot for dot in device.dots if dot in TILES), None)
    if dot is None:
        return Declined("the device computes by vectors, or nothing is known of it")
    task = depthwise_of(stage, views)
    if isinstance(task, Declined):
        return task
    channels = partial(_channels, task, views, dot == "smlad", device.compact)

    def inner(at: Values, first: Expr, outputs: Expr) -> tirx.Stmt:
        axis = task.axes[-2]

        def output(x: Expr) -> tirx.Stmt:
            here = {**at, axis.var: index_of(axis, first + x)}
            return channels(here, taps_at(task, views, here), const(0), task.channels)

        return loop("x", outputs, output)

    return [rows(task, views, inner, channels, _copied)]


def _copied(target: Buffer, start: Expr, value: Callable[[Expr], Expr], count: int) -> tirx.Stmt:
    """A copy of neighbouring factors, or of a factor that is the same for all channels."""
    channel = ir.Var("c", "int64")
    each, bits = value(channel), np.dtype(dtype_of(target)).itemsize * 8
    to, size = address(target, start), tirx.IntImm("int32", count * bits // 8)
    if channel in collect(each, ir.Var):
        load = collect(value(const(0)), ir.TensorLoad)[-1]
        return run("copy_words", to, address(load.source, load.indices[0]), size)
    return run("fill_words", to, each.astype("int32"), tirx.IntImm("int32", bits), size)


def _channels(
    task: Depthwise, views: Views, by_words: bool, compact: bool, at: Values, taps: Taps, first: Expr, count: int
) -> tirx.Stmt:
    """`count` channels of an output from `first` on."""
    words = count // WORD if by_words else 0
    rest = count - words * WORD

    def several(lanes: int, add: _Add, channel: Expr) -> tirx.Stmt:
        return _output(task, views, at, taps, (first, channel), lanes, add, compact)

    steps = [loop("word", words, lambda g: several(WORD, _add_word, g * WORD))] if words else []
    if rest:
        steps.append(loop("c", rest, lambda c: several(1, _add_one, c + words * WORD)))
    return sequence(steps)


_Add = Callable[[Buffer, Buffer, Expr, Buffer, Expr], tirx.Stmt]


def _output(
    task: Depthwise,
    views: Views,
    at: Values,
    taps: Taps,
    place: tuple[Expr, Expr],
    lanes: int,
    add: _Add,
    compact: bool,
) -> tirx.Stmt:
    """`lanes` channels of an output. `place` are the first channel of all, and the channel counted from there. Taps
    that are the same distance apart are a loop if it is to be `compact`."""
    first, channel = place
    weights = views.flat(task.weight.source)
    base, offsets = places_of(task, task.weight)
    sums = local("sums", lanes, "int32")
    start = taps.start + channel if taps.copied else taps.start + (first + channel)
    data, declared = pointer("data", taps.source, start)
    factors, others = pointer("factors", weights, base + (first + channel))
    steps: list[tirx.Stmt] = [*declared, *others, tirx.AllocBuffer(sums)]
    steps += [tirx.BufferStore(sums, tirx.const(0, "int32"), [const(lane)]) for lane in range(lanes)]
    across, between = (_apart(places) if compact else None for places in (taps.places, offsets))
    if across is None or between is None:
        steps += [add(sums, data, tap, factors, offset) for tap, offset in zip(taps.places, offsets, strict=True)]
    else:

        def of_tap(tap: Expr) -> tirx.Stmt:
            return add(sums, data, taps.places[0] + tap * across, factors, offsets[0] + tap * between)

        steps.append(loop("tap", len(offsets), of_tap))
    axis = task.axes[-1]
    for lane in range(lanes):
        here = {axis.var: index_of(axis, first + channel + lane)}
        steps.append(substitute(task.finish(tirx.BufferLoad(sums, [const(lane)]), here), at))
    return sequence(steps)


def _apart(places: Sequence[Expr]) -> int | None:
    """The distance of neighbouring places, if it is the same for all of several."""
    known = [static(place) for place in places]
    steps = {b - a if a is not None and b is not None else None for a, b in pairwise(known)}
    return steps.pop() if len(steps) == 1 else None


def _add_one(sums: Buffer, data: Buffer, tap: Expr, factors: Buffer, offset: Expr) -> tirx.Stmt:
    """Add the product of one channel at one tap."""
    sides = (tirx.BufferLoad(b, [i]).astype("int32") for b, i in ((data, tap), (factors, offset)))
    return tirx.BufferStore(sums, called("mla", *sides, tirx.BufferLoad(sums, [const(0)])), [const(0)])


def _add_word(sums: Buffer, data: Buffer, tap: Expr, factors: Buffer, offset: Expr) -> tirx.Stmt:
    """Add the products of four channels at one tap."""
    if dtype_of(data) == "int16":
        return _add_two_words(sums, data, tap, factors, offset)
    words, halves = local("words", 2, "int32"), local("halves", 2, "int32")
    steps: list[tirx.Stmt] = [tirx.AllocBuffer(words), tirx.AllocBuffer(halves)]
    sides = ((data, tap), (factors, offset))
    steps += [tirx.BufferStore(words, word(b, i), [const(side)]) for side, (b, i) in enumerate(sides)]
    prefixes = ["sxtb16" if dtype_of(b) == "int8" else "uxtb16" for b, _ in sides]
    for lane, rotation in enumerate(("", "_ror8")):
        for side, prefix in enumerate(prefixes):
            value = called(f"{prefix}{rotation}", tirx.BufferLoad(words, [const(side)]))
            steps.append(tirx.BufferStore(halves, value, [const(side)]))
        for half, multiply in enumerate(("smlabb", "smlatt")):
            at = [const(lane + 2 * half)]
            pair = (tirx.BufferLoad(halves, [const(side)]) for side in (0, 1))
            steps.append(tirx.BufferStore(sums, called(multiply, *pair, tirx.BufferLoad(sums, at)), at))
    return sequence(steps)


def _add_two_words(sums: Buffer, data: Buffer, tap: Expr, factors: Buffer, offset: Expr) -> tirx.Stmt:
    """Add the products of four channels at one tap, whose data are two words of 16-bit integers."""
    words, halves = local("words", 3, "int32"), local("halves", 2, "int32")
    steps: list[tirx.Stmt] = [tirx.AllocBuffer(words), tirx.AllocBuffer(halves)]
    sides = ((data, tap), (data, tap + 2), (factors, offset))
    steps += [tirx.BufferStore(words, word(b, i), [const(side)]) for side, (b, i) in enumerate(sides)]
    for half, rotation in enumerate(("", "_ror8")):
        value = called(f"sxtb16{rotation}", tirx.BufferLoad(words, [const(2)]))
        steps.append(tirx.BufferStore(halves, value, [const(half)]))
    for lane, multiply in enumerate(("smlabb", "smlatb", "smlabt", "smlatt")):
        at = [const(lane)]
        pair = tirx.BufferLoad(words, [const(lane // 2)]), tirx.BufferLoad(halves, [const(lane % 2)])
        steps.append(tirx.BufferStore(sums, called(multiply, *pair, tirx.BufferLoad(sums, at)), at))
    return sequence(steps)

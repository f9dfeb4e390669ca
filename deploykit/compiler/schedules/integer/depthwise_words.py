"""Depthwise convolutions of 8-bit integers with channels last, for CPUs without vectors.

The rule takes the anchor `integer_depthwise` with weights `[*kernel, C]`, where the device has one of `words.TILES`.
With `smlad`, the data and weights of four channels are read as words, and both halves of a widened word are factors.
With `mla`, channels are computed one by one. Taps are unrolled, and their places are constants where sizes are.

Outputs whose taps all lie in the data read them where they are. For the others, the taps of `COPIED` bytes of channels
are first copied, with the value of padding where a tap lies outside.

It declines other stages, devices and forms of factors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import prod

from tvm import ir, sym, tirx
from tvm.ir.prim import expr as prim

from deploykit.compiler.decisions import Declined
from deploykit.compiler.devices.cpu import Device
from deploykit.compiler.schedules.integer.depthwise import span_of_row, spans_of
from deploykit.compiler.schedules.integer.words import TILES, called, pointer, word
from deploykit.compiler.schedules.kernel.access import Views, offset_of
from deploykit.compiler.schedules.kernel.finish import Finish, finish_of
from deploykit.compiler.schedules.kernel.kinds import another_kind
from deploykit.compiler.schedules.kernel.loops import Code, index_of, local, loop
from deploykit.compiler.schedules.kernel.stages import Axis, Stage
from deploykit.compiler.tir.rewriting import Buffer, Expr, call_name, sequence, substitute
from deploykit.compiler.tir.values import as_index, const, dtype_of

COPIED = 1024
"""The most bytes of taps that are copied at a time, unless the taps of four channels have more."""

WORD = 4
"""The channels of a word."""


@dataclass(frozen=True)
class _Depthwise:
    """A convolution. `inside` is the condition that a tap lies in the data, if there is padding, whose value is
    `padding`. `spans` are, along each spatial axis, the first output whose taps all lie in the data, and the one after
    the last."""

    axes: tuple[Axis, ...]
    taps: tuple[Axis, ...]
    data: ir.TensorLoad
    inside: Expr | None
    padding: Expr | None
    weight: ir.TensorLoad
    finish: Finish
    spans: tuple[tuple[Expr, Expr], ...]
    channels: int
    by_words: bool


@dataclass(frozen=True)
class _Taps:
    """Where the taps of an output are: `places[tap]` elements after `start` in `source`, for the first channel; of all
    channels, or of those that are `copied`."""

    source: Buffer
    start: Expr
    places: Sequence[Expr]
    copied: bool


def depthwise_words(stage: Stage, views: Views, device: Device) -> list[tirx.Stmt] | Declined:
    """Statements that compute `stage`, or the reason why it is no depthwise convolution for a CPU without vectors."""
    other = another_kind(stage, "integer_depthwise")
    if other is not None:
        return other
    if device.dots[0] not in TILES:
        return Declined("the device computes by vectors, or nothing is known of it")
    combine, channels = stage.combine, stage.axes[-1].static
    if combine is None or channels is None or any(axis.static is None for axis in stage.reduce):
        return Declined("its channels or taps are not known")
    factors = _factors(combine.source)
    if isinstance(factors, Declined):
        return factors
    data, condition, padding, weight = factors
    task = _Depthwise(
        stage.axes,
        stage.reduce,
        data,
        condition,
        None if padding is None else views.value(padding),
        weight,
        finish_of(stage, views),
        spans_of(stage),
        channels,
        device.dots[0] == "smlad",
    )
    return [_rows(task, views)]


def _factors(source: Expr) -> tuple[ir.TensorLoad, Expr | None, Expr | None, ir.TensorLoad] | Declined:
    """The data, the condition that they exist, what they are otherwise, and the weights."""
    computed = Declined("its factors are computed")
    if not isinstance(source, prim.Mul) or not isinstance(source.a, prim.Cast) or not isinstance(source.b, prim.Cast):
        return computed
    data, weight = source.a.value, source.b.value
    condition: Expr | None = None
    padding: Expr | None = None
    if isinstance(data, ir.Call) and call_name(data) == "if_then_else":
        condition, data, padding = data.args
    if not isinstance(data, ir.TensorLoad) or not isinstance(weight, ir.TensorLoad):
        return computed
    return data, condition, padding, weight


def _rows(task: _Depthwise, views: Views) -> tirx.Stmt:
    """All rows of outputs."""
    *outer, row, _ = task.axes
    places = [ir.Var(axis.var.name.removeprefix("v_"), "int64") for axis in outer]
    at = {axis.var: index_of(axis, place) for axis, place in zip(outer, places, strict=True)}
    width = as_index(row.extent)
    code = Code()
    first, stop = const(0), width
    if task.inside is not None:
        first, stop = span_of_row(code, places[1:], task.spans, width)
    code.add(loop("x", stop - first, lambda x: _inner(task, views, {**at, row.var: index_of(row, first + x)})))
    if task.inside is not None:

        def edge(index: Expr) -> tirx.Stmt:
            x = tirx.Select(index < first, index, index + (stop - first))
            return _edge(task, views, {**at, row.var: index_of(row, x)})

        code.add(loop("x", first + (width - stop), edge))
    body = code.statement()
    for place, axis in reversed(list(zip(places, outer, strict=True))):
        body = tirx.For(place, const(0), as_index(axis.extent), tirx.ForKind.SERIAL, body)
    return body


def _each_tap(task: _Depthwise) -> list[dict[ir.Var, Expr]]:
    extents = [range(axis.static or 0) for axis in task.taps]
    return [
        {axis.var: tirx.IntImm(dtype_of(axis.var), k) for axis, k in zip(task.taps, tap, strict=True)}
        for tap in product(*extents)
    ]


def _places(task: _Depthwise, load: ir.TensorLoad) -> tuple[Expr, list[Expr]]:
    """The offset of a factor at the first tap and channel, and how much farther each tap is."""
    channel = task.axes[-1]
    zero = {channel.var: tirx.IntImm(dtype_of(channel.var), 0)}
    offset = offset_of(load.source, load.indices)
    known = sym.Analyzer()
    taps = [substitute(offset, {**zero, **tap}) for tap in _each_tap(task)]
    return taps[0], [known.simplify(tap - taps[0]) for tap in taps]


def _inner(task: _Depthwise, views: Views, at: dict[ir.Var, Expr]) -> tirx.Stmt:
    """All channels of an output whose taps lie in the data."""
    start, places = _places(task, task.data)
    taps = _Taps(
        views.flat(task.data.source), substitute(start, at), [substitute(place, at) for place in places], False
    )
    return _channels(task, views, at, taps, const(0), task.channels)


def _edge(task: _Depthwise, views: Views, at: dict[ir.Var, Expr]) -> tirx.Stmt:
    """All channels of another output."""
    count = prod(axis.static or 0 for axis in task.taps)
    chunk = min(task.channels, max(WORD, COPIED // count // WORD * WORD))
    whole, rest = divmod(task.channels, chunk)
    steps = [loop("chunk", whole, lambda c: _copied(task, views, at, c * chunk, chunk))]
    if rest:
        steps.append(_copied(task, views, at, const(whole * chunk), rest))
    return sequence(steps)


def _copied(task: _Depthwise, views: Views, at: dict[ir.Var, Expr], first: Expr, count: int) -> tirx.Stmt:
    """`count` channels from `first` on, from a copy of their taps."""
    assert task.inside is not None
    assert task.padding is not None
    extents = [axis.static or 0 for axis in task.taps]
    copy = local("taps", prod(extents) * count, dtype_of(task.data))
    channel = task.axes[-1]
    taps = [ir.Var(axis.var.name.removeprefix("v_"), "int64") for axis in task.taps]
    where = {**at, **{axis.var: index_of(axis, tap) for axis, tap in zip(task.taps, taps, strict=True)}}
    target: Expr = const(0)
    for tap, extent in zip(taps, extents, strict=True):
        target = target * extent + tap

    def store(value: Expr, c: Expr) -> tirx.Stmt:
        here = {**where, channel.var: index_of(channel, first + c)}
        return tirx.BufferStore(copy, substitute(value, here), [target * count + c])

    read, padded = (loop("c", count, partial(store, value)) for value in (views.value(task.data), task.padding))
    body: tirx.Stmt = tirx.IfThenElse(substitute(task.inside, where), read, padded)
    for tap, extent in reversed(list(zip(taps, extents, strict=True))):
        body = tirx.For(tap, const(0), const(extent), tirx.ForKind.SERIAL, body)
    places = [const(tap * count) for tap in range(prod(extents))]
    return sequence(
        [tirx.AllocBuffer(copy), body, _channels(task, views, at, _Taps(copy, const(0), places, True), first, count)]
    )


def _channels(
    task: _Depthwise, views: Views, at: dict[ir.Var, Expr], taps: _Taps, first: Expr, count: int
) -> tirx.Stmt:
    """`count` channels of an output from `first` on."""
    words = count // WORD if task.by_words else 0
    rest = count - words * WORD

    def several(lanes: int, add: _Add, channel: Expr) -> tirx.Stmt:
        return _output(task, views, at, taps, (first, channel), lanes, add)

    steps = [loop("word", words, lambda g: several(WORD, _add_word, g * WORD))] if words else []
    if rest:
        steps.append(loop("c", rest, lambda c: several(1, _add_one, c + words * WORD)))
    return sequence(steps)


_Add = Callable[[Buffer, Buffer, Expr, Buffer, Expr], tirx.Stmt]


def _output(
    task: _Depthwise,
    views: Views,
    at: dict[ir.Var, Expr],
    taps: _Taps,
    place: tuple[Expr, Expr],
    lanes: int,
    add: _Add,
) -> tirx.Stmt:
    """`lanes` channels of an output. `place` are the first channel of all, and the channel counted from there."""
    first, channel = place
    weights = views.flat(task.weight.source)
    base, offsets = _places(task, task.weight)
    sums = local("sums", lanes, "int32")
    start = taps.start + channel if taps.copied else taps.start + (first + channel)
    data, declared = pointer("data", taps.source, start)
    factors, others = pointer("factors", weights, base + (first + channel))
    steps: list[tirx.Stmt] = [*declared, *others, tirx.AllocBuffer(sums)]
    steps += [tirx.BufferStore(sums, tirx.const(0, "int32"), [const(lane)]) for lane in range(lanes)]
    steps += [add(sums, data, tap, factors, offset) for tap, offset in zip(taps.places, offsets, strict=True)]
    axis = task.axes[-1]
    for lane in range(lanes):
        here = {axis.var: index_of(axis, first + channel + lane)}
        steps.append(substitute(task.finish(tirx.BufferLoad(sums, [const(lane)]), here), at))
    return sequence(steps)


def _add_one(sums: Buffer, data: Buffer, tap: Expr, factors: Buffer, offset: Expr) -> tirx.Stmt:
    """Add the product of one channel at one tap."""
    sides = (tirx.BufferLoad(b, [i]).astype("int32") for b, i in ((data, tap), (factors, offset)))
    return tirx.BufferStore(sums, called("mla", *sides, tirx.BufferLoad(sums, [const(0)])), [const(0)])


def _add_word(sums: Buffer, data: Buffer, tap: Expr, factors: Buffer, offset: Expr) -> tirx.Stmt:
    """Add the products of four channels at one tap."""
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

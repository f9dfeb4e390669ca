"""The outputs of depthwise convolutions of integers with channels last, which rules for CPUs without vectors and
for functions on rows share.

Outputs whose taps all lie in the data read them where they are. For the others, the taps of `COPIED` bytes of channels
are first copied, with the value of padding where a tap lies outside.
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
from deploykit.compiler.schedules.integer.depthwise import span_of_row, spans_of
from deploykit.compiler.schedules.kernel.access import Views, offset_of
from deploykit.compiler.schedules.kernel.finish import Finish, finish_of
from deploykit.compiler.schedules.kernel.loops import Code, index_of, local, loop
from deploykit.compiler.schedules.kernel.stages import Axis, Stage
from deploykit.compiler.tir.rewriting import Buffer, Expr, call_name, sequence, substitute
from deploykit.compiler.tir.values import as_index, const, dtype_of

COPIED = 1024
"""The most bytes of taps that are copied at a time, unless the taps of four channels have more."""

WORD = 4
"""Chunks of channels are multiples of this."""


@dataclass(frozen=True)
class Depthwise:
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

    @property
    def kernel(self) -> list[int]:
        """The number of taps along each spatial axis."""
        return [axis.static or 0 for axis in self.taps]


@dataclass(frozen=True)
class Taps:
    """Where the taps of an output are: `places[tap]` elements after `start` in `source`, for the first channel; of all
    channels, or of those that are `copied`."""

    source: Buffer
    start: Expr
    places: Sequence[Expr]
    copied: bool


Values = dict[ir.Var, Expr]
"""Values of the axes."""

Inner = Callable[[Values, Expr, Expr], tirx.Stmt]
"""Emits neighbouring outputs of a row whose taps lie in the data: the first one, and how many there are."""

Channels = Callable[[Values, Taps, Expr, int], tirx.Stmt]
"""Emits some channels of an output: the first one, and how many there are."""

Copy = Callable[[Buffer, Expr, Callable[[Expr], Expr], int], tirx.Stmt]
"""Emits a copy to a buffer, from a place on, of what is computed for the indices up to a number."""


def depthwise_of(stage: Stage, views: Views) -> Depthwise | Declined:
    """The convolution that a stage with the anchor `integer_depthwise` is, or the reason why its form is another."""
    combine, channels = stage.combine, stage.axes[-1].static
    if combine is None or channels is None or any(axis.static is None for axis in stage.reduce):
        return Declined("its channels or taps are not known")
    factors = _factors(combine.source)
    if isinstance(factors, Declined):
        return factors
    data, condition, padding, weight = factors
    padded = None if padding is None else views.value(padding)
    finish = finish_of(stage, views)
    return Depthwise(stage.axes, stage.reduce, data, condition, padded, weight, finish, spans_of(stage), channels)


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


def rows(task: Depthwise, views: Views, inner: Inner, channels: Channels, copy: Copy | None = None) -> tirx.Stmt:
    """All rows of outputs."""
    *outer, row, _ = task.axes
    places = [ir.Var(axis.var.name.removeprefix("v_"), "int64") for axis in outer]
    at = {axis.var: index_of(axis, place) for axis, place in zip(outer, places, strict=True)}
    width = as_index(row.extent)
    code = Code()
    first, stop = const(0), width
    if task.inside is not None:
        first, stop = span_of_row(code, places[1:], task.spans, width)
    code.add(inner(at, first, stop - first))
    if task.inside is not None:

        def edge(index: Expr) -> tirx.Stmt:
            x = tirx.Select(index < first, index, index + (stop - first))
            return _edge(task, views, {**at, row.var: index_of(row, x)}, channels, copy or _elements)

        code.add(loop("x", first + (width - stop), edge))
    body = code.statement()
    for place, axis in reversed(list(zip(places, outer, strict=True))):
        body = tirx.For(place, const(0), as_index(axis.extent), tirx.ForKind.SERIAL, body)
    return body


def taps_at(task: Depthwise, views: Views, at: Values) -> Taps:
    """The taps of an output whose taps lie in the data."""
    start, places = places_of(task, task.data)
    source = views.flat(task.data.source)
    return Taps(source, substitute(start, at), [substitute(place, at) for place in places], False)


def places_of(task: Depthwise, load: ir.TensorLoad) -> tuple[Expr, list[Expr]]:
    """The offset of a factor at the first tap and channel, and how much farther each tap is."""
    channel = task.axes[-1]
    zero = {channel.var: tirx.IntImm(dtype_of(channel.var), 0)}
    offset = offset_of(load.source, load.indices)
    known = sym.Analyzer()
    taps = [substitute(offset, {**zero, **tap}) for tap in _each_tap(task)]
    return taps[0], [known.simplify(tap - taps[0]) for tap in taps]


def _each_tap(task: Depthwise) -> list[Values]:
    return [
        {axis.var: tirx.IntImm(dtype_of(axis.var), k) for axis, k in zip(task.taps, tap, strict=True)}
        for tap in product(*map(range, task.kernel))
    ]


def _edge(task: Depthwise, views: Views, at: Values, channels: Channels, copy: Copy) -> tirx.Stmt:
    """All channels of an output with taps outside of the data."""
    count = prod(task.kernel)
    chunk = min(task.channels, max(WORD, COPIED // count // WORD * WORD))
    whole, rest = divmod(task.channels, chunk)
    copied = partial(_copied, task, views, at, channels, copy)
    steps = [loop("chunk", whole, lambda c: copied(c * chunk, chunk))]
    if rest:
        steps.append(copied(const(whole * chunk), rest))
    return sequence(steps)


def _copied(
    task: Depthwise, views: Views, at: Values, channels: Channels, copy: Copy, first: Expr, count: int
) -> tirx.Stmt:
    """`count` channels from `first` on, from a copy of their taps."""
    assert task.inside is not None
    assert task.padding is not None
    held = local("taps", prod(task.kernel) * count, dtype_of(task.data))
    channel = task.axes[-1]
    taps = [ir.Var(axis.var.name.removeprefix("v_"), "int64") for axis in task.taps]
    where = {**at, **{axis.var: index_of(axis, tap) for axis, tap in zip(task.taps, taps, strict=True)}}
    target: Expr = const(0)
    for tap, extent in zip(taps, task.kernel, strict=True):
        target = target * extent + tap

    def value(source: Expr, c: Expr) -> Expr:
        return substitute(source, {**where, channel.var: index_of(channel, first + c)})

    read, padded = (
        copy(held, target * count, partial(value, source), count) for source in (views.value(task.data), task.padding)
    )
    body: tirx.Stmt = tirx.IfThenElse(substitute(task.inside, where), read, padded)
    for tap, extent in reversed(list(zip(taps, task.kernel, strict=True))):
        body = tirx.For(tap, const(0), const(extent), tirx.ForKind.SERIAL, body)
    places = [const(tap * count) for tap in range(prod(task.kernel))]
    computed = channels(at, Taps(held, const(0), places, True), first, count)
    return sequence([tirx.AllocBuffer(held), body, computed])


def _elements(target: Buffer, start: Expr, value: Callable[[Expr], Expr], count: int) -> tirx.Stmt:
    """A copy of one element after the other."""
    return loop("c", count, lambda c: tirx.BufferStore(target, value(c), [start + c]))

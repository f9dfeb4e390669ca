"""The states of a stream, which are zeros in the beginning:

    past_N      the last frames of what an operator reads, in front of the new ones
    window_N    the frames of a window but the new ones
    h_N, c_N    what a recurrent layer carries on
    frames      the number of frames so far

Integers of a quantised value are kept as they are, except that their zero point is stored as zero: so the frames in
front of the first one mean zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from tvm import ir, te, tirx

from deploykit.compiler.dtypes import storage_dtype
from deploykit.compiler.model import Port
from deploykit.compiler.operators.building.broadcast import elementwise
from deploykit.compiler.operators.building.expressions import compute
from deploykit.compiler.operators.building.integers import expr
from deploykit.compiler.operators.building.reduce_axes import lowest
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.joining import concat
from deploykit.compiler.operators.slicing import Piece, take

if TYPE_CHECKING:
    from deploykit.compiler.dims.expressions import IntExpr
    from deploykit.compiler.operators.building.context import Context
    from deploykit.frontends.onnx.streams.frames import Frames

COUNT = "frames"

ENDLESS = 1 << 40
"""Frames are not counted beyond this number."""

Stored: TypeAlias = "Callable[[Value, int], Value]"
"""A function of a tensor and of the number that means zero in it."""


@dataclass
class Kept:
    """The states that a function reads (`old`; None: it is not known yet which there are, and they are zeros), and
    those that it leaves. `new_frames` is the number of frames of a run."""

    ctx: Context
    new_frames: IntExpr
    old: Mapping[str, Value] | None
    ports: dict[str, Port] = field(default_factory=dict)
    new: dict[str, Value] = field(default_factory=dict)
    _before: Value | None = field(default=None, init=False)
    _made: dict[tuple[int, ...], tuple[Value, Value]] = field(default_factory=dict, init=False)
    _ready: dict[int, IntExpr] = field(default_factory=dict, init=False)

    def state(self, kind: str, dtype: str, shape: Sequence[IntExpr]) -> tuple[str, Value]:
        """The name of another state, and its value before the run."""
        name = f"{kind}_{sum(each.startswith(f'{kind}_') for each in self.ports)}"
        return name, self._state(name, dtype, tuple(shape))

    def _state(self, name: str, dtype: str, shape: tuple[IntExpr, ...]) -> Value:
        self.ports[name] = Port(name, dtype, shape)
        return self.ctx.zeros(name, shape, dtype) if self.old is None else self.old[name]

    def mark(self) -> tuple[dict[Any, Any], ...]:
        """What there is, for `forget_since`."""
        return dict(self.ports), dict(self.new), dict(self._made)

    def forget_since(self, mark: tuple[dict[Any, Any], ...]) -> None:
        """Drop the states that were added since `mark`."""
        self.ports, self.new, self._made = mark

    # Frames

    def with_past(self, x: Value, axis: int, past: int) -> Value:
        """`x` with the `past` frames in front of it along `axis`; without its first `-past` frames, if negative."""
        if past == 0:
            return x
        if past < 0:
            return part(self.ctx, x, axis, -past, x.shape[axis] + past)
        return self._once(x, (axis, past), lambda y, zero: self._joined("past", y, axis, past, zero))

    def delayed(self, x: Value, axis: int, by: int) -> Value:
        """`x`, in which each frame comes `by` frames later."""
        return part(self.ctx, self.with_past(x, axis, by), axis, 0, x.shape[axis])

    def window(self, x: Value, axis: int, length: int, newer: int, least: int) -> Value:
        """The `length` frames in front of the `newer` newest ones. A run has at least `least` new ones."""
        kept = max(length + newer - least, 0)
        start = kept + x.shape[axis] - newer - length

        def cut(y: Value, zero: int) -> Value:
            return part(self.ctx, self._joined("window", y, axis, kept, zero) if kept else y, axis, start, length)

        return self._once(x, (axis, length, newer), cut)

    def _once(self, x: Value, what: tuple[int, ...], function: Stored) -> Value:
        """A function of a value, which all that ask for it share."""
        key = (id(x), *what)
        if key not in self._made:
            self._made[key] = (x, stored(x, function))
        return self._made[key][1]

    def _joined(self, kind: str, x: Value, axis: int, count: int, zero: int) -> Value:
        shape = [count if each == axis else n for each, n in enumerate(x.shape)]
        name, old = self.state(kind, x.dtype, shape)
        joined = concat(self.ctx, [self._flipped(old, zero), x], axis)
        self.new[name] = self._flipped(part(self.ctx, joined, axis, x.shape[axis], count), zero)
        return joined

    def _flipped(self, x: Value, zero: int) -> Value:
        """`x` with zero instead of the number `zero`, and the reverse."""
        if zero == 0:
            return x
        bits = self.ctx.constant(zero, x.dtype)
        return elementwise(self.ctx, "flipped", tirx.bitwise_xor, x, bits)

    # The number of frames

    def so_far(self) -> Value:
        """The number of frames of earlier runs: an int64 scalar."""
        if COUNT in self.ports:
            assert self._before is not None
            return self._before
        self._before = before = self._state(COUNT, "int64", ())
        total = elementwise(
            self.ctx,
            "counted",
            lambda n, more: tirx.min(n + more, expr(ENDLESS)),
            before,
            self.ctx.known(self.new_frames),
        )
        self.new[COUNT] = total
        return before

    def cleared(self, x: Value, frames: Frames, past: int, *, least: bool) -> Value:
        """`x`, which has `past` frames in front of the new ones, with zeros in the place of frames that are not of the
        full run; `least`: with the least number instead."""
        before = self.so_far()
        axis, step, first = frames.axis, frames.step, frames.early + past

        def fill(y: Value, zero: int) -> Value:
            dtype = storage_dtype(y.dtype)
            number = lowest(dtype) if least else tirx.const(zero, dtype)

            def build(t: te.Tensor, seen: te.Tensor) -> te.Tensor:
                def element(*index: ir.Expr) -> ir.Expr:
                    place = tirx.floordiv(seen(), expr(step)) + index[axis]
                    return tirx.Select(place < first, number, t(*index))

                return compute(y.shape, element, name="cleared")

            return self.ctx.kernel("cleared", build, y, before, dtype=y.dtype)

        return stored(x, fill)

    def trimmed(self, x: Value, frames: Frames) -> Value:
        """`x` without the frames that are not of the full run."""
        size = x.shape[frames.axis]

        def first(n: ir.Expr) -> ir.Expr:
            early = frames.early - tirx.floordiv(n, expr(frames.step))
            return tirx.max(tirx.min(early, expr(size)), expr(0))

        start = self._number("early", first, size)
        return part(self.ctx, x, frames.axis, start, self.ctx.simplify(size - start))

    def ready(self, x: Value, after: int) -> Value:
        """`x`, without its rows until there have been `after` frames."""

        def enough(n: ir.Expr) -> ir.Expr:
            return tirx.Cast("int64", n + expr(self.new_frames) >= after)

        if after not in self._ready:
            self._ready[after] = self._number(f"ready_after_{after}", enough, 1)
        return part(self.ctx, x, 0, 0, self.ctx.simplify(x.shape[0] * self._ready[after]))

    def _number(self, name: str, of: Callable[[ir.Expr], ir.Expr], most: IntExpr) -> IntExpr:
        """A number that a run computes from the number of frames so far, as a data dim."""
        found = elementwise(self.ctx, name, of, self.so_far())
        (number,) = self.ctx.ints(found, minimum=0, maximum=most, hint=name)
        return number


def part(ctx: Context, x: Value, axis: int, start: IntExpr, size: IntExpr) -> Value:
    """`size` elements of an axis, from `start` on."""
    pieces = [Piece(start, size) if each == axis else Piece(0, n) for each, n in enumerate(x.shape)]
    return take(ctx, x, pieces)


def stored(x: Value, function: Stored) -> Value:
    """A function of a value that only moves elements, and adds zeros; of its integers if it was dequantised."""
    source = x.quantized
    if source is None or source.restored is None:
        return function(x, 0)
    zero = source.zero
    if zero is None:
        return source.restored(function(source.x, 0))
    if zero.array is None:
        return function(x, 0)
    return source.restored(function(source.x, int(zero.array.reshape(-1)[0])))

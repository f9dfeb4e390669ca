"""States of fixed size that are carried along the tokens of a sequence, and the layers that do so: short convolutions,
whose state is their last inputs, and selective state spaces.

    state   (slots, rows, channels)

A token goes on from the state in the slot `before` it, and leaves its own in the slot `after` it. Tokens of a sequence
follow each other, and each channel is computed for itself. In a step over pages, a page has a slot, which holds the
state after the last token of the page that was read. The first token of a page goes on from the page in front. So where
a page ends, a sequence can be cut, and shared with others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tvm import ir, te, tirx

from deploykit.compiler.operators.building.expressions import compute
from deploykit.compiler.operators.building.imperative import Array, Code, imperative
from deploykit.compiler.operators.building.integers import clamp, expr
from deploykit.compiler.operators.softmax_exp import power_of

if TYPE_CHECKING:
    from deploykit.compiler.dims.expressions import IntExpr
    from deploykit.compiler.operators.building.context import Context
    from deploykit.compiler.operators.building.value import Value
    from deploykit.compiler.operators.pages import Pages

LANES = 16
"""The most channels that are computed together."""

NONE = -1
"""The slot in front of the first token of a sequence: its state is zeros."""


@dataclass(frozen=True)
class Slots:
    """The slots `before` and `after` each of (tokens), of which there are `count`."""

    ctx: Context
    before: Value
    after: Value
    count: IntExpr

    @classmethod
    def of_texts(cls, ctx: Context, batch: IntExpr, length: IntExpr) -> Slots:
        """Those of whole texts, one after the other; each has a slot."""

        def build() -> list[te.Tensor]:
            def text(token: ir.Expr) -> ir.Expr:
                return tirx.truncdiv(token, expr(length))

            def before_it(token: ir.Expr) -> ir.Expr:
                return tirx.Select(tirx.truncmod(token, expr(length)) == 0, expr(NONE), text(token))

            tokens = (ctx.simplify(batch * length),)
            return [compute(tokens, before_it, name="before"), compute(tokens, text, name="after")]

        before, after = ctx.kernel("slots", build, dtype=("int64", "int64"))
        return cls(ctx, before, after, batch)

    @classmethod
    def of_pages(cls, pages: Pages) -> Slots:
        """Those of a step: a slot for each page."""

        def build(positions: te.Tensor, sequences: te.Tensor, table: te.Tensor) -> list[te.Tensor]:
            def slot(token: ir.Expr, back: int) -> ir.Expr:
                position = pages.position(positions(token)) - back
                block = tirx.max(tirx.truncdiv(position, expr(pages.size)), expr(0))
                return pages.page(table, sequences(token), block)

            def before_it(token: ir.Expr) -> ir.Expr:
                return tirx.Select(positions(token) == 0, expr(NONE), slot(token, 1))

            tokens = (pages.tokens,)
            return [
                compute(tokens, before_it, name="before"),
                compute(tokens, lambda token: slot(token, 0), name="after"),
            ]

        operands = (pages.positions, pages.sequences, pages.table)
        before, after = pages.ctx.kernel("slots", build, *operands, dtype=("int64", "int64"))
        return cls(pages.ctx, before, after, pages.count)

    def convolved(self, state: Value, x: Value, weight: Value) -> tuple[Value, Value]:
        """A causal convolution of each channel of `x` (tokens, channels) with `weight` (taps, channels), the last one
        for the token itself. `state` has the inputs in front, for all taps but the last. Returns the new state, and the
        results (tokens, channels)."""
        taps, channels = (int(n) for n in weight.shape)

        def write(code: Code, *arrays: Array) -> None:
            _, x, weight, before, after, new, y = arrays
            with self._along(code, new, before, after, taps - 1, channels) as (token, slot, base, width):
                total = code.room("total", width, "float32")
                with code.lanes(width) as lane:
                    total[lane] = weight[taps - 1, base + lane] * x[token, base + lane]
                for tap in range(taps - 1):
                    with code.lanes(width) as lane:
                        total[lane] = total[lane] + weight[tap, base + lane] * new[slot, tap, base + lane]
                for tap in range(taps - 2):
                    with code.lanes(width) as lane:
                        new[slot, tap, base + lane] = new[slot, tap + 1, base + lane]
                with code.lanes(width) as lane:
                    new[slot, taps - 2, base + lane] = x[token, base + lane]
                with code.lanes(width) as lane:
                    y[token, base + lane] = total[lane]

        return self._kernel("short_convolution", write, state, x, weight)

    def scanned(
        self, state: Value, x: Value, steps: Value, rates: Value, into: Value, out: Value
    ) -> tuple[Value, Value]:
        """A selective state space: for each token and channel

            state = exp(steps * rates) * state + steps * x * into      y = sum over rows of out * state

        with `x` and positive `steps` (tokens, channels), negative `rates` (rows, channels), and `into` and `out`
        (tokens, rows). Returns the new state, and `y` (tokens, channels). (Source: Gu and Dao,
        "Mamba: Linear-Time Sequence Modeling with Selective State Spaces", 2023, algorithm 2.)"""
        rows, channels = (int(n) for n in rates.shape)

        def write(code: Code, *arrays: Array) -> None:
            _, x, steps, rates, into, out, before, after, new, y = arrays
            with self._along(code, new, before, after, rows, channels) as (token, slot, base, width):
                step, entering, total = (code.room(name, width, "float32") for name in ("step", "entering", "total"))
                with code.lanes(width) as lane:
                    step[lane] = steps[token, base + lane]
                with code.lanes(width) as lane:
                    entering[lane] = step[lane] * x[token, base + lane]
                with code.lanes(width) as lane:
                    total[lane] = 0.0
                with code.loop("row", rows) as row:
                    gain, share = code.cell("gain", into[token, row]), code.cell("share", out[token, row])
                    with code.lanes(width) as lane:
                        kept = power_of(step[lane] * rates[row, base + lane]) * new[slot, row, base + lane]
                        new[slot, row, base + lane] = kept + entering[lane] * gain.value
                    with code.lanes(width) as lane:
                        total[lane] = total[lane] + share.value * new[slot, row, base + lane]
                with code.lanes(width) as lane:
                    y[token, base + lane] = total[lane]

        return self._kernel("selective_scan", write, state, x, steps, rates, into, out)

    def _kernel(self, name: str, write: Callable[..., None], state: Value, *operands: Value) -> tuple[Value, Value]:
        """The new state, and results like the first operand."""

        def build(*tensors: te.Tensor) -> list[te.Tensor]:
            outputs = [(state.shape, "float32"), (operands[0].shape, "float32")]
            return imperative(name, tensors, outputs, write)

        found = self.ctx.kernel(
            name, build, state, *operands, self.before, self.after, dtype=("float32", "float32"), updates=True
        )
        new, y = found
        return new, y

    @contextmanager
    def _along(
        self, code: Code, new: Array, before: Array, after: Array, rows: int, channels: int
    ) -> Iterator[tuple[ir.Expr, ir.Expr, ir.Expr, int]]:
        """For channels that are computed together, the tokens in their order: a token, its slot of the state `new`,
        which holds the state in front of the token, and the first channel and the number of them."""
        width = next(n for n in range(LANES, 0, -1) if channels % n == 0)
        with code.shared("part", channels // width) as part:
            base = part * width
            with code.loop("token", self.before.shape[0]) as token:
                source = code.cell("source", before[token])
                slot = code.cell("slot", self._inside(after[token]))
                with code.when(source.value < 0), code.loop("row", rows) as row, code.lanes(width) as lane:
                    new[slot.value, row, base + lane] = 0.0
                other = tirx.all(source.value >= 0, source.value != slot.value)
                with code.when(other):
                    held = code.cell("held", self._inside(source.value))
                    with code.loop("row", rows) as row, code.lanes(width) as lane:
                        new[slot.value, row, base + lane] = new[held.value, row, base + lane]
                yield token, slot.value, base, width

    def _inside(self, slot: ir.Expr) -> ir.Expr:
        return expr(clamp(slot, 0, self.count - 1))

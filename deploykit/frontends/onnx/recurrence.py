"""The cells of recurrent layers: what one step of one sequence does to its states.

A cell is a function of a `Row`, which writes the statements of an imperative kernel. `H` is the hidden size.
(Source: ONNX operators RNN, GRU, LSTM.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tvm import ir, tirx

from deploykit.frontends.onnx.imperative import Array, Code

if TYPE_CHECKING:
    from deploykit.compiler.program.ir import IntExpr

    Function = Callable[[ir.Expr], ir.Expr]


@dataclass(frozen=True)
class Vector:
    """A run of elements of an array's last axis, from `offset` on."""

    array: Array
    prefix: tuple[IntExpr, ...] = ()
    offset: IntExpr = 0

    def __getitem__(self, index: IntExpr) -> ir.Expr:
        return self.array[(*self.prefix, index + self.offset)]

    def __setitem__(self, index: IntExpr, value: Any) -> None:
        self.array[(*self.prefix, index + self.offset)] = value

    def after(self, count: IntExpr) -> Vector:
        """The run from `count` elements further on."""
        return Vector(self.array, self.prefix, self.offset + count)


@dataclass(frozen=True)
class Row:
    """One step of one sequence. `projected` is the input times its weights, gates beside each other; `gates` is scratch
    of one `H` a gate, and one more; the states `h` and (LSTM) `c` are read and then written.

    `weights[k]` are the factors of element `k` of the state in all gates; `peephole` and `bias` are those of the
    operator; `functions` are its activations, and `bounded` is what `clip` does before those of the gates."""

    code: Code
    hidden: IntExpr
    projected: Vector
    gates: Vector
    h: Vector
    c: Vector | None
    weights: Callable[[ir.Expr], Vector]
    peephole: Vector | None
    bias: Vector | None
    functions: tuple[Function, ...]
    bounded: Function

    def project(self, count: int) -> None:
        """The first `count` gates become the projected input."""
        with self.code.loop("j", self.hidden * count) as j:
            self.gates[j] = self.projected[j]

    def add_state(self, state: Vector, first: int, count: int, into: int) -> None:
        """Add the product of `state` and the weights of gates `first` to `first + count` to the gates from `into`."""
        with self.code.loop("k", self.hidden) as k:
            factor = self.code.cell("factor", state[k])
            column = self.weights(k).after(self.hidden * first)
            target = self.gates.after(self.hidden * into)
            with self.code.loop("j", self.hidden * count) as j:
                target[j] = target[j] + factor.value * column[j]

    def gate(self, number: int, index: ir.Expr) -> ir.Expr:
        return self.gates[index + self.hidden * number]


def rnn(row: Row) -> None:
    """`h = f(x W + h R + b)`."""
    row.project(1)
    row.add_state(row.h, 0, 1, into=0)
    with row.code.loop("j", row.hidden) as j:
        row.h[j] = row.functions[0](row.bounded(row.gates[j]))


def lstm(row: Row, *, coupled: bool) -> None:
    """Gates i, o, f, c: `c = f c + i g(c~)`, `h = o h(c)`; `coupled` makes the forget gate `1 - i`."""
    assert row.c is not None
    code, (f, g, h) = row.code, row.functions
    row.project(4)
    row.add_state(row.h, 0, 4, into=0)

    def seen(number: int, index: ir.Expr, cell: ir.Expr, peephole: int) -> ir.Expr:
        """What a gate's activation sees; `peephole` is the gate's place in the peephole weights."""
        value = row.gate(number, index)
        if row.peephole is not None:
            value = value + row.peephole[index + row.hidden * peephole] * cell
        return f(row.bounded(value))

    with code.loop("j", row.hidden) as j:
        before = code.cell("before", row.c[j])
        opened = code.cell("opened", seen(0, j, before.value, 0))
        one = tirx.const(1, str(opened.value.ty.dtype))
        kept = one - opened.value if coupled else seen(2, j, before.value, 2)
        after = code.cell("after", kept * before.value + opened.value * g(row.bounded(row.gate(3, j))))
        row.c[j] = after.value
        row.h[j] = seen(1, j, after.value, 1) * h(after.value)


def gru(row: Row, *, linear_before_reset: bool) -> None:
    """Gates z, r, h: `h = (1 - z) g(h~) + z h`, the reset gate `r` being applied to the state, or to the state's
    product with its weights, bias included (`linear_before_reset`)."""
    code, (f, g) = row.code, row.functions
    row.project(3)
    row.add_state(row.h, 0, 2, into=0)
    spare = row.gates.after(row.hidden * 3)
    if linear_before_reset:
        with code.loop("j", row.hidden) as j:
            zero = tirx.const(0, str(row.h[j].ty.dtype))
            spare[j] = zero if row.bias is None else row.bias[j + row.hidden * 5]
        row.add_state(row.h, 2, 1, into=3)
        with code.loop("j", row.hidden) as j:
            reset = f(row.bounded(row.gate(1, j)))
            row.gates[j + row.hidden * 2] = row.gate(2, j) + reset * spare[j]
    else:
        with code.loop("j", row.hidden) as j:
            spare[j] = f(row.bounded(row.gate(1, j))) * row.h[j]
        row.add_state(spare, 2, 1, into=2)
    with code.loop("j", row.hidden) as j:
        update = code.cell("update", f(row.bounded(row.gate(0, j))))
        one = tirx.const(1, str(update.value.ty.dtype))
        row.h[j] = (one - update.value) * g(row.bounded(row.gate(2, j))) + update.value * row.h[j]

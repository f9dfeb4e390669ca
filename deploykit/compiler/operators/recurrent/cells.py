"""The cells of recurrent layers: how one step computes the next state from the gates of a sequence.

A cell has phases, and a function that finishes a phase for `LANES` neighbouring hidden units of one sequence. The gates
of a phase are sums: the projected input, biases included, plus the products of a state with its weights. A phase
computes `width` sums together, those of `groups` runs of units, so that there are always several independent sums. The
function refers to gates by their number in ONNX's order. (Source: ONNX operators RNN, GRU, LSTM.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tvm import ir, tirx

if TYPE_CHECKING:
    from deploykit.compiler.operators.building.imperative import Code

    Function = Callable[[ir.Expr], ir.Expr]

LANES = 16
"""Hidden units that are computed at once. The number of units is padded to a multiple of this."""


@dataclass(frozen=True)
class Phase:
    """The sums of some gates for `groups` runs of units at a time. `state` is the vector that the weights are
    multiplied with. `projects` says for each gate whether its sum starts from the projected input or from the bias of
    the state."""

    gates: tuple[int, ...]
    groups: int
    state: str = "h"
    projects: tuple[bool, ...] = ()

    @property
    def width(self) -> int:
        """The number of sums in a panel."""
        return LANES * self.groups * len(self.gates)

    @property
    def units(self) -> int:
        """The number of hidden units in a panel."""
        return LANES * self.groups


@dataclass(frozen=True)
class Units:
    """`LANES` units of one sequence at the end of a phase. `read(name)` gives their elements of a vector over the
    hidden units: `h`, `c`, `input` (the projected input of the last gate), or peepholes `p0` to `p2`, if there are any.
    `write(name, run)` sets them. The values written to `h` and `c` are the next state."""

    code: Code
    gate: Callable[[int], Callable[[ir.Expr], ir.Expr]]
    read: Callable[[str], Callable[[ir.Expr], ir.Expr] | None]
    write: Callable[[str, Callable[[ir.Expr], ir.Expr]], None]
    functions: tuple[Function, ...]
    bounded: Function
    dtype: str

    def named(self, name: str, run: Callable[[ir.Expr], ir.Expr]) -> Callable[[ir.Expr], ir.Expr]:
        """The values of `run`, computed once and stored."""
        room = self.code.room(name, LANES, self.dtype)
        with self.code.lanes(LANES) as lane:
            room[lane] = run(lane)
        return lambda lane: room[lane]

    def state(self, name: str) -> Callable[[ir.Expr], ir.Expr]:
        found = self.read(name)
        assert found is not None, f"the layer has no vector {name}"
        return found


@dataclass(frozen=True)
class Cell:
    """A cell. `finish(phase number, units)` ends a phase; `vectors` are scratch vectors that pass values between
    phases."""

    phases: tuple[Phase, ...]
    finish: Callable[[int, Units], None]
    vectors: tuple[str, ...] = ()


MOST_GROUPS = 4
"""The most runs of units in a panel."""


def _groups(hidden: int, most: int) -> int:
    """The most runs per panel, up to `most`. For a small layer it divides the number of runs, so no run is padding."""
    runs = -(-hidden // LANES)
    return max(n for n in range(1, most + 1) if runs > MOST_GROUPS or runs % n == 0)


def rnn(hidden: int) -> Cell:
    """One gate: `h = f(x W + h R + b)`."""
    return Cell((Phase((0,), _groups(hidden, MOST_GROUPS)),), lambda _, units: _rnn(units))


def _rnn(units: Units) -> None:
    gate = units.gate(0)
    units.write("h", lambda lane: units.functions[0](units.bounded(gate(lane))))


def lstm(_hidden: int, *, coupled: bool) -> Cell:
    """Gates i, o, f, c: `c = f c + i g(c~)`, `h = o h(c)`; `coupled` makes the forget gate `1 - i`."""
    return Cell((Phase((0, 1, 2, 3), 1),), lambda _, units: _lstm(units, coupled=coupled))


def _lstm(units: Units, *, coupled: bool) -> None:
    f, g, h = units.functions
    before = units.named("before", units.state("c"))

    def seen(number: int, cell: Callable[[ir.Expr], ir.Expr], peephole: int) -> Callable[[ir.Expr], ir.Expr]:
        """A gate with the peephole weights `p<peephole>`, if there are any."""
        gate, factor = units.gate(number), units.read(f"p{peephole}")
        if factor is None:
            return lambda lane: f(units.bounded(gate(lane)))
        return lambda lane: f(units.bounded(gate(lane) + factor(lane) * cell(lane)))

    opened = units.named("opened", seen(0, before, 0))
    one = tirx.const(1, units.dtype)
    forgotten = (lambda lane: one - opened(lane)) if coupled else seen(2, before, 2)
    kept = units.named("kept", forgotten)
    new = units.named("new", lambda lane: g(units.bounded(units.gate(3)(lane))))
    after = units.named("after", lambda lane: kept(lane) * before(lane) + opened(lane) * new(lane))
    shown = units.named("shown", seen(1, after, 1))
    units.write("c", after)
    units.write("h", lambda lane: shown(lane) * h(after(lane)))


def gru(hidden: int, *, linear_before_reset: bool) -> Cell:
    """Gates z, r, h: `h = (1 - z) g(h~) + z h`. The reset gate `r` is applied to the state, or with
    `linear_before_reset` to the product of the state with its weights, bias included."""
    if linear_before_reset:
        phase = Phase((0, 1, 2), 1, projects=(True, True, False))
        return Cell((phase,), lambda _, units: _gru_of_products(units))
    phases = (Phase((0, 1), _groups(hidden, 2)), Phase((2,), _groups(hidden, MOST_GROUPS), state="reset"))
    return Cell(phases, lambda number, units: (_gru_gates, _gru_state)[number](units), ("reset", "update"))


def _gru_of_products(units: Units) -> None:
    f, g = units.functions
    update = units.named("z", lambda lane: f(units.bounded(units.gate(0)(lane))))
    reset = units.named("r", lambda lane: f(units.bounded(units.gate(1)(lane))))
    entered = units.state("input")
    new = units.named("new", lambda lane: g(units.bounded(entered(lane) + reset(lane) * units.gate(2)(lane))))
    _blend(units, update, new)


def _gru_gates(units: Units) -> None:
    f, before = units.functions[0], units.state("h")
    units.write("update", lambda lane: f(units.bounded(units.gate(0)(lane))))
    units.write("reset", lambda lane: f(units.bounded(units.gate(1)(lane))) * before(lane))


def _gru_state(units: Units) -> None:
    new = units.named("new", lambda lane: units.functions[1](units.bounded(units.gate(2)(lane))))
    _blend(units, units.state("update"), new)


def _blend(units: Units, update: Callable[[ir.Expr], ir.Expr], new: Callable[[ir.Expr], ir.Expr]) -> None:
    before, one = units.state("h"), tirx.const(1, units.dtype)
    units.write("h", lambda lane: (one - update(lane)) * new(lane) + update(lane) * before(lane))

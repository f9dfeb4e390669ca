"""The kernel of a recurrent layer: it runs all steps of every direction, given projected inputs and packed weights.

It takes `ROWS` sequences at a time, and the remaining ones one by one. Each such block runs through all steps; blocks
and directions may be distributed over threads. A step multiplies the states of a block with one panel of weights after
the other. The sums of a panel stay in registers from the projected input to the end of the cell.

The columns of projected inputs and of weights are in the order of the sums (`columns`): by phase, panel, run of units,
and gate. Units beyond the hidden size are padding; their weights are zeros, so that they have no effect. Each sequence
has two state vectors, which alternate.

If the sequences have lengths, a block runs as many steps as the longest of its sequences has, and the outputs behind
the end of each sequence are zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import reduce
from itertools import zip_longest

import numpy as np
from tvm import ir, tirx

from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.operators.building.imperative import Array, Code
from deploykit.compiler.operators.building.integers import clamp, expr
from deploykit.compiler.operators.recurrent.cells import LANES, Cell, Phase, Units

ROWS = 4
"""The number of sequences that share each load of a weight."""

Function = Callable[[ir.Expr], ir.Expr]


@dataclass(frozen=True)
class Layer:
    """A layer. `backwards` and `functions` have one entry per direction; `bounded` clips the operands of
    activations."""

    cell: Cell
    hidden: int
    backwards: tuple[bool, ...]
    functions: tuple[tuple[Function, ...], ...]
    bounded: Function

    @property
    def gates(self) -> int:
        return sum(len(phase.gates) for phase in self.cell.phases)

    @property
    def units(self) -> int:
        """The number of hidden units, padded to whole panels of every phase."""
        widest = max(phase.units for phase in self.cell.phases)
        return -(-self.hidden // widest) * widest

    @property
    def width(self) -> int:
        """The number of sums of all gates."""
        return sum(self.units // phase.units * phase.width for phase in self.cell.phases)

    def starts(self) -> list[int]:
        """The first column of each phase."""
        widths = [self.units // phase.units * phase.width for phase in self.cell.phases]
        return [sum(widths[:number]) for number in range(len(widths))]

    def columns(self) -> np.ndarray:
        """For each column, the row of ONNX's weights (gate * hidden + unit), or -1 for padding."""
        order = []
        for phase in self.cell.phases:
            panels = self.units // phase.units
            shape = (panels, phase.groups, len(phase.gates), LANES)
            gate = np.asarray(phase.gates).reshape(1, 1, -1, 1)
            unit = np.arange(self.units).reshape(panels, phase.groups, 1, LANES)
            rows = np.where(unit < self.hidden, gate * self.hidden + unit, -1)
            order.append(np.broadcast_to(rows, shape).reshape(-1))
        return np.concatenate(order)


def scan(code: Code, layer: Layer, arrays: dict[str, Array], sizes: tuple[IntExpr, IntExpr], dtype: str) -> None:
    """Write the kernel. `arrays` are by name:

    * `projected` (length, batch, directions * width) and `weights` (directions, hidden * width);
    * if given, `h` and `c` (directions, batch, hidden), `lengths` (batch), `p0` to `p2` and `bias` (directions, units);
    * the results `y` (length, directions, batch, hidden), if wanted, `last_h` and `last_c`;
    * scratch: `states` (2, directions, batch, units), `cells`, and the cell's vectors (directions, batch, units)."""
    length, batch = sizes
    whole = tirx.floordiv(expr(batch), ROWS)
    blocks = whole + (expr(batch) - whole * ROWS)

    def direction(d: int, block: ir.Expr) -> None:
        with code.when(block < whole):
            _Block(code, layer, arrays, dtype, d, block * ROWS, ROWS, length).run()
        with code.when(block >= whole):
            _Block(code, layer, arrays, dtype, d, whole * (ROWS - 1) + block, 1, length).run()

    with code.shared("task", len(layer.backwards) * blocks) as task:
        if len(layer.backwards) == 1:
            direction(0, task)
            return
        for d in range(len(layer.backwards)):
            with code.when(tirx.all(task >= d * blocks, task < (d + 1) * blocks)):
                direction(d, task - d * blocks)


@dataclass(frozen=True)
class _Row:
    """One sequence in one step: whether the step is part of the sequence, and where its input and output are. `active`
    is `None` if every step of the block is part of the sequence."""

    sequence: ir.Expr
    place: ir.Expr
    active: ir.Expr | None
    step: ir.Expr

    def choose(self, new: ir.Expr, old: ir.Expr) -> ir.Expr:
        return new if self.active is None else tirx.Select(self.active, new, old)


@dataclass(frozen=True)
class _Block:
    """All steps of `rows` sequences, from sequence `first` on, in direction `d`."""

    code: Code
    layer: Layer
    arrays: dict[str, Array]
    dtype: str
    d: int
    first: ir.Expr
    rows: int
    length: IntExpr

    def run(self) -> None:
        code, arrays, d = self.code, self.arrays, expr(self.d)
        sequences = [self.first + r for r in range(self.rows)]
        valid = [self._valid(b) for b in sequences] if "lengths" in arrays else []
        steps = code.cell("steps", reduce(tirx.max, valid)).value if valid else self.length
        names = [name for name in ("h", "c") if f"last_{name}" in arrays]
        for b in sequences:
            for name in names:
                state = self._vector(name, b, expr(0))
                with code.loop("j", self.layer.units) as j:
                    state[j] = tirx.const(0, self.dtype)
                if name in arrays:
                    self._copied(_Vector(arrays[name], (d, b)).__getitem__, state)
        # The loop itself is over the length, so that its cost is known from sizes.
        with code.loop("step", self.length) as step, code.when(step < steps if valid else True):
            self._step(step, [self._row(b, own, step) for b, own in zip_longest(sequences, valid)])
        for b in sequences:
            for name in names:
                state = self._vector(name, b, tirx.floormod(expr(steps), 2))
                self._copied(state.__getitem__, _Vector(arrays[f"last_{name}"], (d, b)))
        for b, own in zip(sequences, valid, strict=False):
            self._ended(b, own)

    def _valid(self, b: ir.Expr) -> ir.Expr:
        """The number of steps of a sequence."""
        given = tirx.Cast("int64", self.arrays["lengths"][b])
        return self.code.cell("valid", expr(clamp(given, 0, self.length))).value

    def _ended(self, b: ir.Expr, valid: ir.Expr) -> None:
        """Set the outputs behind the end of a sequence to zero."""
        if "y" in self.arrays:
            with self.code.loop("place", expr(self.length) - valid, valid) as place:
                target = _Vector(self.arrays["y"], (place, expr(self.d), b))
                self._copied(lambda _: tirx.const(0, self.dtype), target)

    def _copied(self, value: Callable[[ir.Expr], ir.Expr], target: _Vector) -> None:
        """`target[j] = value(j)` for all hidden units."""
        hidden = self.layer.hidden
        whole = hidden // LANES
        with self.code.loop("run", whole) as run, self.code.lanes(LANES) as lane:
            target[run * LANES + lane] = value(run * LANES + lane)
        with self.code.loop("rest", hidden - whole * LANES, whole * LANES) as j:
            target[j] = value(j)

    def _row(self, b: ir.Expr, valid: ir.Expr | None, step: ir.Expr) -> _Row:
        """A sequence of `valid` steps; None: as many as the longest."""
        length = expr(self.length) if valid is None else valid
        backwards = self.layer.backwards[self.d]
        if valid is None or self.rows == 1:
            return _Row(b, length - 1 - step if backwards else step, None, step)
        place = tirx.max(length - 1 - step, expr(0)) if backwards else step
        return _Row(b, place, step < length, step)

    def _step(self, step: ir.Expr, rows: Sequence[_Row]) -> None:
        now = tirx.floormod(step, 2)
        for number, (phase, start) in enumerate(zip(self.layer.cell.phases, self.layer.starts(), strict=True)):
            with self.code.loop("panel", self.layer.units // phase.units) as panel:
                self._panel(number, phase, start + panel * phase.width, panel * phase.units, rows, now)
        if "y" not in self.arrays:
            return
        for row in rows:
            state = self._vector("h", row.sequence, 1 - now)
            with nullcontext() if row.active is None else self.code.when(row.active):
                target = _Vector(self.arrays["y"], (row.place, expr(self.d), row.sequence))
                self._copied(state.__getitem__, target)

    def _panel(
        self, number: int, phase: Phase, column: ir.Expr, unit: ir.Expr, rows: Sequence[_Row], now: ir.Expr
    ) -> None:
        """Compute the sums of a panel for all rows, and finish them with the cell."""
        code, arrays, layer, d = self.code, self.arrays, self.layer, self.d
        runs = phase.groups * len(phase.gates)
        sums = [[code.room("sums", LANES, self.dtype) for _ in range(runs)] for _ in rows]
        projects = phase.projects or (True,) * len(phase.gates)
        for row, own in zip(rows, sums, strict=True):
            for run in range(runs):
                group, gate = divmod(run, len(phase.gates))
                with code.lanes(LANES) as lane:
                    if projects[gate]:
                        at = d * layer.width + column + run * LANES + lane
                        own[run][lane] = arrays["projected"][row.place, row.sequence, at]
                    elif "bias" in arrays:
                        own[run][lane] = arrays["bias"][d, unit + group * LANES + lane]
                    else:
                        own[run][lane] = tirx.const(0, self.dtype)
        with self._with_a_state(rows[0].step), code.loop("k", layer.hidden) as k:
            base = column * layer.hidden + k * phase.width
            for run in range(runs):
                for row, own in zip(rows, sums, strict=True):
                    state = self._vector(phase.state, row.sequence, now)[k]
                    with code.lanes(LANES) as lane:
                        own[run][lane] = own[run][lane] + state * arrays["weights"][d, base + run * LANES + lane]
        for row, own in zip(rows, sums, strict=True):
            for group in range(phase.groups):
                self._finish(number, phase, (column, unit), (row, own, group), now)

    def _with_a_state(self, step: ir.Expr) -> AbstractContextManager[None]:
        """A block for products with the state. They are skipped in the first step if the first state is zero."""
        return nullcontext() if "h" in self.arrays else self.code.when(step > 0)

    def _finish(
        self,
        number: int,
        phase: Phase,
        panel: tuple[ir.Expr, ir.Expr],
        part: tuple[_Row, Sequence[Array], int],
        now: ir.Expr,
    ) -> None:
        column, unit = panel
        row, own, group = part
        first = unit + group * LANES

        def gate(wanted: int) -> Callable[[ir.Expr], ir.Expr]:
            run = own[group * len(phase.gates) + phase.gates.index(wanted)]
            return lambda lane: run[lane]

        def read(name: str) -> Callable[[ir.Expr], ir.Expr] | None:
            if name == "input":
                at = self.d * self.layer.width + column + (group * len(phase.gates) + len(phase.gates) - 1) * LANES
                return lambda lane: self.arrays["projected"][row.place, row.sequence, at + lane]
            if name in ("p0", "p1", "p2"):
                found = self.arrays.get(name)
                return None if found is None else (lambda lane: found[self.d, first + lane])
            vector = self._vector(name, row.sequence, now)
            return lambda lane: vector[first + lane]

        def write(name: str, run: Callable[[ir.Expr], ir.Expr]) -> None:
            old = self._vector(name, row.sequence, now)
            with self.code.lanes(LANES) as lane:
                value = run(lane)
                if name in ("h", "c"):
                    value = row.choose(value, old[first + lane])
                target = self._vector(name, row.sequence, 1 - now) if name == "h" else old
                target[first + lane] = value

        functions = self.layer.functions[self.d]
        self.layer.cell.finish(number, Units(self.code, gate, read, write, functions, self.layer.bounded, self.dtype))

    def _vector(self, name: str, sequence: ir.Expr, turn: ir.Expr) -> _Vector:
        """A vector over the hidden units of a sequence; of the two state vectors, the one of this turn."""
        if name == "h":
            return _Vector(self.arrays["states"], (turn, expr(self.d), sequence))
        return _Vector(self.arrays["cells" if name == "c" else name], (expr(self.d), sequence))


@dataclass(frozen=True)
class _Vector:
    """The last axis of an array, at an index of the other axes."""

    array: Array
    prefix: tuple[ir.Expr, ...]

    def __getitem__(self, index: ir.Expr) -> ir.Expr:
        return self.array[(*self.prefix, index)]

    def __setitem__(self, index: ir.Expr, value: ir.Expr) -> None:
        self.array[(*self.prefix, index)] = value

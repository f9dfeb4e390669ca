"""Stores the sums of a register tile of a matrix product.

With the last chunk of the depth, sums leave the registers through the epilogue. They go directly to the result if the
panel is full and the epilogue is short, else through a copy, which loops can index. Before the last chunk, they wait in
the result, if it has their dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from tvm import ir, tirx

from deploykit.compiler.devices.row_functions import RowFunctions
from deploykit.compiler.schedules.kernel.finish import Finish
from deploykit.compiler.schedules.kernel.loops import loop, main_and_tail
from deploykit.compiler.schedules.kernel.stages import Axis
from deploykit.compiler.schedules.matmul.ends import Ends
from deploykit.compiler.schedules.matmul.tile import Tile, copy, each_vector, fill
from deploykit.compiler.schedules.pointwise.rows import row_of
from deploykit.compiler.tir.prefetches import prefetch
from deploykit.compiler.tir.rewriting import Buffer, Expr, collect, sequence, substitute
from deploykit.compiler.tir.values import as_index, const, dtype_of, static


@dataclass(frozen=True)
class Place:
    """The results of a tile: the values of the batch loops, the result row for a row of the tile, and the panel."""

    batch: Mapping[ir.Var, Expr]
    row: Callable[[Expr], Expr]
    panel: Expr


@dataclass(frozen=True)
class Results:
    """The results of a product over `rows` and `columns`, in panels of `width`. `values` give the axes that `finish`
    stores over, in terms of the rows and the batch loops. `ends`: a row has columns up to its end. `functions`
    store rows, if there are some."""

    finish: Finish
    values: Mapping[ir.Var, Expr]
    rows: Axis
    columns: Axis
    width: int
    ends: Ends | None = None
    functions: RowFunctions | None = None

    @property
    def dtype(self) -> str:
        return dtype_of(self.finish.store.buffer)

    def ahead(self, place: Place, tile: Tile) -> list[tirx.Stmt]:
        """Prefetch the first line of each row that the tile is stored to. The neighbouring lines come with it."""
        if tile.lanes == 1:
            return []
        return [prefetch(self._waiting(place, tile, const(row), const(0))) for row in range(tile.rows)]

    def finished(self, place: Place, tile: Tile, sums: Buffer, spilled: Buffer) -> tirx.Stmt:
        """Store complete sums, with the epilogue."""

        def store(row: Expr, column: Expr, value: Expr) -> tirx.Stmt:
            return self._store(place, row, column, value)

        def through(columns: Callable[[Expr], Expr]) -> tirx.Stmt:
            lanes = 1 if self.finish.scalar else tile.lanes
            return sequence([copy(tile, sums, spilled), _each(tile, columns, lanes, spilled, store)])

        valid = partial(self._valid, place)
        if self.functions is not None:
            return self._rows(self.functions, place, tile, sums, valid)
        if self.finish.scalar:
            return through(valid)
        if collect(self.finish.store.value, ir.Call):
            return self._full(place, tile, through(lambda _: const(self.width)), through(valid))
        straight = each_vector(tile, lambda i, column, at: store(i, column, tirx.BufferLoad(sums, [at])))
        return self._full(place, tile, straight, through(valid))

    def _rows(
        self, functions: RowFunctions, place: Place, tile: Tile, sums: Buffer, valid: Callable[[Expr], Expr]
    ) -> tirx.Stmt:
        """Store complete sums, one row after the other."""

        def element(i: int, j: Expr) -> tirx.BufferStore:
            return self._store(place, const(i), j, tirx.BufferLoad(sums, [i * tile.columns + j]))

        rows = [row_of(functions, valid(const(i)), tile.columns, partial(element, i)) for i in range(tile.rows)]
        return sequence(rows)

    def paused(self, place: Place, tile: Tile, sums: Buffer, spilled: Buffer) -> tirx.Stmt:
        """Store incomplete sums in the result."""

        def save(row: Expr, column: Expr, value: Expr) -> tirx.Stmt:
            waiting = self._waiting(place, tile, row, column)
            target: Buffer = waiting.source
            return tirx.BufferStore(target, value, waiting.indices)

        straight = each_vector(tile, lambda i, column, at: save(i, column, tirx.BufferLoad(sums, [at])))
        rest = [copy(tile, sums, spilled), _each(tile, partial(self._valid, place), tile.lanes, spilled, save)]
        return self.full(place.panel, straight, sequence(rest))

    def resumed(self, place: Place, tile: Tile, sums: Buffer, spilled: Buffer) -> tirx.Stmt:
        """Load incomplete sums from the result."""

        def fetch(row: Expr, column: Expr, _: Expr) -> tirx.Stmt:
            at = [row * tile.columns + column]
            return tirx.BufferStore(spilled, self._waiting(place, tile, row, column), at)

        straight = fill(tile, sums, lambda row, column: self._waiting(place, tile, row, column))
        moved = fill(tile, sums, lambda row, column: tirx.BufferLoad(spilled, [row * tile.columns + column]))
        rest = [_each(tile, partial(self._valid, place), tile.lanes, spilled, fetch), moved]
        return self.full(place.panel, straight, sequence(rest))

    def _waiting(self, place: Place, tile: Tile, row: Expr, column: Expr) -> ir.TensorLoad:
        """The element of the result in which a sum waits."""
        store = self._store(place, row, column, tirx.const(0, tile.dtype))
        return tirx.BufferLoad(store.buffer, store.indices)

    def _store(self, place: Place, row: Expr, column: Expr, value: Expr) -> tirx.BufferStore:
        at = {self.rows.var: place.row(row), self.columns.var: place.panel * self.width + column}
        return substitute(self.finish(value, self.values), {**place.batch, **at})

    def needed(self, panel: Expr, panels: Expr, first: Expr, last: Expr) -> Expr:
        """How many of `panels` panels from `panel` on have columns of the rows from `first` to `last`."""
        if self.ends is None:
            return panels
        most = self.ends.between(first, last)[1] - panel * self.width
        return tirx.max(const(0), tirx.min(panels, tirx.truncdiv(most + (self.width - 1), const(self.width))))

    def _valid(self, place: Place, row: Expr) -> Expr:
        """The number of columns of a panel that exist in a row."""
        if self.ends is None:
            return self.valid(place.panel)
        end = self.ends.at(place.row(row)) - place.panel * self.width
        return tirx.max(const(0), tirx.min(const(self.width), end))

    def _full(self, place: Place, tile: Tile, whole: tirx.Stmt, rest: tirx.Stmt) -> tirx.Stmt:
        """`whole` if the panel is full in all rows, else `rest`."""
        if self.ends is None:
            return self.full(place.panel, whole, rest)
        least, _ = self.ends.between(place.row(const(0)), place.row(const(tile.rows - 1)))
        return tirx.IfThenElse((place.panel + 1) * self.width <= least, whole, rest)

    def valid(self, panel: Expr) -> Expr:
        """The number of columns of a panel that exist."""
        return tirx.min(const(self.width), as_index(self.columns.extent) - panel * self.width)

    def full(self, panel: Expr, whole: tirx.Stmt, rest: tirx.Stmt) -> tirx.Stmt:
        """`whole` if the panel is full, else `rest`."""
        columns, known = as_index(self.columns.extent), static(self.columns.extent)
        if known is not None and known < self.width:
            return rest
        if known is not None and known % self.width == 0:
            return whole
        return tirx.IfThenElse((panel + 1) * self.width <= columns, whole, rest)


def _each(
    tile: Tile,
    columns: Callable[[Expr], Expr],
    lanes: int,
    spilled: Buffer,
    body: Callable[[Expr, Expr, Expr], tirx.Stmt],
) -> tirx.Stmt:
    """`body(row, column, value)` for the first `columns(row)` of the copied sums of every row."""

    def element(row: Expr, column: Expr) -> tirx.Stmt:
        return body(row, column, tirx.BufferLoad(spilled, [row * tile.columns + column]))

    return loop("i", tile.rows, lambda i: sequence(main_and_tail("j", columns(i), lanes, lambda j: element(i, j))))

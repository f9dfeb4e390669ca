"""One tile: several rows of a few vectors of columns, whose sums stay in registers.

sums = 0
for all steps of the reduced loops:
    factors = ...                     each loaded once for all elements that share it
    sums[row, column] += factors[row] * factors[column]
store sums
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeAlias

from tvm import ir, tirx

from deploykit.compiler.schedules.gpu.team import agreed, once, shared_out
from deploykit.compiler.schedules.kernel.access import Views
from deploykit.compiler.schedules.kernel.loops import index_of, local, loop, vectorized
from deploykit.compiler.schedules.kernel.stages import Axis, Stage
from deploykit.compiler.tir.rewriting import Buffer, Expr, Node, replace_loads, sequence, substitute
from deploykit.compiler.tir.values import as_index, const, dtype_of


@dataclass(frozen=True)
class Factor:
    """A factor of the summed product. `by_row` and `by_column` say what it depends on. `along`: four of its elements
    may be loaded at a time along the innermost reduced axis."""

    value: Expr
    by_row: bool
    by_column: bool
    along: bool


AddTerms: TypeAlias = "Callable[[Tile, Buffer, Expr | None], tirx.Stmt]"
"""Adds the terms of an iteration of the innermost reduced loop to each sum of a tile."""


class Tiling(Protocol):
    """What all tiles of a stage have in common: `width` columns, a multiple of `lanes`, computed by an invocation or a
    `team`. `row` is the axis along which a tile has several rows; `units` are the values of axes of extent 1.
    Without `add_terms`, the factors are loaded, multiplied and added."""

    stage: Stage
    views: Views
    lanes: int
    width: int
    team: bool
    column: Axis
    row: Axis | None
    reduce: tuple[Axis, ...]
    units: dict[ir.Var, Expr]
    factors: Sequence[Factor]
    add_terms: AddTerms | None


@dataclass(frozen=True)
class Tile:
    """`rows` rows from `first` on (or the only row), of a chunk of columns. `values` are those of the outer axes."""

    tiling: Tiling
    rows: int
    first: Expr | None
    chunk: Expr
    values: Mapping[ir.Var, Expr]

    @property
    def vectors(self) -> int:
        """The number of vectors of a row."""
        return self.tiling.width // self.tiling.lanes

    def at(self, node: Node, row: int, vector: int, lane: Expr) -> Node:
        """`node` for one element of the tile."""
        tiling = self.tiling
        place = {**tiling.units, **self.values}
        column = self.chunk * tiling.width + (vector * self.tiling.lanes) + lane
        place[tiling.column.var] = index_of(tiling.column, column)
        if tiling.row is not None and self.first is not None:
            place[tiling.row.var] = index_of(tiling.row, self.first + row)
        return substitute(node, place)

    def statement(self) -> tirx.Stmt:
        """The statements for the whole tile."""
        stage = self.tiling.stage
        assert stage.store is not None
        if stage.combine is None:
            return vectorized(self.tiling.lanes, partial(self._pointwise, stage.store))
        sums = local("sums", self.rows * self.tiling.width, dtype_of(stage.combine.identity))
        start = self._each(partial(self._start, sums))
        update = self._update(sums)
        finish = self._each(partial(self._finish, sums))
        if not self.tiling.team:
            return sequence([tirx.AllocBuffer(sums), *start, update, *finish])
        agree = self._each(partial(self._agree, sums))
        return sequence([tirx.AllocBuffer(sums), *start, update, *agree, once(sequence(finish))])

    def _each(self, body: Callable[[int, int, Expr], tirx.Stmt]) -> list[tirx.Stmt]:
        """`body(row, vector, lane)` for all elements, one vector at a time."""
        spots = [(row, vector) for row in range(self.rows) for vector in range(self.vectors)]
        return [vectorized(self.tiling.lanes, partial(body, row, vector)) for row, vector in spots]

    def _slot(self, row: int, vector: int, lane: Expr) -> Expr:
        """The index of an element's sum."""
        return const(row * self.tiling.width + vector * self.tiling.lanes) + lane

    def _pointwise(self, store: tirx.BufferStore, lane: Expr) -> tirx.Stmt:
        return self.tiling.views.store(self.at(store, 0, 0, lane))

    def _start(self, sums: Buffer, row: int, vector: int, lane: Expr) -> tirx.Stmt:
        combine = self.tiling.stage.combine
        assert combine is not None
        return tirx.BufferStore(sums, self.at(combine.identity, row, vector, lane), [self._slot(row, vector, lane)])

    def _agree(self, sums: Buffer, row: int, vector: int, lane: Expr) -> tirx.Stmt:
        slot = self._slot(row, vector, lane)
        return tirx.BufferStore(sums, agreed(tirx.Add, sums[slot]), [slot])

    def _finish(self, sums: Buffer, row: int, vector: int, lane: Expr) -> tirx.Stmt:
        """Store an element, with the epilogue applied to its sum."""
        stage, views = self.tiling.stage, self.tiling.views
        assert stage.store is not None
        own = stage.store.buffer
        total = tirx.BufferLoad(sums, [self._slot(row, vector, lane)])
        if stage.epilogue is None:
            moved = tirx.BufferStore(own, total, stage.store.indices)
            return views.store(self.at(moved, row, vector, lane))
        flat = views.flat(own)

        def value(load: ir.TensorLoad) -> Expr:
            return total if load.source.same_as(flat) or load.source.same_as(own) else load

        return replace_loads(views.store(self.at(stage.epilogue, row, vector, lane)), value)

    def _update(self, sums: Buffer) -> tirx.Stmt:
        """The loops over reduced axes that add to the sums."""
        reduce = self.tiling.reduce
        if not reduce:
            return self._step(sums, 1, None)
        *outer, inner = reduce
        steps = self.tiling.lanes if any(factor.along for factor in self.tiling.factors) else 1
        extent = inner.extent if steps == 1 else const((inner.static or 0) // steps)
        step = partial(self._step, sums, steps)
        if self.tiling.team:
            result = shared_out(as_index(extent), step)
        else:
            result = loop(inner.var.name.removeprefix("v_"), extent, step)
        for axis in reversed(outer):
            var = ir.Var(axis.var.name.removeprefix("v_"), dtype_of(axis.var))
            inside = substitute(result, {axis.var: var})
            result = tirx.For(var, tirx.IntImm(dtype_of(var), 0), axis.extent, tirx.ForKind.SERIAL, inside)
        return result

    def _step(self, sums: Buffer, steps: int, index: Expr | None) -> tirx.Stmt:
        """Add `steps` terms to each sum: those of iteration `index` of the innermost reduced loop."""
        if self.tiling.add_terms is not None:
            return self.tiling.add_terms(self, sums, index)
        cells = [_Cell(self, factor, steps, index) for factor in self.tiling.factors]
        code = [statement for cell in cells for statement in cell.loads()]
        for k in range(steps):
            code += self._each(partial(self._add, sums, cells, k))
        return sequence(code)

    def _add(self, sums: Buffer, cells: Sequence[_Cell], k: int, row: int, vector: int, lane: Expr) -> tirx.Stmt:
        combine = self.tiling.stage.combine
        assert combine is not None
        operands = [cell.element(row, vector, lane, k) for cell in cells]
        value = operands[0] * operands[1] if len(operands) == 2 else operands[0]
        slot = self._slot(row, vector, lane)
        return tirx.BufferStore(sums, combine.operator(tirx.BufferLoad(sums, [slot]), value), [slot])


class _Cell:
    """A factor in registers, for a whole tile and `steps` steps of the iteration `index`."""

    def __init__(self, tile: Tile, factor: Factor, steps: int, index: Expr | None) -> None:
        self.lanes = tile.tiling.lanes
        self.tile, self.factor, self.steps, self.index = tile, factor, steps, index
        self.rows = tile.rows if factor.by_row else 1
        self.wide = tile.vectors * self.lanes if factor.by_column else 1
        self.buffer = local("factor", self.rows * self.wide * steps, dtype_of(factor.value))

    def loads(self) -> list[tirx.Stmt]:
        """The statements that load the factor to registers."""
        code: list[tirx.Stmt] = [tirx.AllocBuffer(self.buffer)]
        for row in range(self.rows):
            if self.factor.along and self.steps > 1:
                code.append(vectorized(self.lanes, partial(self._ahead, row)))
                continue
            for k in range(self.steps):
                if self.factor.by_column:
                    vectors = range(self.tile.vectors)
                    code += [vectorized(self.lanes, partial(self._across, row, k, vector)) for vector in vectors]
                else:
                    value = self._value(row, 0, const(0), k)
                    code.append(tirx.BufferStore(self.buffer, value, [const(self._base(row, k))]))
        return code

    def element(self, row: int, vector: int, lane: Expr, k: int) -> Expr:
        """The factor for an element of the tile at step `k`."""
        base = self._base(row if self.factor.by_row else 0, k)
        if self.factor.by_column:
            return tirx.BufferLoad(self.buffer, [const(base + vector * self.lanes) + lane])
        return tirx.BufferLoad(self.buffer, [const(base)])

    def _base(self, row: int, k: int) -> int:
        return (row * self.steps + k) * self.wide

    def _ahead(self, row: int, lane: Expr) -> tirx.Stmt:
        """Load neighbours along the innermost reduced axis, one per step."""
        return tirx.BufferStore(self.buffer, self._value(row, 0, const(0), lane), [const(row * self.steps) + lane])

    def _across(self, row: int, k: int, vector: int, lane: Expr) -> tirx.Stmt:
        """Load neighbours along the columns."""
        value = self._value(row, vector, lane, k)
        return tirx.BufferStore(self.buffer, value, [const(self._base(row, k) + vector * self.lanes) + lane])

    def _value(self, row: int, vector: int, lane: Expr, k: Expr | int) -> Expr:
        tiling = self.tile.tiling
        node = tiling.views.value(self.tile.at(self.factor.value, row, vector, lane))
        if self.index is None:
            return node
        inner = tiling.reduce[-1]
        position = self.index if self.steps == 1 else self.index * self.steps + k
        return substitute(node, {inner.var: index_of(inner, position)})

"""The loops of a schedule as TIR.

* A loop over tiles becomes one over whole tiles and, after it, the part that is left (*operation splitting*): neither
  has a condition inside. A parallel loop over tiles stays one loop, which decides once for each tile.
* Indices are expressions over the loops: `row` is `f - sums[batch]` where `f` runs over the rows of all instances.
  Offsets in normal form then contain `f` alone.
* A reduction is kept in local cells: one for each iteration of the loops within the reduced ones, and for each element
  of the vector if a reduced loop is vectorised.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce as folded
from operator import mul
from typing import Any

import tvm_ffi
from tvm import ir, tirx

from deploykit.compiler.dims.conversion import as_expr, expression, polynomial
from deploykit.compiler.dims.polynomial import ZERO, Polynomial, round_up
from deploykit.compiler.ragged.storage import Storage
from deploykit.compiler.tir.extrema import maximum, minimum
from deploykit.compiler.tir.rewriting import Expr, sequence, substitute
from deploykit.compiler.tir.values import const, static
from deploykit.ragged.indices import Dim
from deploykit.ragged.schedules import PARALLEL, UNROLLED, VECTOR, Fused, Inner, Outer, Schedule, Whole

KINDS = {PARALLEL: tirx.ForKind.PARALLEL, UNROLLED: tirx.ForKind.UNROLLED, VECTOR: tirx.ForKind.VECTORIZED}

FULL, REST = "full", "rest"

COMBINE: Mapping[str, Callable[[Expr, Expr], Expr]] = {"sum": lambda a, b: a + b, "max": maximum, "min": minimum}


@dataclass(frozen=True)
class Point:
    """The loops that are open: the values of loops by name, and which loops are known to be in whole tiles (`FULL`) or
    in what is left (`REST`)."""

    values: Mapping[str, Expr] = field(default_factory=dict)
    tiles: Mapping[str, str] = field(default_factory=dict)

    def at(self, name: str, value: Expr) -> Point:
        return replace(self, values={**self.values, name: value})

    def within(self, name: str, tile: str) -> Point:
        return replace(self, tiles={**self.tiles, name: tile})


class Nest:
    """Emits the loops of `schedule`. `element` gives the value to store or to reduce, `store` stores a value; both are
    over the variables of dims."""

    def __init__(self, storage: Storage, schedule: Schedule, element: Expr, store: Callable[[Expr], tirx.Stmt]) -> None:
        self.storage, self.schedule, self.element, self.store = storage, schedule, element, store
        self.reduce = schedule.tensor.reduction
        reduced = set(schedule.reduced)
        loops = schedule.loops
        self.first = next((p for p, loop in enumerate(loops) if schedule.dims(loop) & reduced), len(loops))
        kept = [loop for loop in loops[self.first :] if not schedule.dims(loop) & reduced]
        lanes = [loop for loop in loops if schedule.kinds.get(loop) == VECTOR and schedule.dims(loop) & reduced]
        self.kept, self.cells = kept, [*kept, *lanes]
        self.padding = {source.dim: source.padding for source in schedule.sources.values() if isinstance(source, Whole)}

    def statement(self) -> tirx.Stmt:
        """All loops."""
        return self._level(0, Point())

    # Values and extents

    def values(self, point: Point) -> dict[tirx.Var, Expr]:
        """The values of the variables of dims."""
        dims = (*self.schedule.tensor.dims, *self.schedule.reduced)
        return {
            self.storage.variable(dim): self._value(dim.name, point) for dim in dims if self._known(dim.name, point)
        }

    def _known(self, name: str, point: Point) -> bool:
        made = f"{name}.outer" in self.schedule.sources
        if name in point.values:
            return True
        return made and self._known(f"{name}.outer", point) and self._known(f"{name}.inner", point)

    def _value(self, name: str, point: Point) -> Expr:
        """The index of a loop, which may have been split or fused."""
        if name in point.values:
            return point.values[name]
        source = self.schedule.sources[f"{name}.outer"]
        assert isinstance(source, Outer)
        return self._value(f"{name}.outer", point) * source.factor + self._value(f"{name}.inner", point)

    def _extent(self, name: str, point: Point) -> Expr:
        source = self.schedule.sources[name]
        if isinstance(source, Whole):
            extent = round_up(self.storage.polynomial(source.dim.extent), source.padding)
            return self._placed(as_expr(expression(extent)), point)
        if isinstance(source, Outer):
            return _normal(tirx.floordiv(self._extent(source.of, point) + (source.factor - 1), const(source.factor)))
        if isinstance(source, Inner):
            if self._exact(name, point):
                return const(source.factor)
            rest = self._extent(source.of, point) - self._value(f"{source.of}.outer", point) * source.factor
            return tirx.min(const(source.factor), rest) if source.of not in point.tiles else _normal(rest)
        dims = self._vloop(name)
        if dims is None:
            return self._extent(source.outer, point) * self._extent(source.inner, point)
        return self._placed(self.storage.layout(dims, self.padding).total.expr(), point)

    def _exact(self, name: str, point: Point) -> bool:
        """Whether all tiles of an inner loop are whole here."""
        source = self.schedule.sources[name]
        assert isinstance(source, Inner)
        return point.tiles.get(source.of) == FULL or self._divides(source.of, source.factor)

    def _divides(self, name: str, factor: int) -> bool:
        source = self.schedule.sources[name]
        if isinstance(source, Whole):
            extent = round_up(self.storage.polynomial(source.dim.extent), source.padding)
            return not any(x % factor for x in extent.terms.values())
        return isinstance(source, Inner) and self._divides(source.of, source.factor) and source.factor % factor == 0

    def _placed(self, expr: Expr, point: Point) -> Expr:
        return _normal(substitute(expr, self.values(point)))

    def _vloop(self, name: str) -> tuple[Dim, ...] | None:
        """The dims of a fused loop whose inner extent depends on the outer loop."""
        source = self.schedule.sources[name]
        if not isinstance(source, Fused) or not self.schedule.depends(source.outer, source.inner):
            return None
        wholes = self.schedule.fused_dims(source.outer, source.inner)
        assert wholes is not None
        return tuple(whole.dim for whole in wholes)

    # Loops

    def _level(self, place: int, point: Point) -> tirx.Stmt:
        """The loops from `place` on."""
        loops = self.schedule.loops
        if place == self.first and self.reduce is not None:
            return self._reduction(place, point)
        if place == len(loops):
            return self._stored(self.element, point)
        return self._loop(place, point, lambda inner: self._level(place + 1, inner))

    def _loop(self, place: int, point: Point, body: Callable[[Point], tirx.Stmt]) -> tirx.Stmt:
        name = self.schedule.loops[place]
        source, kind = self.schedule.sources[name], self.schedule.kinds.get(name)
        extent = self._extent(name, point)
        whole = isinstance(source, Inner) and static(extent) is not None
        kind = kind if kind == PARALLEL or whole else None
        if isinstance(source, Outer) and not self._divides(source.of, source.factor):
            return self._tiles(name, source, kind, point, body)
        var = _variable(name)
        binds, inner = self._opened(name, var, point)
        return self._for(var, extent, kind, sequence([*binds, body(inner)]))

    def _tiles(
        self, name: str, source: Outer, kind: str | None, point: Point, body: Callable[[Point], tirx.Stmt]
    ) -> tirx.Stmt:
        """A loop over tiles of which the last one may be smaller."""
        whole = _normal(tirx.floordiv(self._extent(source.of, point), const(source.factor)))
        var = _variable(name)
        full = body(point.at(name, var).within(source.of, FULL))
        if kind == PARALLEL:
            last = body(point.at(name, var).within(source.of, REST))
            return self._for(var, self._extent(name, point), kind, tirx.IfThenElse(var < whole, full, last))
        count = whole if static(whole) is not None else _variable(f"{name}.whole")
        rest = _normal(self._extent(source.of, point) - count * source.factor)
        steps: list[tirx.Stmt] = [] if count is whole else [tirx.Bind(count, whole)]
        steps.append(self._for(var, count, None, full))
        if static(rest) != 0:
            last = body(point.at(name, count).within(source.of, REST))
            steps.append(last if static(rest) is not None else tirx.IfThenElse(rest > 0, last, None))
        return sequence(steps)

    def _opened(self, name: str, var: tirx.Var, point: Point) -> tuple[list[tirx.Stmt], Point]:
        """What a loop binds, and the point in it."""
        source = self.schedule.sources[name]
        if name in self.schedule.remapped and isinstance(source, Whole):
            weight = self.schedule.weight(source.dim)
            assert weight is not None
            index = tirx.Var(source.dim.name, "int64")
            order = self.storage.order(source.dim, weight)
            return [tirx.Bind(index, tirx.BufferLoad(order.buffer, [var]))], point.at(name, index)
        point = point.at(name, var)
        if isinstance(source, Inner | Outer):
            return self._completed(source.of, point)
        if not isinstance(source, Fused):
            return [], point
        outer = _variable(source.outer)
        dims = self._vloop(name)
        if dims is None:
            extent = self._extent(source.inner, point)
            binds, point = self._opened(source.outer, outer, point)
            inner = _variable(source.inner)
            more, point = self._opened(source.inner, inner, point)
            first = [tirx.Bind(outer, tirx.truncdiv(var, extent)), tirx.Bind(inner, tirx.truncmod(var, extent))]
            return [*first, *binds, *more], point
        owners = self.storage.owners(dims, self.padding)
        binds, point = self._opened(source.outer, outer, point)
        indices = [self._value(dim.name, point) for dim in dims[:-1]]
        start = owners.layout.offset([*indices, const(0)])
        bound = tirx.Bind(outer, tirx.BufferLoad(owners.buffer, [var]))
        return [bound, *binds], point.at(source.inner, _normal(var - start))

    def _completed(self, name: str, point: Point) -> tuple[list[tirx.Stmt], Point]:
        """What is bound for a loop that was split, where its index is known: the indices of the loops fused in it."""
        if not self._known(name, point):
            return [], point
        source = self.schedule.sources[name]
        if isinstance(source, Inner | Outer):
            return self._completed(source.of, point)
        if not isinstance(source, Fused):
            return [], point
        var = _variable(name)
        binds, inner = self._opened(name, var, point)
        return [tirx.Bind(var, self._value(name, point)), *binds], inner

    def _for(self, var: tirx.Var, extent: Expr, kind: str | None, body: tirx.Stmt) -> tirx.Stmt:
        return tirx.For(var, const(0), extent, KINDS.get(kind or "", tirx.ForKind.SERIAL), body)

    # Elements

    def _stored(self, value: Expr, point: Point) -> tirx.Stmt:
        return _with_normal_indices(substitute(self.store(value), self.values(point)))

    def _reduction(self, place: int, point: Point) -> tirx.Stmt:
        """The loops from the first reduced one on: start, update and store the cells."""
        assert self.reduce is not None
        reduce_, dtype = self.reduce, self.schedule.tensor.dtype
        sizes = [self._factor(loop) for loop in self.cells]
        cells = tirx.decl_buffer((folded(mul, sizes, 1),), dtype, "cells", scope="global")
        combine = COMBINE[reduce_.kind]

        def cell(inner: Point, values: Mapping[str, Expr]) -> Expr:
            index = ZERO
            for loop, size in zip(self.cells, sizes, strict=True):
                index = index.scaled(size) + polynomial(as_expr(values.get(loop, inner.values.get(loop, 0))))
            return as_expr(expression(index))

        def update(inner: Point) -> tirx.Stmt:
            index = cell(inner, {})
            value = _with_normal_indices(substitute(self.element, self.values(inner)))
            return tirx.BufferStore(cells, combine(tirx.BufferLoad(cells, [index]), value), [index])

        def finish(inner: Point) -> tirx.Stmt:
            total: Expr | None = None
            lanes = [loop for loop in self.cells if loop not in self.kept]
            for lane in range(self._factor(lanes[0]) if lanes else 1):
                found = tirx.BufferLoad(cells, [cell(inner, {loop: const(lane) for loop in lanes})])
                total = found if total is None else combine(total, found)
            assert total is not None
            return self._stored(total, inner)

        at = tirx.Var("cell", "int64")
        count = folded(mul, sizes, 1)
        start = tirx.BufferStore(cells, neutral(reduce_.kind, dtype), [at])
        return sequence(
            [
                tirx.AllocBuffer(cells),
                self._for(at, const(count), VECTOR if 1 < count <= 64 else None, start),
                self._nested([*self.schedule.loops[place:]], point, update),
                self._nested(self.kept, point, finish),
            ]
        )

    def _nested(self, loops: Sequence[str], point: Point, body: Callable[[Point], tirx.Stmt]) -> tirx.Stmt:
        if not loops:
            return body(point)
        place = self.schedule.loops.index(loops[0])
        return self._loop(place, point, lambda inner: self._nested(loops[1:], inner, body))

    def _factor(self, loop: str) -> int:
        source = self.schedule.sources[loop]
        assert isinstance(source, Inner)
        return source.factor


def neutral(kind: str, dtype: str) -> Expr:
    """The result of a reduction over nothing."""
    if kind == "sum":
        return tirx.const(0, dtype)
    if dtype.startswith("float"):
        return tirx.const(float("-inf" if kind == "max" else "inf"), dtype)
    return tirx.min_value(dtype) if kind == "max" else tirx.max_value(dtype)


def _normal(expr: Expr) -> Expr:
    found: Polynomial = polynomial(expr)
    return as_expr(expression(found))


def _variable(name: str) -> tirx.Var:
    return tirx.Var(name.replace(".", "_"), "int64")


def _with_normal_indices(node: Any) -> Any:
    """`node` with the places that it loads from and stores to in normal form."""

    def load(found: ir.TensorLoad) -> Expr:
        return tirx.BufferLoad(found.source, [_normal(index) for index in found.indices])

    def store(found: tirx.BufferStore) -> tirx.Stmt:
        return tirx.BufferStore(found.buffer, found.value, [_normal(index) for index in found.indices])

    return tvm_ffi.structural_map(node, [(ir.TensorLoad, load), (tirx.BufferStore, store)], order="post")

"""Tiles: an invocation computes several rows of a few vectors of four elements.

The rule takes stages over elements of 8 and 32 bits and float16. Their last axis must be a whole number of vectors, and
every load must be constant or contiguous along it. So it takes matrix products with packed panels, convolutions and
pooling with channels last, and elementwise stages.
The class of the device says how many rows and columns a tile has; a tile has fewer columns where a vector of the wider
one would reach into another group of a convolution. Sums stay in registers. A factor of the summed product that does
not depend on the row is loaded once for all rows; one that does not depend on the column, once for all columns, and
four at a time along the innermost reduced axis if it is contiguous there. Rows that do not fill a tile are a smaller
one; if their number is symbolic, they are computed one by one. If there are few tiles with long sums, as in a decoding
step, the invocations of a team divide the sums of a tile among them.

Elementwise stages whose tensors are all traversed in the same order are one row of vectors, whatever their shapes. The
last vector may reach beyond the tensors, into the padding that every tensor has; parts of tensors have none.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import ir, sym, tirx

from deploykit.compiler.decisions import Declined
from deploykit.compiler.devices.gpu import Gpu
from deploykit.compiler.schedules.gpu.dots import add_dots, dot_factors
from deploykit.compiler.schedules.gpu.team import Way
from deploykit.compiler.schedules.gpu.tile_body import AddTerms, Factor, Tile
from deploykit.compiler.schedules.kernel.access import Views, analyse, fuse, offset_of, pinned, static_stride, values_of
from deploykit.compiler.schedules.kernel.loops import Code, index_of, loop, unravel, vectorized, without_units
from deploykit.compiler.schedules.kernel.stages import Axis, Stage
from deploykit.compiler.tir.rewriting import Buffer, Expr, call_name, collect, substitute
from deploykit.compiler.tir.values import as_index, const, dtype_of, static


def tile(stage: Stage, views: Views, gpu: Gpu, *, padding: bool = True) -> list[Way] | Declined:
    """Ways that compute `stage`, or the reason why it is not computed in tiles. `padding`: there is padding behind the
    tensors."""
    buffers = dict.fromkeys((*stage.touched, *stage.outputs))
    other = next((dtype_of(buffer) for buffer in buffers if dtype_of(buffer) not in gpu.vectors), None)
    if other is not None:
        return Declined(f"it has tensors of {other}, of which there are no vectors")
    if stage.store is None:
        return Declined("it has several results")
    if stage.reduce and stage.combine is None:
        return Declined("it is no reduction with a known operator")
    whole = _flat(stage, views, gpu.lanes, padding)
    if whole is not None:
        return [Way(whole)]
    axes, _ = without_units(stage.axes)
    columns = axes[-1].static if axes else None
    if columns is None or columns % gpu.lanes:
        return Declined(f"its last axis is no whole number of vectors of {gpu.lanes}")
    narrow = _Tiles(stage, views, gpu, gpu.lanes)
    refusal = narrow.refusal()
    if refusal is not None:
        return refusal
    for width in narrow.sizes.widths if stage.reduce else ():
        tiles = _Tiles(stage, views, gpu, width)
        if columns % width == 0 and tiles.refusal() is None:
            return tiles.ways()
    return narrow.ways()


def _flat(stage: Stage, views: Views, lanes: int, padding: bool) -> tirx.Stmt | None:
    """An elementwise stage as one row of vectors, if all its tensors are traversed in the same order; else None."""
    store = stage.store
    if store is None or stage.reduce or stage.epilogue is not None:
        return None
    axes, units = without_units(stage.axes)
    store = substitute(store, units)
    found = analyse([store], axes)
    fused = fuse(axes, found, pinned([store.value], axes))
    if len(fused) != 1 or static(fused[0].axis.extent) is not None:
        return None
    strides = [static_stride(access.strides[fused[0].inner]) for access in found]
    if strides[0] != 1 or any(stride not in (0, 1) for stride in strides):
        return None
    values = values_of(fused, axes)
    axis = fused[0].axis
    if not padding and not sym.Analyzer().can_prove(tirx.floormod(as_index(axis.extent), lanes) == 0):
        return None
    count = tirx.floordiv(as_index(axis.extent) + (lanes - 1), const(lanes))
    body = views.store(substitute(store, values))

    def at(index: Expr) -> tirx.Stmt:
        return vectorized(lanes, lambda lane: substitute(body, {axis.var: index_of(axis, index * lanes + lane)}))

    return loop("task", count, at, tirx.ForKind.PARALLEL)


class _Tiles:
    """A stage in tiles of `width` columns, a multiple of `lanes`, each computed by an invocation or a `team`. `row` is
    the axis along which a tile has several rows; some factor does not depend on it."""

    def __init__(self, stage: Stage, views: Views, gpu: Gpu, width: int, *, team: bool = False) -> None:
        self.stage, self.views, self.gpu, self.width, self.team = stage, views, gpu, width, team
        self.lanes, self.kind = gpu.lanes, gpu.kind
        self.axes, units = without_units(stage.axes)
        self.reduce, reduced = without_units(stage.reduce)
        self.units = units | reduced
        self.column = self.axes[-1]
        self.row = self.axes[-2] if len(self.axes) > 1 and stage.reduce else None
        self.chunk, self.lane = ir.Var("chunk", "int64"), ir.Var("lane", "int64")
        found = dot_factors(stage)
        self.dots = isinstance(found, tuple)
        self.add_terms: AddTerms | None = add_dots if self.dots else None
        self.unfit = found if isinstance(found, Declined) else None
        self.factors: Sequence[Factor] = self._factors(found if isinstance(found, tuple) else self._pieces())
        if all(factor.by_row for factor in self.factors):
            self.row = None
        shared = self.row is not None and not all(factor.by_column for factor in self.factors)
        self.sizes = gpu.kind.products if shared else gpu.kind.others

    def _place(self) -> Expr:
        """The column of a lane of a tile's first vector."""
        return index_of(self.column, self.chunk * self.width + self.lane)

    def _known(self) -> sym.Analyzer:
        """An analyzer that knows the ranges of the axes."""
        known = sym.Analyzer()
        for axis in (*self.axes[:-1], *self.reduce):
            known.bind(axis.var, ir.Range(tirx.IntImm(dtype_of(axis.var), 0), axis.extent))
        count = (self.column.static or 0) // self.width
        known.bind(self.chunk, ir.Range(const(0), const(count)))
        known.bind(self.lane, ir.Range(const(0), const(self.lanes)))
        return known

    def refusal(self) -> Declined | None:
        """The reason why loads or stores cannot be vectors, if there is one."""
        if self.unfit is not None:
            return self.unfit
        known = self._known()
        if self.dots and not all(self._in_words(factor.value, known) for factor in self.factors):
            return Declined("four terms of its sums are no word in memory")
        stage = self.stage
        values = {self.column.var: self._place(), **self.units}
        nodes = [stage.body, *([] if stage.epilogue is None else [stage.epilogue])]
        for node in nodes:
            for choice in collect(node, ir.Call):
                if call_name(choice) == "if_then_else" and self.column.var in set(collect(choice.args[0], ir.Var)):
                    return Declined("it has a condition on the place along the last axis")
            for load in () if self.dots and node is stage.body else collect(node, ir.TensorLoad):
                if self._stride(load.source, load.indices, values, self.lane, known) not in (0, 1):
                    return Declined("it reads neighbours along the last axis from places that are not neighbours")
        last = stage.epilogue if stage.epilogue is not None else stage.store
        assert last is not None
        if self._stride(last.buffer, last.indices, values, self.lane, known) != 1:
            return Declined("it stores neighbours along the last axis to places that are not neighbours")
        nested = [inner for load in stage.loads for index in load.indices for inner in collect(index, ir.TensorLoad)]
        if any(self.column.var in set(collect(load, ir.Var)) for load in nested):
            return Declined("it reads at places that are in memory along the last axis")
        return None

    def _stride(
        self, buffer: Buffer, indices: Sequence[Expr], values: dict[ir.Var, Expr], var: ir.Var, known: sym.Analyzer
    ) -> int | None:
        """The change of an offset from one lane to the next. The offset is simplified first, because that the lanes of
        a vector lie in one panel only shows as long as their number is a variable of its own."""
        offset = known.simplify(substitute(offset_of(buffer, indices), values))
        step = known.simplify(substitute(offset, {var: var + 1}) - offset)
        return static(step)

    def _pieces(self) -> list[Expr]:
        """The factors of the summed product, or the only summand."""
        combine = self.stage.combine
        if combine is None:
            return []
        return [combine.source.a, combine.source.b] if isinstance(combine.source, tirx.Mul) else [combine.source]

    def _factors(self, pieces: Sequence[Expr]) -> list[Factor]:
        known = self._known()
        return [self._factor(substitute(piece, self.units), known) for piece in pieces]

    def _factor(self, value: Expr, known: sym.Analyzer) -> Factor:
        used = set(collect(value, ir.Var))
        by_row = self.row is not None and self.row.var in used
        by_column = self.column.var in used
        along = self.dots or (not by_column and self._contiguous(value, known))
        return Factor(value, by_row, by_column, along)

    def _contiguous(self, value: Expr, known: sym.Analyzer) -> bool:
        """Whether four elements along the innermost reduced axis are one vector."""
        inner = self.reduce[-1] if self.reduce else None
        if inner is None or inner.static is None or inner.static % self.lanes:
            return False
        for choice in collect(value, ir.Call):
            if call_name(choice) == "if_then_else" and inner.var in set(collect(choice.args[0], ir.Var)):
                return False
        block, lane = ir.Var("block", "int64"), ir.Var("step", "int64")
        known.bind(block, ir.Range(const(0), const(inner.static // self.lanes)))
        known.bind(lane, ir.Range(const(0), const(self.lanes)))
        values = {inner.var: index_of(inner, block * self.lanes + lane)}
        strides = [self._stride(ld.source, ld.indices, values, lane, known) for ld in collect(value, ir.TensorLoad)]
        return bool(strides) and all(stride in (0, 1) for stride in strides) and 1 in strides

    def _in_words(self, value: Expr, known: sym.Analyzer) -> bool:
        """Whether each four elements along the innermost reduced axis are one vector, at a multiple of four."""
        if not self._contiguous(value, known):
            return False
        inner, block = self.reduce[-1], ir.Var("block", "int64")
        first = {inner.var: index_of(inner, block * self.lanes)}
        (load,) = collect(value, ir.TensorLoad)
        place = known.modular_set(substitute(offset_of(load.source, load.indices), first))
        return int(place.coeff) % self.lanes == 0 and int(place.base) % self.lanes == 0

    # Emission

    def ways(self) -> list[Way]:
        """The parallel loop over outer axes, blocks of rows and chunks of columns. If there are few tiles with long
        sums, each tile has a team, whose invocations divide the sums among them."""
        outer = [axis for axis in self.axes[:-1] if self.row is None or axis is not self.row]
        rows = 1 if self.row is None else self._rows()
        extents = self._extents(outer, rows)
        count = extents[-1]
        for extent in reversed(extents[:-1]):
            count = count * extent
        known = sym.Analyzer()
        for var in dict.fromkeys(collect(count, ir.Var)):
            known.bind(var, ir.Range(tirx.IntImm(dtype_of(var), 1), tirx.IntImm(dtype_of(var), 1 << 30)))
        total: Expr = known.simplify(count)
        few = total < self.kind.few_tiles
        if not self._long() or known.can_prove(total >= self.kind.few_tiles):
            return [Way(self._loop(outer, rows, total))]
        shared = _Tiles(self.stage, self.views, self.gpu, self.width, team=True)
        if known.can_prove(few):
            return [Way(shared._loop(outer, rows, total), team=True)]
        return [
            Way(self._loop(outer, rows, tirx.Select(few, const(0), total))),
            Way(shared._loop(outer, rows, tirx.Select(few, total, const(0))), team=True),
        ]

    def _long(self) -> bool:
        """Whether the sums are long enough for a team."""
        combine = self.stage.combine
        if combine is None or combine.operator is not tirx.Add or len(self.reduce) != 1:
            return False
        return self.reduce[0].static is None or self.reduce[0].static >= self.kind.long_sum

    def _extents(self, outer: Sequence[Axis], rows: int) -> list[Expr]:
        """The extents of the outer axes, then the number of blocks of rows and of chunks of columns."""
        blocks = const(1) if self.row is None else tirx.floordiv(as_index(self.row.extent) + (rows - 1), const(rows))
        return [*(as_index(axis.extent) for axis in outer), blocks, const((self.column.static or 0) // self.width)]

    def _loop(self, outer: Sequence[Axis], rows: int, total: Expr) -> tirx.Stmt:
        extents = self._extents(outer, rows)

        def at(index: Expr) -> tirx.Stmt:
            code = Code()
            *places, block, chunk = unravel(index, extents)
            values: dict[ir.Var, Expr] = {}
            for axis, place in zip(outer, places, strict=True):
                values[axis.var] = index_of(axis, code.let(axis.var.name.removeprefix("v_"), place))
            chosen = code.let("chunk", chunk)
            if self.row is None:
                code.add(Tile(self, 1, None, chosen, values).statement())
            else:
                start = code.let("first", block * rows)
                code.add(self._by_rows(rows, start, chosen, values))
            return code.statement()

        return loop("task", total, at, tirx.ForKind.PARALLEL)

    def _rows(self) -> int:
        assert self.row is not None
        count = self.row.static
        best, *_ = choices = self.sizes.rows
        if count is None:
            return best
        evenly = -(-count // -(-count // best))
        return next((rows for rows in choices if count % rows == 0), evenly)

    def _by_rows(self, rows: int, first: Expr, chunk: Expr, values: dict[ir.Var, Expr]) -> tirx.Stmt:
        """A whole tile, or the remaining rows: as a smaller tile if their number is known, else one after the other."""
        assert self.row is not None
        extent = as_index(self.row.extent)
        whole = Tile(self, rows, first, chunk, values).statement()
        count = static(extent)
        if count is None:
            rest = loop("rest", extent - first, lambda index: Tile(self, 1, first + index, chunk, values).statement())
        elif count % rows == 0:
            return whole
        else:
            rest = Tile(self, count % rows, first, chunk, values).statement()
        return tirx.IfThenElse(first + rows <= extent, whole, rest)

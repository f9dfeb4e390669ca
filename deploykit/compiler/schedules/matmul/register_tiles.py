"""Matrix products by register tiles.

The rule takes the `matmul` anchor, with its right operand in one of two forms:

* packed: `left[..., m, k] * right[..., n // w, k, n % w]`, where `w` is the width of a panel (the annotation
  `deploykit.panel`), and the last panel is padded with zeros;
* not packed, or of float16 that a device has no instruction to widen. Each unit of work packs the panels that it uses,
  one chunk of the depth at a time. Where columns are contiguous, up to `FEW` rows read whole panels in place.

A batch dim becomes rows if the left operand and the result traverse it like rows and the right operand does not depend
on it.

A unit of work is some rows by some panels. For each chunk of the depth (`blocking`), the rows are cut into register
tiles of a few heights (`tile_heights`), so no operand is padded. If rows are copied, each tile runs over all packed
panels of the unit; else each panel is used for all tiles. Between chunks the sums are in the result. With the last
chunk they are complete, and the epilogue is applied.

The depth may end at a place that depends on the row (`ends`). Then the steps of a tile are those of its rows, which are
always copied, and a unit of work packs only what its rows need. Or the columns may end so.

It declines other products, which are ordinary reductions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from tvm import ir, tirx

from deploykit.compiler.decisions import Declined
from deploykit.compiler.devices.cpu import Device
from deploykit.compiler.schedules.kernel.access import (
    Access,
    Fused,
    Views,
    analyse,
    fuse,
    offset_of,
    pinned,
    static_stride,
    values_of,
)
from deploykit.compiler.schedules.kernel.finish import finish_of
from deploykit.compiler.schedules.kernel.kinds import another_kind
from deploykit.compiler.schedules.kernel.loops import Code, local, loop, main_and_tail, unravel
from deploykit.compiler.schedules.kernel.stages import Axis, Stage
from deploykit.compiler.schedules.matmul.blocking import Blocking, blocking_for, ceil_div, packing, part
from deploykit.compiler.schedules.matmul.ends import Ends, ends_of, parts_of
from deploykit.compiler.schedules.matmul.parts import Product, Strip, Unit
from deploykit.compiler.schedules.matmul.rows import steps_by_rows
from deploykit.compiler.schedules.matmul.tile import (
    Tile,
    cleared,
    gather,
    panel_width,
    part_sums,
    products,
    step,
    step_of_some,
    steps,
    tile_for,
    together,
    zero,
)
from deploykit.compiler.schedules.matmul.tile_heights import heights_for, sizes_of
from deploykit.compiler.schedules.matmul.tile_stores import Place, Results
from deploykit.compiler.tir.prefetches import LINE, prefetch
from deploykit.compiler.tir.rewriting import Buffer, Expr, collect, is_zero, replace_loads, sequence, substitute
from deploykit.compiler.tir.values import as_index, bits_of, const, dtype_of, static

PANEL = "deploykit.panel"
"""Annotation of a product with a packed right operand: the width of its panels."""

FEW = 4
"""The most rows for which packing a panel does not pay."""

AHEAD = 32
"""How many steps of the depth ahead of their use panels are prefetched."""


def matmul(stage: Stage, views: Views, device: Device) -> list[tirx.Stmt] | Declined:
    """Statements that compute `stage`, or the reason why it is not a product that is computed in tiles."""
    other = another_kind(stage, "matmul")
    if other is not None:
        return other
    combine = stage.combine
    if combine is None:
        return Declined("its sum is not one of products")
    source, ends = parts_of(combine.source, stage.axes[:-1], stage.reduce[0].var)
    if not isinstance(source, tirx.Mul):
        return Declined("its sum is not one of products")
    last = None if stage.guard is None else ends_of(stage.guard, stage.axes[:-1], stage.axes[-1].var)
    if stage.guard is not None and (last is None or ends is not None):
        return Declined("it stores under a condition")
    finish = finish_of(stage, views)
    axes = (*stage.axes, *stage.reduce)
    found = analyse([finish.plain, source], axes)
    left, right = (analyse([side], axes)[-1] for side in (source.a, source.b))
    packed = PANEL in stage.annotations
    if not packed and not _by_columns(stage, left, right):
        return Declined("its columns are not those of one operand")
    if not packed and device.lanes(8) == 1:
        return Declined("the device has no vectors to pack it for")
    fixed = pinned([finish.plain.value, combine.source, *([] if stage.guard is None else [stage.guard])], axes)
    fused = fuse(axes, found, fixed, range(len(stage.axes) - 1))
    values = values_of(fused, stage.axes[:-1])
    rows = _rows(fused, right, ends or last, values)
    if rows is None:
        return Declined("the right operand depends on the row, too")
    turned = not packed and static_stride(right.strides[len(stage.axes) - 1]) != 1
    if turned and rows.static is not None and rows.static <= FEW:
        return Declined("its columns are not next to each other, and its rows are few")
    dtype, columns, depth = dtype_of(combine.source), stage.axes[-1], stage.reduce[0]
    width = int(stage.annotations[PANEL]) if packed else panel_width(device, dtype, columns.extent)
    tile = tile_for(device, dtype, max(1, width // device.lanes(bits_of(dtype))))
    ends_of_rows = None if last is None else last.over(rows.var, values)
    results = Results(finish, values, rows, columns, width, ends_of_rows, device.row_functions)
    resumable = results.dtype == dtype and last is None
    blocking = None
    if not packed or (dtype_of(right.buffer) == "float16" and not device.halves):
        blocking = packing(device, tile, depth.extent, resumable=resumable, copies=bool(ends or last))
    if packed and blocking is None:
        blocking = blocking_for(device, tile, depth.extent, columns.extent, resumable=resumable)
    if blocking is None:
        return Declined("its sums cannot wait in its result, and are too deep to pack at once")
    starts: dict[ir.Var, ir.TensorLoad] = {}
    product = Product(
        tuple(group.axis for group in fused),
        rows,
        columns,
        depth,
        substitute(_looked_up(views.value(source.a), starts), values),
        substitute(source.b if packed else _looked_up(views.value(source.b), starts), values),
        right.buffer if packed else None,
        width,
        None if ends is None else ends.over(rows.var, values),
        turned,
        static_stride(left.strides[len(stage.axes)]) == 1,
        {var: substitute(load, values) for var, load in starts.items()},
    )
    return [_Emitter(product, results, tile, blocking, views, device).units()]


def _by_columns(stage: Stage, left: Access, right: Access) -> bool:
    """Whether the last axis has columns of the right operand alone."""
    last = len(stage.axes) - 1
    if last < 0 or stage.axes[-1].static == 1 or len(stage.reduce) != 1:
        return False
    return not is_zero(right.strides[last]) and static_stride(left.strides[last]) == 0


def _looked_up(operand: Expr, starts: dict[ir.Var, ir.TensorLoad]) -> Expr:
    """An operand with variables for the numbers that its indices look up. `starts` gets the look-ups."""
    element = collect(operand, ir.TensorLoad)[-1]
    tables = {load.source for index in element.indices for load in collect(index, ir.TensorLoad)}

    def named(load: ir.TensorLoad) -> Expr:
        if load.source not in tables:
            return load
        var = ir.Var("start", dtype_of(load))
        starts[var] = load
        return var

    return replace_loads(operand, named) if tables else operand


def _rows(fused: list[Fused], right: Access, ends: Ends | None, values: Mapping[ir.Var, Expr]) -> Axis | None:
    """Take the rows from the loops: those of the ends, or the innermost loop if the right operand does not depend on
    it, or one row. `None` if the right operand depends on the rows of the ends."""
    place = len(fused) - 1
    if ends is not None:
        place = next((i for i, group in enumerate(fused) if group.axis.var in collect(values[ends.row], ir.Var)), place)
    if fused and is_zero(right.strides[fused[place].inner]):
        return fused.pop(place).axis
    return Axis(ir.Var("row", "int64"), const(1)) if ends is None else None


class _Emitter:
    """Emits the loops of one product."""

    def __init__(
        self, product: Product, results: Results, tile: Tile, blocking: Blocking, views: Views, device: Device
    ) -> None:
        self.product, self.results, self.tile, self.blocking, self.views = product, results, tile, blocking, views
        self.device = device
        self.kind = tirx.ForKind.PARALLEL if device.parallel else tirx.ForKind.SERIAL
        steps = static(blocking.depth) or 0
        self.copied = local("copied", tile.rows * blocking.pitch, tile.dtype) if blocking.pitch else None
        size = blocking.panels * steps * tile.columns
        self.packed = local("packed", size, tile.dtype) if blocking.packs else None
        self.heights = heights_for(tile)
        self.spilled = local("spilled", tile.rows * tile.columns, tile.dtype)
        self.count = ceil_div(as_index(product.columns.extent), const(product.width))
        self.blocks, self.stretches = blocking.units(as_index(product.rows.extent), self.count, bool(product.batch))

    def units(self) -> tirx.Stmt:
        """All units of work. Units of the same panels are consecutive."""
        product = self.product
        rows = as_index(product.rows.extent)
        extents = [*(as_index(axis.extent) for axis in product.batch), self.stretches, self.blocks]

        def unit(index: Expr) -> tirx.Stmt:
            code = Code()
            counts = [code.let("count", extent) for extent in extents]
            *lead, stretch, block = (code.let("place", place) for place in unravel(index, counts))
            batch = {axis.var: value for axis, value in zip(product.batch, lead, strict=True)}
            batch |= {var: code.let("start", substitute(load, batch)) for var, load in product.starts.items()}
            row, height = part(code, "row", rows, counts[-1], block)
            panel, width = part(code, "panel", self.count, counts[-2], stretch)
            self.unit(code, Unit(batch, row, height, panel, width))
            return code.statement()

        total = extents[0]
        for extent in extents[1:]:
            total = total * extent
        return loop("task", total, unit, self.kind)

    def unit(self, code: Code, unit: Unit) -> None:
        buffers = (self.copied, self.packed, self.spilled)
        code.add(*(tirx.AllocBuffer(buffer) for buffer in buffers if buffer is not None))
        if self.product.ends is not None and self.copied is not None:
            code.add(cleared(self.copied, self.tile.lanes))
        counts = self.heights.counts(code, unit.rows, sizes_of(self.product.rows.extent, self.blocks))
        blocking, ends, last = self.blocking, self.product.ends, unit.row + unit.rows - 1
        if self.results.ends is not None:
            unit = replace(
                unit, panels=code.let("panels", self.results.needed(unit.panel, unit.panels, unit.row, last))
            )
        if ends is not None:
            end = code.let("end", ends.between(unit.row, last)[1])
            blocking = blocking.until(end)

        def panels(chunk: Expr) -> tirx.Stmt:
            inner = Code()
            first = inner.let("first", chunk * blocking.depth)
            steps = inner.let("steps", blocking.length(chunk))
            complete = chunk == blocking.chunks - 1
            strip = Strip(
                self.tile, unit.batch, unit.row, last, unit.rows, chunk, first, steps, steps, complete, const(0), False
            )
            if self.packed is not None:
                groups = ceil_div(unit.panels, const(self.blocking.panels))
                inner.add(loop("group", groups, lambda g: self.group(strip, unit, counts, g)))
            elif self.copied is not None:
                inner.add(self.strips(strip, counts, unit.panel, unit.panels))
            else:
                one = const(1)
                inner.add(loop("panel", unit.panels, lambda p: self.strips(strip, counts, unit.panel + p, one)))
            return inner.statement()

        code.add(loop("chunk", blocking.chunks, panels))

    def group(self, strip: Strip, unit: Unit, counts: Sequence[tuple[int, Expr]], index: Expr) -> tirx.Stmt:
        """All tiles by some panels, for a chunk of the depth. The panels are packed first if it is worth it."""
        code = Code()
        taken = index * self.blocking.panels
        base = code.let("base", unit.panel + taken)
        count = code.let("panels", tirx.min(const(self.blocking.panels), unit.panels - taken))
        strip = replace(strip, base=base)
        pack = loop("panel", count, lambda p: self.packs(strip, base + p))
        through = sequence([pack, self.strips(strip, counts, base, count)])
        low = set().union(*(self.heights.cut(rows) for rows in range(1, FEW + 1)))
        few = [(height, number) for height, number in counts if height in low]
        if not few or self.product.turned or self.product.ends is not None or self.results.ends is not None:
            code.add(through)
            return code.statement()
        direct = self.strips(replace(strip, direct=True), few, base, count)
        columns = as_index(self.product.columns.extent)
        in_place = tirx.all(unit.rows <= FEW, (base + count) * self.product.width <= columns)
        code.add(tirx.IfThenElse(in_place, direct, through))
        return code.statement()

    def packs(self, strip: Strip, panel: Expr) -> tirx.Stmt:
        """Copy a chunk of a panel, with zeros for columns that do not exist."""
        assert self.packed is not None
        target: Buffer = self.packed
        width, lanes = self.product.width, strip.tile.lanes

        def move(k: Expr, column: Expr) -> tirx.Stmt:
            at = self.packed_at(strip, panel, k, column)
            return tirx.BufferStore(target, self.right(strip, panel, k, column), [at])

        def clear(k: Expr, column: Expr) -> tirx.Stmt:
            at = self.packed_at(strip, panel, k, column)
            return tirx.BufferStore(target, tirx.const(0, strip.tile.dtype), [at])

        def row(columns: Expr, body: Callable[[Expr, Expr], tirx.Stmt]) -> Callable[[Expr], tirx.Stmt]:
            return lambda k: sequence(main_and_tail("j", columns, lanes, partial(body, k)))

        valid = self.results.valid(panel)
        whole = loop("k", strip.steps, row(const(width), move))
        rest = loop("k", strip.steps, lambda k: sequence([row(const(width), clear)(k), row(valid, move)(k)]))
        if self.product.turned:

            def column(j: Expr) -> tirx.Stmt:
                return loop("k", strip.steps, lambda k: move(k, j))

            whole = loop("j", const(width), column)
            rest = sequence([loop("k", strip.steps, row(const(width), clear)), loop("j", valid, column)])
        return self.results.full(panel, whole, rest)

    def strips(self, strip: Strip, counts: Sequence[tuple[int, Expr]], panel: Expr, panels: Expr) -> tirx.Stmt:
        """The tiles of all rows of the unit by some panels, for one chunk of the depth."""
        code = Code()
        row = strip.row
        for height, count in counts:
            high = replace(strip, tile=replace(self.tile, rows=height), row=row)
            code.add(loop("t", count, partial(self.strip, high, panel, panels)))
            row = code.let("row", row + count * height)
        return code.statement()

    def strip(self, strip: Strip, panel: Expr, panels: Expr, index: Expr) -> tirx.Stmt:
        strip = replace(strip, row=strip.row + index * strip.tile.rows)
        if self.product.ends is not None:
            return self.ending(strip, panel, panels)
        if self.results.ends is None:
            return self.passing(strip, panel, panels)
        code = Code()
        first, last = self.row(strip, const(0)), self.row(strip, const(strip.tile.rows - 1))
        needed = code.let("needed", self.results.needed(panel, panels, first, last))
        code.add(tirx.IfThenElse(needed > 0, self.passing(strip, panel, needed), None))
        return code.statement()

    def ending(self, strip: Strip, panel: Expr, panels: Expr) -> tirx.Stmt:
        """The blocks of a tile's rows, with the steps that the rows have, if they have any in this chunk."""
        ends, code = self.product.ends, Code()
        assert ends is not None
        least, most = ends.between(self.row(strip, const(0)), self.row(strip, const(strip.tile.rows - 1)))
        most = code.let("most", most - strip.first)
        steps = code.let("steps", tirx.max(const(0), tirx.min(strip.steps, most)))
        whole = code.let("whole", tirx.max(const(0), tirx.min(steps, least - strip.first)))
        strip = replace(strip, steps=steps, whole=whole, complete=most <= self.blocking.depth)
        code.add(tirx.IfThenElse(tirx.any(strip.chunk == 0, most > 0), self.passing(strip, panel, panels), None))
        return code.statement()

    def passing(self, strip: Strip, panel: Expr, panels: Expr) -> tirx.Stmt:
        """The blocks of a tile's rows, after a copy of the rows."""
        passing = loop("panel", panels, lambda p: self.block(strip, panel + p))
        if self.copied is None or not self.copies(strip):
            return passing
        lanes, target, pitch = strip.tile.lanes, self.copied, self.blocking.pitch

        def move(i: Expr, k: Expr) -> tirx.Stmt:
            return tirx.BufferStore(target, self.left(strip, i, k), [i * pitch + k])

        def row(i: Expr) -> tirx.Stmt:
            code, ends = Code(), self.product.ends
            if ends is None:
                return sequence(main_and_tail("k", strip.steps, lanes, partial(move, i)))
            end = ends.at(self.row(strip, i)) - strip.first
            own = code.let("own", tirx.max(const(0), tirx.min(strip.steps, end)))
            code.add(*main_and_tail("k", own, lanes, partial(move, i)))
            return code.statement()

        return sequence([loop("i", strip.tile.rows, row), passing])

    def block(self, strip: Strip, panel: Expr) -> tirx.Stmt:
        """One register tile: a chunk of the depth, then the epilogue after the last chunk."""
        tile, results = strip.tile, self.results
        parts = tile if self.device.exact else part_sums(tile)
        sums = parts.scratch()
        place = Place(strip.batch, partial(self.row, strip), panel)
        steps = [tirx.AllocBuffer(sums), *results.ahead(place, tile), zero(parts, sums)]
        body = self.sums(strip, panel, parts, sums)
        done = results.finished(place, tile, sums, self.spilled)
        if static(self.blocking.chunks) == 1:
            return sequence([*steps, body, done])
        resumed = tirx.IfThenElse(strip.chunk > 0, results.resumed(place, tile, sums, self.spilled), None)
        paused = results.paused(place, tile, sums, self.spilled)
        done = tirx.IfThenElse(strip.complete, done, paused)
        return sequence([*steps, resumed, body, done])

    def sums(self, strip: Strip, panel: Expr, parts: Tile, sums: Buffer) -> tirx.Stmt:
        """Add the products of a chunk of the depth to the sums of a tile. For a single row, `parts` holds several sums,
        one for each stretch of the depth; the stretches are processed side by side, because a panel comes from memory
        faster in several streams than in one."""
        tile = strip.tile
        left, right = self.operands(strip, panel)

        def single(k: Expr) -> tirx.Stmt:
            outer = step(tile, sums, lambda i: left(i, k), partial(right, k))
            return sequence([*self.ahead(strip, panel, k), outer])

        def one() -> tirx.Stmt:
            number = together(self.device, tile) if self.copies(strip) or self.product.contiguous else 1
            whole = steps_by_rows(self.device, tile, sums, left, right, strip.whole)
            whole = whole or steps(tile, sums, strip.whole, left, right, number, partial(self.ahead, strip, panel))
            return sequence([whole, *self.rest(strip, sums, left, right)])

        def split(streams: int, together: Callable[[Callable[[Expr], Expr]], tirx.Stmt]) -> tirx.Stmt:
            whole = tirx.truncdiv(strip.steps, const(streams))
            rest = loop("k", strip.steps - whole * streams, lambda k: single(whole * streams + k))
            return sequence([loop("k", whole, lambda k: together(lambda part: part * whole + k)), rest])

        def several(at: Callable[[Expr], Expr]) -> tirx.Stmt:
            asked = [prefetch for part in range(parts.rows) for prefetch in self.ahead(strip, panel, at(const(part)))]
            added = products(parts, sums, lambda i, column: left(const(0), at(i)) * right(at(i), column))
            return sequence([*asked, added])

        if parts is not tile:
            return sequence([split(parts.rows, several), gather(tile, sums, parts.rows)])
        streams = self.streams(tile)
        if streams == 1:
            return one()
        spread = split(streams, lambda at: sequence([single(at(const(part))) for part in range(streams)]))
        return tirx.IfThenElse(strip.rows <= tile.rows, spread, one())

    def operands(self, strip: Strip, panel: Expr) -> tuple[Callable[[Expr, Expr], Expr], Callable[[Expr, Expr], Expr]]:
        """The elements that a tile multiplies: `left(row, step)` and `right(step, column)`."""

        def left(i: Expr, k: Expr) -> Expr:
            if self.copied is None or not self.copies(strip):
                return self.left(strip, i, k)
            return tirx.BufferLoad(self.copied, [i * self.blocking.pitch + k])

        def right(k: Expr, column: Expr) -> Expr:
            if self.packed is None or strip.direct:
                return self.right(strip, panel, k, column)
            return tirx.BufferLoad(self.packed, [self.packed_at(strip, panel, k, column)])

        return left, right

    def copies(self, strip: Strip) -> bool:
        """Whether a tile reads a copy of its rows."""
        return self.copied is not None and not strip.direct

    def rest(
        self,
        strip: Strip,
        sums: Buffer,
        left: Callable[[Expr, Expr], Expr],
        right: Callable[[Expr, Expr], Expr],
    ) -> list[tirx.Stmt]:
        """The steps that only some rows have."""
        ends = self.product.ends
        if ends is None:
            return []

        def single(k: Expr) -> tirx.Stmt:
            at = strip.whole + k

            def taken(i: Expr) -> Expr:
                return strip.first + at < ends.at(self.row(strip, i))

            return step_of_some(strip.tile, sums, lambda i: left(i, at), partial(right, at), taken)

        return [loop("k", strip.steps - strip.whole, single)]

    def streams(self, tile: Tile) -> int:
        """The number of streams in which a tile of several rows reads its panel. There are several if these are the
        only rows, the operand comes from memory, and no instruction can prefetch it."""
        depth, columns = static(self.product.depth.extent), static(self.product.columns.extent)
        if self.product.panels is None or depth is None or columns is None:
            return 1
        large = depth * columns * bits_of(tile.dtype) // 8 > self.device.l2_bytes
        few = tile.rows == min((height for height in self.heights.menu if height > 1), default=1)
        return self.device.streams if large and few and not self.device.exact else 1

    def ahead(self, strip: Strip, panel: Expr, k: Expr) -> list[tirx.Stmt]:
        """Prefetch the cache lines of the right operand that are read some steps later."""
        tile = strip.tile
        if tile.lanes == 1:
            return []
        columns = [const(column) for column in range(0, tile.columns, LINE * 8 // bits_of(tile.dtype))]
        if self.packed is not None and not strip.direct:
            places = [self.packed_at(strip, panel, k + AHEAD, column) for column in columns]
            return [prefetch(tirx.BufferLoad(self.packed, [place])) for place in places]
        elements = [self.right(strip, panel, k + AHEAD, column) for column in columns]
        return [prefetch(collect(element, ir.TensorLoad)[0]) for element in elements]

    def row(self, strip: Strip, row: Expr) -> Expr:
        """A row of the tile. For rows beyond the unit of work, it is the unit's last row."""
        at = strip.row + row
        return tirx.min(at, strip.last) if strip.tile.rows in self.heights.beyond else at

    def left(self, strip: Strip, row: Expr, step: Expr) -> Expr:
        at = {self.product.rows.var: self.row(strip, row), self.product.depth.var: strip.first + step}
        return substitute(self.product.left, {**strip.batch, **at})

    def packed_at(self, strip: Strip, panel: Expr, step: Expr, column: Expr) -> Expr:
        return ((panel - strip.base) * self.blocking.depth + step) * self.product.width + column

    def right(self, strip: Strip, panel: Expr, step: Expr, column: Expr) -> Expr:
        product = self.product
        depth = strip.first + step
        if product.panels is None:
            at = {product.depth.var: depth, product.columns.var: panel * product.width + column}
            return substitute(product.right, {**strip.batch, **at})
        flat = self.views.flat(product.panels)

        def of_panel(load: ir.TensorLoad) -> Expr:
            if not load.source.same_as(product.panels):
                return load
            return tirx.BufferLoad(flat, [offset_of(load.source, [*load.indices[:-3], panel, depth, column])])

        return replace_loads(substitute(product.right, strip.batch), of_panel)

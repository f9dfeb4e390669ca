"""Matrix products over panels of the right operand.

Takes the `matmul` anchor whose right operand is packed: `left[..., m, k] * right[..., n // w, k, n % w]`, where `w` is
the width of a panel (the annotation `deploykit.panel`), the last panel filled up with zeros. Batch dims that the left
operand and the result run through like rows, and the right operand not at all, become rows.

A unit of work is some rows by some panels. For each chunk of the depth (`blocking`), the rows are cut into register
tiles of equal height, but for one row, so no operand is padded. Where rows are copied, the panels of the unit pass by
one tile after the other, else the tiles by one panel after the other. Between chunks the sums lie in the result; with
the last chunk they are complete, and the epilogue is applied.

Declines products whose right operand is not packed: they are ordinary reductions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tvm import ir, tirx

from deploykit.compiler.schedules.access import Views, analyse, fuse, offset_of, pinned, values_of
from deploykit.compiler.schedules.blocking import blocking_for, ceil_div, heights_of, part
from deploykit.compiler.schedules.device import Device
from deploykit.compiler.schedules.finish import finish_of
from deploykit.compiler.schedules.inline import ANCHOR
from deploykit.compiler.schedules.loops import (
    Code,
    as_index,
    bits_of,
    const,
    dtype_of,
    local,
    loop,
    main_and_tail,
    static,
    unravel,
)
from deploykit.compiler.schedules.nest import (
    Axis,
    Buffer,
    Expr,
    Stage,
    collect,
    is_zero,
    replace_loads,
    sequence,
    substitute,
)
from deploykit.compiler.schedules.results import Place, Results
from deploykit.compiler.schedules.tile import Tile, prefetch, step, tile_for, zero

PANEL = "deploykit.panel"
"""Annotation of a product with a packed right operand: the width of its panels."""

AHEAD = 32
"""Steps of the depth by which panels are asked for before they are used."""


@dataclass(frozen=True)
class _Product:
    """One product: loops over `batch`, then `rows` x `columns` results, each a sum over `depth` of `left` times an
    element of `panels`, in `right`."""

    batch: tuple[Axis, ...]
    rows: Axis
    columns: Axis
    depth: Axis
    left: Expr
    right: Expr
    panels: Buffer
    width: int


@dataclass(frozen=True)
class _Unit:
    """A unit of work: values of the batch loops, its first row and panel and how many there are."""

    batch: dict[ir.Var, Expr]
    row: Expr
    rows: Expr
    panel: Expr
    panels: Expr


@dataclass(frozen=True)
class _Strip:
    """A tile's rows for a chunk of the depth: values of the batch loops, the first row, the chunk, its first step and
    how many there are."""

    tile: Tile
    batch: dict[ir.Var, Expr]
    row: Expr
    chunk: Expr
    first: Expr
    steps: Expr


def matmul(stage: Stage, views: Views, device: Device) -> list[Any] | str:
    """Statements that compute `stage`, or why it is not a packed product."""
    if stage.annotations.get(ANCHOR) != "matmul" or PANEL not in stage.annotations:
        return "no product with packed panels"
    combine = stage.combine
    if combine is None or not isinstance(combine.source, tirx.Mul):
        return "its sum is not one of products"
    finish = finish_of(stage, views)
    axes = (*stage.axes, *stage.reduce)
    found = analyse([finish.plain, combine.source], axes)
    fused = fuse(axes, found, pinned([finish.plain.value, combine.source], axes), range(len(stage.axes) - 1))
    values = values_of(fused, stage.axes[:-1])
    panels = analyse([combine.source.b], axes)[0]
    like_rows = bool(fused) and is_zero(panels.strides[fused[-1].inner])
    rows = fused.pop().axis if like_rows else Axis(ir.Var("row", "int64"), const(1))
    columns, width = stage.axes[-1], int(stage.annotations[PANEL])
    product = _Product(
        tuple(group.axis for group in fused),
        rows,
        columns,
        stage.reduce[0],
        substitute(views.value(combine.source.a), values),
        substitute(combine.source.b, values),
        panels.buffer,
        width,
    )
    return [_Emitter(product, Results(finish, values, rows, columns, width), views, device).units()]


class _Emitter:
    """Emits the loops of one product."""

    def __init__(self, product: _Product, results: Results, views: Views, device: Device) -> None:
        dtype = dtype_of(product.left)
        self.product, self.results = product, results
        self.device = device
        self.panels = views.flat(product.panels)
        self.tile = tile_for(device, dtype, product.width // device.lanes(bits_of(dtype)))
        depth, columns = product.depth.extent, product.columns.extent
        self.blocking = blocking_for(device, self.tile, depth, columns, resumable=results.dtype == dtype)
        self.copied = local("copied", self.tile.rows * self.blocking.pitch, dtype) if self.blocking.pitch else None
        self.spilled = local("spilled", self.tile.rows * self.tile.columns, dtype)
        rows, width = as_index(product.rows.extent), const(product.width)
        self.count = ceil_div(as_index(columns), width)
        self.blocks, self.stretches = self.blocking.units(rows, self.count, bool(product.batch))

    def units(self) -> Any:
        """All units of work; those of the same panels follow each other."""
        product = self.product
        rows = as_index(product.rows.extent)
        extents = [*(as_index(axis.extent) for axis in product.batch), self.stretches, self.blocks]

        def unit(index: Expr) -> Any:
            code = Code()
            counts = [code.let("count", extent) for extent in extents]
            *lead, stretch, block = (code.let("place", place) for place in unravel(index, counts))
            batch = {axis.var: value for axis, value in zip(product.batch, lead, strict=True)}
            row, height = part(code, "row", rows, counts[-1], block)
            panel, width = part(code, "panel", self.count, counts[-2], stretch)
            self.unit(code, _Unit(batch, row, height, panel, width))
            return code.statement()

        total = extents[0]
        for extent in extents[1:]:
            total = total * extent
        return loop("task", total, unit, tirx.ForKind.PARALLEL if self.device.parallel else tirx.ForKind.SERIAL)

    def unit(self, code: Code, unit: _Unit) -> None:
        code.add(*(tirx.AllocBuffer(buffer) for buffer in (self.copied, self.spilled) if buffer is not None))
        tiles = code.let("tiles", ceil_div(unit.rows, const(self.tile.rows)))
        low = code.let("low", tirx.truncdiv(unit.rows, tirx.max(tiles, const(1))))
        higher = code.let("higher", unit.rows - low * tiles)
        counts: list[tuple[int, Expr]] = []
        for height in heights_of(self.tile.rows, self.product.rows.extent, self.blocks):
            lower = tirx.Select(low == height, tiles - higher, const(0))
            counts.append((height, code.let("tiles", tirx.Select(low + 1 == height, higher, lower))))

        def chunk(index: Expr) -> Any:
            if self.copied is not None:
                return self.strips(unit, counts, index, unit.panel, unit.panels)
            one = const(1)
            return loop("panel", unit.panels, lambda p: self.strips(unit, counts, index, unit.panel + p, one))

        code.add(loop("chunk", self.blocking.chunks, chunk))

    def strips(self, unit: _Unit, counts: list[tuple[int, Expr]], chunk: Expr, panel: Expr, panels: Expr) -> Any:
        """Tiles of all rows of the unit by some panels, for one chunk of the depth."""
        code = Code()
        first = code.let("first", chunk * self.blocking.depth)
        steps = code.let("steps", self.blocking.length(chunk))
        row = unit.row
        for height, count in counts:
            strip = _Strip(replace(self.tile, rows=height), unit.batch, row, chunk, first, steps)
            code.add(loop("t", count, partial(self.strip, strip, panel, panels)))
            row = code.let("row", row + count * height)
        return code.statement()

    def strip(self, strip: _Strip, panel: Expr, panels: Expr, index: Expr) -> Any:
        strip = replace(strip, row=strip.row + index * strip.tile.rows)
        passing = loop("panel", panels, lambda p: self.block(strip, panel + p))
        if self.copied is None:
            return passing
        lanes, target, pitch = strip.tile.lanes, self.copied, self.blocking.pitch

        def move(i: Expr, k: Expr) -> Any:
            return tirx.BufferStore(target, self.left(strip, i, k), [i * pitch + k])

        rows = loop("i", strip.tile.rows, lambda i: sequence(main_and_tail("k", strip.steps, lanes, partial(move, i))))
        return sequence([rows, passing])

    def block(self, strip: _Strip, panel: Expr) -> Any:
        """One register tile: a chunk of the depth, then the epilogue."""
        tile, results = strip.tile, self.results
        sums = tile.scratch()
        place = Place(strip.batch, strip.row, panel)
        right = substitute(self.product.right, strip.batch)

        def accumulate(k: Expr) -> Any:
            def left(i: Expr) -> Expr:
                if self.copied is None:
                    return self.left(strip, i, k)
                return tirx.BufferLoad(self.copied, [i * self.blocking.pitch + k])

            def element(column: Expr) -> Expr:
                return replace_loads(right, lambda load: self.panel_load(load, panel, strip.first + k, column))

            soon = [prefetch(self.soon(right, panel, strip.first + k, v * tile.lanes)) for v in range(tile.vectors)]
            return sequence([*(soon if tile.lanes > 1 else []), step(tile, sums, left, element)])

        body = loop("k", strip.steps, accumulate)
        steps = [tirx.AllocBuffer(sums), *results.ahead(place, tile)]
        done = results.finished(place, tile, sums, self.spilled)
        if static(self.blocking.chunks) == 1:
            return sequence([*steps, zero(tile, sums), body, done])
        resumed = results.resumed(place, tile, sums, self.spilled)
        resumed = tirx.IfThenElse(strip.chunk == 0, zero(tile, sums), resumed)
        paused = results.paused(place, tile, sums, self.spilled)
        done = tirx.IfThenElse(strip.chunk == self.blocking.chunks - 1, done, paused)
        return sequence([*steps, resumed, body, done])

    def left(self, strip: _Strip, row: Expr, step: Expr) -> Expr:
        at = {self.product.rows.var: strip.row + row, self.product.depth.var: strip.first + step}
        return substitute(self.product.left, {**strip.batch, **at})

    def soon(self, right: Expr, panel: Expr, step: Expr, column: int) -> Any:
        """The element of the panels that is read at a column some steps later."""
        load = next(load for load in collect(right, ir.TensorLoad) if load.source.same_as(self.product.panels))
        return self.panel_load(load, panel, step + AHEAD, const(column))

    def panel_load(self, load: Any, panel: Expr, depth: Expr, column: Expr) -> Any:
        if not load.source.same_as(self.product.panels):
            return load
        return tirx.BufferLoad(self.panels, [offset_of(load.source, [*load.indices[:-3], panel, depth, column])])

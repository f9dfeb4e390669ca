"""Matrix products over panels of the right operand.

Takes the `matmul` anchor whose right operand is packed: `left[..., m, k] * right[..., n // w, k, n % w]`, where `w` is
the width of a panel (the annotation `deploykit.panel`), the last panel filled up with zeros. Batch dims that the left
operand and the result run through like rows, and the right operand not at all, become rows.

Rows are cut into register tiles, the remainder into smaller ones, so no operand is padded or copied. A stretch of
panels that stays in the second-level cache is used for all rows of a unit of work before the next one. Sums are
complete when a tile leaves the registers, and the epilogue is applied there. One unit of parallel work is one stretch
of panels by `ROW_BLOCK` register tiles.

Declines products whose right operand is not packed: they are ordinary reductions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tvm import ir, tirx

from deploykit.compiler.schedules.access import Views, analyse, fuse, offset_of, pinned, values_of
from deploykit.compiler.schedules.device import Device
from deploykit.compiler.schedules.finish import Finish, finish_of
from deploykit.compiler.schedules.inline import ANCHOR
from deploykit.compiler.schedules.loops import Code, as_index, bits_of, const, dtype_of, local, loop, static, unravel
from deploykit.compiler.schedules.nest import Axis, Buffer, Expr, Stage, is_zero, replace_loads, sequence, substitute
from deploykit.compiler.schedules.tile import Tile, copy, each_vector, row_sizes, step, tile_for, zero

ROW_BLOCK = 8
"""Register tiles below each other in one unit of parallel work."""

WIDEST = 256
"""Columns of the right operand that are used together at most."""

PANEL = "deploykit.panel"
"""Annotation of a product with a packed right operand: the width of its panels."""


@dataclass(frozen=True)
class _Product:
    """One product: loops over `batch`, then `rows` x `columns` results, each a sum over `depth`. `values` give the
    stage's axes in terms of `batch` and `rows`."""

    batch: tuple[Axis, ...]
    rows: Axis
    columns: Axis
    depth: Axis
    left: Expr
    right: Expr
    panels: Buffer
    finish: Finish
    values: dict[ir.Var, Expr]
    width: int


@dataclass(frozen=True)
class _Place:
    """Which results a tile is for: values of the batch loops, the first row, the panel."""

    batch: dict[ir.Var, Expr]
    row: Expr
    panel: Expr


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
    product = _Product(
        tuple(group.axis for group in fused),
        rows,
        stage.axes[-1],
        stage.reduce[0],
        substitute(views.value(combine.source.a), values),
        substitute(combine.source.b, values),
        panels.buffer,
        finish,
        values,
        int(stage.annotations[PANEL]),
    )
    return [_Emitter(product, views, device).tasks()]


class _Emitter:
    """Emits the loops of one product."""

    def __init__(self, product: _Product, views: Views, device: Device) -> None:
        dtype = dtype_of(product.left)
        self.product = product
        self.views = views
        self.device = device
        self.tile = tile_for(device, dtype, product.width // device.lanes(bits_of(dtype)))

    def tasks(self) -> Any:
        """All units of work; those of one stretch of panels follow each other."""
        product = self.product
        rows, columns = as_index(product.rows.extent), as_index(product.columns.extent)
        height, stretch = self.tile.rows * ROW_BLOCK, self.stretch()
        panels = tirx.floordiv(columns + (product.width - 1), const(product.width))
        row_blocks = tirx.floordiv(rows + (height - 1), const(height))
        stretches = tirx.floordiv(panels + (stretch - 1), const(stretch))
        extents = [*(as_index(axis.extent) for axis in product.batch), stretches, row_blocks]

        def task(index: Expr) -> Any:
            code = Code()
            counts = [code.let("count", extent) for extent in extents]
            *lead, column_block, row_block = (code.let("place", place) for place in unravel(index, counts))
            batch = {axis.var: value for axis, value in zip(product.batch, lead, strict=True)}
            first = code.let("panel", column_block * stretch)
            count = code.let("panels", tirx.min(const(stretch), panels - first))
            start = code.let("row", row_block * height)

            def strip(tile: Tile, row: Expr) -> Any:
                return loop("panel", count, lambda panel: self.block(tile, _Place(batch, row, first + panel)))

            self.strips(code, start, code.let("rows", tirx.min(const(height), rows - start)), strip)
            return code.statement()

        total = extents[0]
        for extent in extents[1:]:
            total = total * extent
        return loop("task", total, task, tirx.ForKind.PARALLEL if self.device.parallel else tirx.ForKind.SERIAL)

    def strips(self, code: Code, start: Expr, count: Expr, strip: Callable[[Tile, Expr], Any]) -> None:
        """Tiles of ever smaller height that cover `count` rows from `start`."""
        rows = static(self.product.rows.extent)
        heights = (self.tile.rows, *row_sizes(self.tile.rows))
        for height in heights:
            if rows is not None and not _occurs(height, heights, rows):
                continue
            tile = replace(self.tile, rows=height)
            tiles = code.let("tiles", tirx.truncdiv(count, const(height)))
            code.add(loop("t", tiles, partial(_at_height, strip, tile, start)))
            start, count = start + tiles * height, count - tiles * height

    def stretch(self) -> int:
        """Panels that fill half of the second-level cache, at most `WIDEST` columns."""
        depth, width = static(self.product.depth.extent), self.product.width
        widest = max(1, WIDEST // width)
        if depth is None or not self.device.l2_bytes:
            return widest
        panel_bytes = max(1, depth) * width * bits_of(self.tile.dtype) // 8
        return max(1, min(widest, self.device.l2_bytes // 2 // panel_bytes))

    def block(self, tile: Tile, place: _Place) -> Any:
        """One register tile: all of the depth, then the epilogue."""
        product = self.product
        sums = tile.scratch()
        right = substitute(product.right, {**product.values, **place.batch})

        def accumulate(k: Expr) -> Any:
            def left(i: Expr) -> Expr:
                at = {**place.batch, product.rows.var: place.row + i, product.depth.var: k}
                return substitute(product.left, at)

            def element(column: Expr) -> Expr:
                return replace_loads(right, lambda load: self.panel_load(load, place.panel, k, column))

            return step(tile, sums, left, element)

        steps = [tirx.AllocBuffer(sums), zero(tile, sums), loop("k", product.depth.extent, accumulate)]
        return sequence([*steps, self.stored(tile, sums, place)])

    def stored(self, tile: Tile, sums: Buffer, place: _Place) -> Any:
        """Whole vectors where the panel is full, else element by element through a copy of the sums."""
        columns, width = as_index(self.product.columns.extent), self.product.width
        spilled = local("spilled", tile.rows * tile.columns, tile.dtype)
        valid = tirx.min(const(width), columns - place.panel * width)

        def element(i: Expr, column: Expr) -> Any:
            return self.store(place, i, column, tirx.BufferLoad(spilled, [i * tile.columns + column]))

        rest = [
            tirx.AllocBuffer(spilled),
            copy(tile, sums, spilled),
            loop("i", tile.rows, lambda i: loop("j", valid, lambda j: element(i, j))),
        ]
        known = static(columns)
        if self.product.finish.scalar or (known is not None and known < width):
            return sequence(rest)
        whole = each_vector(tile, lambda i, c, at: self.store(place, i, c, tirx.BufferLoad(sums, [at])))
        if known is not None and known % width == 0:
            return whole
        return tirx.IfThenElse(place.panel * width + width <= columns, whole, sequence(rest))

    def store(self, place: _Place, row: Expr, column: Expr, value: Expr) -> Any:
        product = self.product
        at = {product.rows.var: place.row + row, product.columns.var: place.panel * product.width + column}
        return substitute(product.finish(value, product.values), {**place.batch, **at})

    def panel_load(self, load: Any, panel: Expr, depth: Expr, column: Expr) -> Any:
        if not load.source.same_as(self.product.panels):
            return load
        indices = [*load.indices[:-3], panel, depth, column]
        return tirx.BufferLoad(self.views.flat(load.source), [offset_of(load.source, indices)])


def _at_height(strip: Callable[[Tile, Expr], Any], tile: Tile, start: Expr, index: Expr) -> Any:
    return strip(tile, start + index * tile.rows)


def _occurs(height: int, heights: Sequence[int], rows: int) -> bool:
    """Whether tiles of `height` are used when `rows` rows are cut into the largest tiles first."""
    for larger in heights:
        if larger == height:
            return rows >= height
        rows %= larger
    return False

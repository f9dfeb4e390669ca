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

from dataclasses import dataclass
from typing import Any

from tvm import ir, tirx

from deploykit.compiler.schedules.access import Views, analyse, fuse, offset_of, pinned, values_of
from deploykit.compiler.schedules.device import Device
from deploykit.compiler.schedules.finish import Finish, finish_of
from deploykit.compiler.schedules.loops import as_index, bits_of, const, dtype_of, local, loop, static, unravel
from deploykit.compiler.schedules.nest import Axis, Expr, Stage, is_zero, replace_loads, sequence, substitute
from deploykit.compiler.schedules.tile import Tile, copy, each_vector, row_sizes, step, tile_for, zero

ROW_BLOCK = 8
"""Register tiles below each other in one unit of parallel work."""

WIDEST = 256
"""Columns of the right operand that are used together at most."""

PANEL = "deploykit.panel"
"""Annotation of a product with a packed right operand: the width of its panels."""


@dataclass(frozen=True)
class _Product:
    """One product: loops over `batch`, then `rows` x `columns` results, each a sum over `depth`."""

    batch: tuple[Axis, ...]
    rows: Axis
    columns: Axis
    depth: Axis
    left: Expr
    right: Expr
    finish: Finish
    values: dict[ir.Var, Expr]
    width: int


def matmul(stage: Stage, views: Views, device: Device) -> list[Any] | str:
    """Statements that compute `stage`, or why it is not a packed product."""
    if stage.annotations.get("deploykit.anchor") != "matmul" or PANEL not in stage.annotations:
        return "no product with packed panels"
    combine = stage.combine
    if combine is None or not isinstance(combine.source, tirx.Mul) or stage.store is None:
        return "its sum is not one of products"
    finish = finish_of(stage, views)
    axes = (*stage.axes, *stage.reduce)
    found = analyse([finish.plain, combine.source], axes)
    lead = len(stage.axes) - 1
    fused = fuse(axes, found, pinned([finish.plain.value, combine.source], axes), range(lead))
    values = values_of(fused, stage.axes[:-1])
    right_access = analyse([combine.source.b], axes)[0]
    rows_fused = bool(fused) and is_zero(right_access.strides[fused[-1].inner])
    rows = fused.pop().axis if rows_fused else Axis(ir.Var("row", "int64"), const(1))
    product = _Product(
        tuple(group.axis for group in fused),
        rows,
        stage.axes[-1],
        stage.reduce[0],
        substitute(views.value(combine.source.a), values),
        substitute(combine.source.b, values),
        finish,
        values,
        int(stage.annotations[PANEL]),
    )
    return [_tasks(product, views, device)]


def _tasks(product: _Product, views: Views, device: Device) -> Any:
    dtype = dtype_of(product.left)
    tile = tile_for(device, dtype, product.width // device.lanes(bits_of(dtype)))
    panels = (as_index(product.columns.extent) + (product.width - 1)) // product.width
    stretch = _stretch(product, tile, device)
    height = tile.rows * ROW_BLOCK
    row_blocks = (as_index(product.rows.extent) + (height - 1)) // height
    extents = [*(as_index(axis.extent) for axis in product.batch), (panels + (stretch - 1)) // stretch, row_blocks]

    def task(index: Expr) -> Any:
        *lead, column_block, row_block = unravel(index, extents)
        at = {axis.var: value for axis, value in zip(product.batch, lead, strict=True)}
        first = column_block * stretch
        count = tirx.min(const(stretch), panels - first)
        start = row_block * height
        rows = tirx.min(const(height), as_index(product.rows.extent) - start)

        def block(size: int, row: Expr) -> Any:
            smaller = Tile(size, tile.vectors, tile.lanes, tile.dtype)
            return loop("panel", count, lambda panel: _tile(product, views, smaller, at, row, first + panel))

        return sequence(_row_tiles(tile.rows, static(product.rows.extent), start, rows, block))

    total = extents[0]
    for extent in extents[1:]:
        total = total * extent
    return loop("task", total, task, tirx.ForKind.PARALLEL if device.parallel else tirx.ForKind.SERIAL)


def _row_tiles(height: int, rows: int | None, start: Expr, count: Expr, block: Any) -> list[Any]:
    """`block(size, first row)` for tiles that cover `count` rows from `start`; `rows` are all rows where known."""
    statements: list[Any] = []
    for size in (height, *row_sizes(height)):
        tiles = count // size
        if rows is None or _occurs(size, height, rows):
            statements.append(loop("t", tiles, lambda t, s=size, at=start: block(s, at + t * s)))
            start, count = start + tiles * size, count - tiles * size
    return statements


def _occurs(size: int, height: int, rows: int) -> bool:
    """Whether a tile of `size` rows is used when `rows` rows are cut into the largest tiles first."""
    for larger in (height, *row_sizes(height)):
        if larger == size:
            return rows >= size
        rows %= larger
    return False


def _stretch(product: _Product, tile: Tile, device: Device) -> int:
    """Panels that fill half of the second-level cache; `WIDEST` columns where the depth is unknown."""
    depth = static(product.depth.extent)
    widest = max(1, WIDEST // product.width)
    if depth is None or not device.l2_bytes:
        return widest
    panel_bytes = max(1, depth) * product.width * bits_of(tile.dtype) // 8
    return max(1, min(widest, device.l2_bytes // 2 // panel_bytes))


def _tile(product: _Product, views: Views, tile: Tile, at: dict[ir.Var, Expr], row: Expr, panel: Expr) -> Any:
    """One register tile: all of the depth, then the epilogue."""
    sums = tile.scratch()
    lead = dict(at)

    def accumulate(k: Expr) -> Any:
        def left(i: Expr) -> Expr:
            return substitute(product.left, {**lead, product.rows.var: row + i, product.depth.var: k})

        def right(column: Expr) -> Expr:
            return replace_loads(
                substitute(product.right, {**product.values, **lead}),
                lambda load: _panel_load(load, views, panel, k, column),
            )

        return step(tile, sums, left, right)

    def store(i: Expr | int, column: Expr, value: Expr) -> Any:
        place = {**lead, product.rows.var: row + i, product.columns.var: panel * product.width + column}
        return substitute(product.finish(value, product.values), place)

    whole = each_vector(tile, lambda i, c, s: store(i, c, tirx.BufferLoad(sums, [s])))
    return sequence(
        [
            tirx.AllocBuffer(sums),
            zero(tile, sums),
            loop("k", product.depth.extent, accumulate),
            *_finished(product, tile, sums, panel, whole, store),
        ]
    )


def _finished(product: _Product, tile: Tile, sums: Any, panel: Expr, whole: Any, store: Any) -> list[Any]:
    """Whole vectors where the panel is full, else element by element through a copy of the sums."""
    columns = as_index(product.columns.extent)
    width = product.width
    spilled = local("spilled", tile.rows * tile.columns, tile.dtype)
    valid = tirx.min(const(width), columns - panel * width)

    def element(i: Expr, column: Expr) -> Any:
        return store(i, column, tirx.BufferLoad(spilled, [i * tile.columns + column]))

    rest = sequence(
        [
            tirx.AllocBuffer(spilled),
            copy(tile, sums, spilled),
            loop("i", tile.rows, lambda i: loop("j", valid, lambda j: element(i, j))),
        ]
    )
    if product.finish.scalar or (static(columns) is not None and int(columns) < width):
        return [rest]
    if static(columns) is not None and int(columns) % width == 0:
        return [whole]
    return [tirx.IfThenElse(panel * width + width <= columns, whole, rest)]


def _panel_load(load: Any, views: Views, panel: Expr, depth: Expr, column: Expr) -> Any:
    indices = [*load.indices[:-3], panel, depth, column]
    return tirx.BufferLoad(views.flat(load.source), [offset_of(load.source, indices)])

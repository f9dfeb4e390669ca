"""Convolutions with channels last, in register tiles of neighbouring outputs by output channels.

The rule takes the `panels` anchor (`anchors.channels_last.conv_last`). The outputs of all images are numbered in their
order in memory and cut into tiles of `height` outputs. A tile computes `width` output channels, in vectors, for each of
them. The data of a tile is first copied to a patch (`im2col`), one block of terms at a time, and used for `COLUMNS`
output channels. Sums that are not complete after a block wait in memory. Pointwise convolutions with stride 1 read the
data directly, unless its rows would compete for the same sets of the first-level cache. The last tile is moved back,
overlaps the one before, and stores only its new part. If there are fewer outputs than a tile has, they are computed one
by one.

The epilogue is applied when a tile is complete. One unit of parallel work is `TILES` tiles by `COLUMNS` channels.

It declines other convolutions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import prod

from tvm import ir, sym, tirx

from deploykit.compiler.decisions import Declined
from deploykit.compiler.devices.cpu import Device
from deploykit.compiler.operators.anchors.conv import ConvShape
from deploykit.compiler.schedules.conv.im2col import Blocks, Patch, Source, blocks_of, patch_for
from deploykit.compiler.schedules.kernel.access import Views, analyse, fuse, pinned, values_of
from deploykit.compiler.schedules.kernel.finish import Finish, finish_of
from deploykit.compiler.schedules.kernel.kinds import another_kind
from deploykit.compiler.schedules.kernel.loops import Code, local, loop, unravel, vectorized
from deploykit.compiler.schedules.kernel.stages import Axis, Stage
from deploykit.compiler.schedules.matmul.tile import (
    Tile,
    copy,
    each_vector,
    steps,
    tallest_with_factors,
    together,
    zero,
)
from deploykit.compiler.tir.rewriting import Buffer, Expr, collect, sequence, substitute
from deploykit.compiler.tir.values import as_index, bits_of, const, dtype_of, static

TILES = 4
"""The approximate number of register tiles of outputs in one unit of parallel work."""

COLUMNS = 128
"""The approximate number of output channels in one unit of parallel work."""

PATCH_BYTES = 44 << 10
"""The most bytes of a patch."""

SAME_SET = 2048
"""Bytes. Rows that are a multiple of this apart lie in one or two sets of a first-level cache."""

_WIDTHS = {2: 1.0, 3: 1.02, 4: 1.04, 1: 1.1}
"""The possible numbers of vectors of a tile, with the time for the same number of products relative to two vectors."""


def panel_vectors(device: Device, dtype: str, channels: int) -> int:
    """The vectors of a panel for `channels` output channels of a group: few unused lanes, and many products per
    load."""
    lanes = device.lanes(bits_of(dtype))
    return min(_WIDTHS, key=lambda n: -(-channels // (n * lanes)) * n * _WIDTHS[n])


def tile_height(device: Device, vectors: int, outputs: Expr) -> int:
    """The rows that fill the registers; fewer if a known number of outputs divides better."""
    tallest = max(1, min(24, (device.vector_registers - vectors - 1) // vectors))
    if device.by_element or device.loads_first:
        tallest = tallest_with_factors(device, vectors)
    count = static(outputs)
    if count is None:
        return tallest
    if count <= tallest:
        return max(1, count)
    return min(range(tallest, tallest // 2, -1), key=lambda rows: -count % rows)


@dataclass(frozen=True)
class _Conv:
    """One convolution with `count` outputs. `values` are their coordinates in terms of the loops `rows`."""

    source: Source
    packed: Buffer
    axes: tuple[Axis, ...]
    rows: tuple[Axis, ...]
    values: dict[ir.Var, Expr]
    count: Expr
    channels: int
    finish: Finish
    tile: Tile
    blocks: Blocks
    direct: bool

    @property
    def panels(self) -> int:
        return int(self.packed.shape[1])


@dataclass(frozen=True)
class _Place:
    """What a tile computes: a panel of a group for the outputs from `start` on, of which those from `first` on are new.
    `slot` is the number of the tile in its unit of work."""

    group: Expr
    panel: Expr
    start: Expr
    first: Expr
    slot: Expr


@dataclass(frozen=True)
class _Scratch:
    """The memory of a unit of work: the patch that a tile reads, and sums that wait for the next block."""

    patch: Patch
    partial: Buffer


def conv(stage: Stage, views: Views, device: Device) -> list[tirx.Stmt] | Declined:
    """Statements that compute `stage`, or the reason why it is not a convolution with panels."""
    notes = stage.annotations
    other = another_kind(stage, "panels")
    if other is not None:
        return other
    if not device.vector_bits:
        return Declined("the device has no vectors")
    combine = stage.combine
    if combine is None or not isinstance(combine.source, tirx.Mul) or stage.store is None:
        return Declined("its sum is not one of products")
    data, packed = (collect(side, ir.TensorLoad)[0].source for side in (combine.source.a, combine.source.b))
    groups, _, *kernel, depth, width = (int(extent) for extent in packed.shape)
    shape = ConvShape.of_notes(notes, groups)
    spatial = [as_index(axis.extent) for axis in stage.axes[1:-1]]
    source = Source(views.flat(data), data.shape, spatial, shape, kernel, depth)
    finish = finish_of(stage, views)
    found = analyse([finish.plain], stage.axes)
    fused = fuse(stage.axes, found, pinned([finish.plain.value], stage.axes), range(len(stage.axes) - 1))
    if not all(access.contiguous(len(stage.axes) - 1) for access in found):
        finish = replace(finish, scalar=True)
    count = sym.Analyzer().simplify(prod(spatial, start=as_index(stage.axes[0].extent)))
    dtype = dtype_of(stage.store.buffer)
    lanes = device.lanes(bits_of(dtype))
    tile = Tile(tile_height(device, width // lanes, count), width // lanes, lanes, dtype)
    direct = _reads_itself(source, dtype_of(data) == dtype)
    most = PATCH_BYTES * 8 // bits_of(dtype) // tile.rows
    task = _Conv(
        source,
        packed,
        stage.axes,
        tuple(group.axis for group in fused),
        values_of(fused, stage.axes[:-1]),
        count,
        int(stage.axes[-1].extent) // groups,
        finish,
        tile,
        Blocks(1, depth, 0) if direct else blocks_of(kernel, depth, most),
        direct,
    )
    return [_Emitter(task, views, device).tasks()]


def _reads_itself(source: Source, exact: bool) -> bool:
    """Whether tiles read the data directly: each row is the channels of an output, and few rows share a cache set."""
    shape = source.conv
    if not exact or any(n > 1 for n in (*source.kernel, *shape.strides)) or any(shape.padding):
        return False
    row_bytes = int(source.shape[-1]) * bits_of(dtype_of(source.flat)) // 8
    return row_bytes % SAME_SET != 0


class _Emitter:
    """Emits the loops of one convolution."""

    def __init__(self, conv: _Conv, views: Views, device: Device) -> None:
        self.conv = conv
        self.device = device
        self.packed = views.flat(conv.packed)
        tile = conv.tile
        tiles = _tiles(conv.count, tile.rows)
        self.tiles = TILES if tiles is None else min(range(TILES, 2 * TILES), key=lambda n: -tiles % n)
        self.tiles = self.tiles if tiles is None else max(1, min(tiles, self.tiles))
        groups = -(-conv.panels * tile.columns // COLUMNS)
        self.group = -(-conv.panels // min(groups, conv.panels))

    def tasks(self) -> tirx.Stmt:
        """All units of work. Units of the same panels are consecutive."""
        conv, height = self.conv, self.conv.tile.rows
        span = self.tiles * height
        row_blocks = tirx.truncdiv(conv.count + (span - 1), const(span))
        panel_groups = -(-conv.panels // self.group)
        groups = conv.source.conv.groups

        def task(index: Expr) -> tirx.Stmt:
            code = Code()
            count = code.let("outputs", conv.count)
            blocks = code.let("blocks", tirx.truncdiv(count + (span - 1), const(span)))
            group, panel_group, block = unravel(index, [const(0), const(panel_groups), blocks])
            place = _Place(
                code.let("group", group),
                code.let("panel", panel_group * self.group),
                const(0),
                code.let("first", block * span),
                const(0),
            )
            rows = code.let("rows", tirx.min(const(span), count - place.first))
            many = self.unit(conv.tile, place, rows, count)
            if (static(conv.count) or 0) >= height:
                code.add(many)
            else:
                few = self.unit(replace(conv.tile, rows=1), place, rows, count)
                code.add(few if height == 1 else tirx.IfThenElse(count >= height, many, few))
            return code.statement()

        total = row_blocks * (groups * panel_groups)
        return loop("task", total, task, tirx.ForKind.PARALLEL if self.device.parallel else tirx.ForKind.SERIAL)

    def unit(self, tile: Tile, place: _Place, rows: Expr, count: Expr) -> tirx.Stmt:
        """One unit of work: `rows` outputs from `place.first` on, for the panels from `place.panel` on."""
        conv = self.conv
        slots = self.tiles if tile.rows == conv.tile.rows else conv.tile.rows
        scratch = _Scratch(
            patch_for(conv.source, conv.blocks, tile.rows, tile.lanes, tile.dtype),
            local("partial", slots * self.group * tile.rows * tile.columns, tile.dtype),
        )
        panels = tirx.min(const(self.group), conv.panels - place.panel)

        def strip(block: Expr, slot: Expr) -> tirx.Stmt:
            code = Code()
            first = code.let("first", place.first + slot * tile.rows)
            start = code.let("start", tirx.min(first, count - tile.rows))
            at = replace(place, start=start, first=first, slot=slot)

            def numbered(number: Expr) -> tirx.Stmt:
                return self.tile(tile, scratch, replace(at, panel=place.panel + number), number, block)

            if not conv.direct:
                code.add(scratch.patch.fill(start, tile.rows, place.group, block))
            code.add(loop("panel", panels, numbered))
            return code.statement()

        def block(index: Expr) -> tirx.Stmt:
            tiles = tirx.truncdiv(rows + (tile.rows - 1), const(tile.rows))
            return loop("tile", tiles, partial(strip, index))

        steps = [] if conv.direct else [tirx.AllocBuffer(scratch.patch.buffer)]
        steps += [tirx.AllocBuffer(scratch.partial)] if conv.blocks.count > 1 else []
        return sequence([*steps, loop("block", conv.blocks.count, block)])

    def tile(self, tile: Tile, scratch: _Scratch, place: _Place, number: Expr, block: Expr) -> tirx.Stmt:
        """Add the products of one block of terms for one tile. `number` is that of its panel in the unit of work."""
        conv, sums, patch = self.conv, tile.scratch(), scratch.patch
        terms = conv.blocks.terms
        weights = ((place.group * conv.panels + place.panel) * conv.blocks.count + block) * (terms * tile.columns)
        code = Code()
        weight = code.let("weight", weights)
        wide = tile.dtype

        def left(row: Expr, term: Expr) -> Expr:
            if not conv.direct:
                return tirx.BufferLoad(patch.buffer, [row * patch.pitch + term])
            depth = as_index(conv.source.shape[-1])
            offset = (place.start + row) * depth + place.group * conv.source.depth + term
            return tirx.BufferLoad(conv.source.flat, [offset])

        def right(term: Expr, column: Expr) -> Expr:
            return tirx.BufferLoad(self.packed, [weight + term * tile.columns + column]).astype(wide)

        products = steps(tile, sums, terms, left, right, together(self.device, tile))
        code.add(tirx.AllocBuffer(sums))
        if conv.blocks.count == 1:
            code.add(zero(tile, sums), products, self.stored(tile, sums, place))
            return code.statement()
        at = (place.slot * self.group + number) * (tile.rows * tile.columns)
        begun = _moved(tile, scratch.partial, at, sums, const(0))
        waiting = _moved(tile, sums, const(0), scratch.partial, at)
        code.add(
            tirx.IfThenElse(block == 0, zero(tile, sums), begun),
            products,
            tirx.IfThenElse(block == conv.blocks.count - 1, self.stored(tile, sums, place), waiting),
        )
        return code.statement()

    def stored(self, tile: Tile, sums: Buffer, place: _Place) -> tirx.Stmt:
        """Store the finished values: directly from registers, or row by row through memory if a tile is not entirely
        new or its panel is not full."""
        conv = self.conv
        rest = conv.channels % tile.columns
        full = place.panel * tile.columns + tile.columns <= conv.channels
        partly = [] if rest == 0 else [self.through(tile, sums, place, rest)]
        if conv.channels < tile.columns:
            return partly[0]
        new = place.start == place.first
        wholly: tirx.Stmt = self.through(tile, sums, place, tile.columns)
        if not conv.finish.scalar:
            straight = each_vector(
                tile, lambda i, c, p: self.store(place, place.start + i, c, tirx.BufferLoad(sums, [p]))
            )
            wholly = straight if tile.rows == 1 else tirx.IfThenElse(new, straight, wholly)
        return tirx.IfThenElse(full, wholly, partly[0]) if partly else wholly

    def through(self, tile: Tile, sums: Buffer, place: _Place, columns: int) -> tirx.Stmt:
        spilled = local("spilled", tile.rows * tile.columns, tile.dtype)
        lanes = 1 if self.conv.finish.scalar else tile.lanes

        def row(index: Expr) -> tirx.Stmt:
            number = place.first + index
            source = (number - place.start) * tile.columns

            def element(column: Expr) -> tirx.Stmt:
                return self.store(place, number, column, tirx.BufferLoad(spilled, [source + column]))

            return _columns(columns, lanes, element)

        rows = loop("i", tile.rows - (place.first - place.start), row)
        return sequence([tirx.AllocBuffer(spilled), copy(tile, sums, spilled), rows])

    def store(self, place: _Place, number: Expr, column: Expr, value: Expr) -> tirx.Stmt:
        """The store of the value of one output and channel."""
        conv = self.conv
        channel = place.group * conv.channels + place.panel * conv.tile.columns + column
        extents = [as_index(axis.extent) for axis in conv.rows]
        rows = {axis.var: at for axis, at in zip(conv.rows, unravel(number, extents), strict=True)}
        known = {var: substitute(value, rows) for var, value in conv.values.items()}
        return substitute(conv.finish(value, known), {conv.axes[-1].var: channel})


def _moved(tile: Tile, source: Buffer, source_at: Expr, target: Buffer, target_at: Expr) -> tirx.Stmt:
    """Copy all sums of a tile from one buffer to another."""

    def move(_row: Expr, _column: Expr, at: Expr) -> tirx.Stmt:
        return tirx.BufferStore(target, tirx.BufferLoad(source, [source_at + at]), [target_at + at])

    return each_vector(tile, move)


def _tiles(count: Expr, height: int) -> int | None:
    known = static(count)
    return None if known is None else -(-known // height)


def _columns(count: int, lanes: int, body: Callable[[Expr], tirx.Stmt]) -> tirx.Stmt:
    """`body` for `count` columns, in ever narrower vectors."""
    if lanes == 1:
        return loop("j", count, body)
    steps: list[tirx.Stmt] = []
    done = 0
    while done < count:
        while done + lanes > count:
            lanes //= 2
        steps.append(vectorized(lanes, partial(_shifted, body, done)))
        done += lanes
    return sequence(steps)


def _shifted(body: Callable[[Expr], tirx.Stmt], start: int, lane: Expr) -> tirx.Stmt:
    return body(lane + start)

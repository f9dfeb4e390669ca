"""Winograd convolutions of 3 by 3 with channels last, which need fewer multiplications.

The rule takes the `winograd` anchor (`anchors.winograd.conv_winograd`). A unit of work is a block of tiles by `COLUMNS`
output channels. For each block of input channels, the tiles are transformed to points, multiplied with the weights of
each point in register tiles, and added to the sums of the point. Then the sums are transformed to outputs, which are
stored with the epilogue. Points and sums are in memory that stays in the second-level cache. There is one such memory
for each of `SHARES` shares of the work, which run in parallel.

It declines other convolutions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from tvm import ir, sym, tirx

from deploykit.compiler.decisions import Declined
from deploykit.compiler.devices.cpu import Device
from deploykit.compiler.operators.anchors.conv import ConvShape
from deploykit.compiler.operators.anchors.winograd import INPUT, OUTPUT, OUTPUTS, POINTS
from deploykit.compiler.schedules.conv.register_tiles import tile_height
from deploykit.compiler.schedules.conv.transform import both_ways
from deploykit.compiler.schedules.kernel.access import Views, analyse
from deploykit.compiler.schedules.kernel.finish import Finish, finish_of
from deploykit.compiler.schedules.kernel.kinds import another_kind
from deploykit.compiler.schedules.kernel.loops import Code, local, loop, unravel, vectorized
from deploykit.compiler.schedules.kernel.stages import Axis, Stage
from deploykit.compiler.schedules.matmul.tile import Tile, each_vector, steps, together, zero
from deploykit.compiler.tir.rewriting import Buffer, Expr, collect, sequence
from deploykit.compiler.tir.values import as_index, bits_of, const, dtype_of, static

COLUMNS = 64
"""The approximate number of output channels in one unit of work."""

DEPTH = 64
"""The most input channels that are transformed together."""

STRIPS = 2
"""The number of register tiles on top of each other in one unit of work."""

SHARES = 8
"""The most shares of the work that may run at the same time."""


FEWEST_TILES = 16
"""The least number of tiles of an image for which the transform pays."""

MOST_WEIGHTS = 9 << 16
"""The most elements of weights that are transformed; a sixteenth of it if the size of an image is not known."""


def winograd_depth(channels: int, lanes: int) -> int:
    """The number of input channels of a block."""
    return max(n for n in range(lanes, DEPTH + 1, lanes) if channels % n == 0)


def winograd(stage: Stage, views: Views, device: Device) -> list[tirx.Stmt] | Declined:
    """Statements that compute `stage`, or the reason why it is not such a convolution."""
    other = another_kind(stage, "winograd")
    if other is not None:
        return other
    if stage.combine is None or stage.store is None:
        return Declined("its sum is not one of products")
    by_rank = {len(load.source.shape): load.source for load in collect(stage.combine.source, ir.TensorLoad)}
    data, packed = by_rank[4], by_rank[6]
    finish = finish_of(stage, views)
    found = analyse([finish.plain], stage.axes)
    along = not finish.scalar and all(access.contiguous(len(stage.axes) - 1) for access in found)
    dtype = dtype_of(stage.store.buffer)
    lanes, width = device.lanes(bits_of(dtype)), int(packed.shape[-1])
    images, *spatial = (as_index(axis.extent) for axis in stage.axes[:-1])
    tiles = [tirx.truncdiv(extent + (OUTPUTS - 1), const(OUTPUTS)) for extent in spatial]
    count = images * tiles[0] * tiles[1]
    tile = Tile(tile_height(device, width // lanes, count), width // lanes, lanes, dtype)
    group = max(1, COLUMNS // width)
    shape = ConvShape.of_notes(stage.annotations, 1)
    task = _Winograd(data, packed, shape, stage.axes, finish, along, tiles, count, tile, group)
    return [_Emitter(task, views, device).shares()]


@dataclass(frozen=True)
class _Winograd:
    """One convolution of `count` tiles, `tiles` along each dim, with `group` panels of weights in a unit of work."""

    data: Buffer
    packed: Buffer
    shape: ConvShape
    axes: tuple[Axis, ...]
    finish: Finish
    along: bool
    tiles: Sequence[Expr]
    count: Expr
    tile: Tile
    group: int

    @property
    def channels(self) -> int:
        return int(self.axes[-1].extent)

    @property
    def depth(self) -> int:
        """The number of input channels of a block."""
        return int(self.packed.shape[-2])

    @property
    def rows(self) -> int:
        """The number of tiles of a unit of work."""
        return self.tile.rows * STRIPS


class _Emitter:
    """Emits the loops of one convolution."""

    def __init__(self, conv: _Winograd, views: Views, device: Device) -> None:
        self.conv = conv
        self.device = device
        self.data = views.flat(conv.data)
        self.packed = views.flat(conv.packed)
        self.width = conv.group * conv.tile.columns
        self.points_pitch, self.sums_pitch = (_pitch(n, conv.tile.lanes) for n in (conv.depth, self.width))
        self.points = local("points", conv.rows * self.points_pitch, conv.tile.dtype)
        self.sums = local("sums", conv.rows * self.sums_pitch, conv.tile.dtype)

    def shares(self) -> tirx.Stmt:
        """All units of work. Units of the same weights are consecutive."""
        conv = self.conv
        groups = -(-int(conv.packed.shape[0]) // conv.group)
        blocks = tirx.truncdiv(conv.count + (conv.rows - 1), const(conv.rows))
        total = blocks * groups
        known = static(sym.Analyzer().simplify(total))
        shares = const(SHARES if known is None else min(SHARES, known))

        def share(index: Expr) -> tirx.Stmt:
            code = Code()
            all_blocks = code.let("blocks", blocks)
            first = code.let("first", tirx.truncdiv(index * total, shares))
            stop = code.let("stop", tirx.truncdiv((index + 1) * total, shares))

            def unit(number: Expr) -> tirx.Stmt:
                group, block = unravel(first + number, [const(0), all_blocks])
                return self.unit(block * conv.rows, group * conv.group)

            code.add(tirx.AllocBuffer(self.points), tirx.AllocBuffer(self.sums), loop("unit", stop - first, unit))
            return code.statement()

        return loop("share", shares, share, tirx.ForKind.PARALLEL if self.device.parallel else tirx.ForKind.SERIAL)

    def unit(self, start: Expr, panel: Expr) -> tirx.Stmt:
        """One unit of work: the tiles from `start` on, for the panels from `panel` on."""
        conv, code = self.conv, Code()
        first, group = code.let("tile", start), code.let("panel", panel)
        count = code.let("count", tirx.min(const(conv.rows), conv.count - first))
        height = conv.tile.rows
        strips = code.let("strips", tirx.truncdiv(count + (height - 1), const(height)))
        panels = code.let("panels", tirx.min(const(conv.group), int(conv.packed.shape[0]) - group))

        def block(index: Expr) -> tirx.Stmt:
            turned = loop("row", strips * height, lambda row: self.turn_in(first, row, count, index * conv.depth))

            def point(number: Expr) -> tirx.Stmt:
                return loop("panel", panels, lambda p: self.products(number, group, p, index, strips))

            return sequence([turned, loop("point", POINTS * POINTS, point)])

        code.add(loop("block", int(conv.packed.shape[1]), block))
        code.add(loop("row", count, lambda row: self.turn_out(first + row, row, group)))
        return code.statement()

    def corner(self, code: Code, number: Expr) -> tuple[Expr, Expr, Expr]:
        """The image and the first output of a tile."""
        image, y, x = unravel(number, [const(0), *self.conv.tiles])
        return code.let("image", image), code.let("y", y * OUTPUTS), code.let("x", x * OUTPUTS)

    def turn_in(self, first: Expr, row: Expr, count: Expr, channel: Expr) -> tirx.Stmt:
        """Compute the points of a tile for a block of channels. Rows without a tile of their own take the last tile."""
        conv, code, lanes = self.conv, Code(), self.conv.tile.lanes
        image, top, left = self.corner(code, first + tirx.min(row, count - 1))
        y, x = code.let("y", top - conv.shape.begins[0]), code.let("x", left - conv.shape.begins[1])
        height, width, channels = (as_index(extent) for extent in conv.data.shape[1:])

        def at(p: Expr, q: Expr, c: Expr) -> Expr:
            offset = ((image * height + y + p) * width + x + q) * channels + channel + c
            return tirx.BufferLoad(self.data, [offset])

        def inside(vector: Expr) -> tirx.Stmt:
            return self.turned(row, vector * lanes, lambda p, q, lane: at(p, q, vector * lanes + lane))

        def border(vector: Expr) -> tirx.Stmt:
            held = local("held", POINTS * POINTS * lanes, conv.tile.dtype)

            def hold(p: Expr, q: Expr) -> tirx.Stmt:
                place = (p * POINTS + q) * lanes
                known = tirx.all(y + p >= 0, y + p < height, x + q >= 0, x + q < width)

                def put(value: Callable[[Expr], Expr]) -> tirx.Stmt:
                    return vectorized(lanes, lambda lane: tirx.BufferStore(held, value(lane), [place + lane]))

                copied = put(lambda lane: at(p, q, vector * lanes + lane))
                return tirx.IfThenElse(known, copied, put(lambda _: tirx.const(0, conv.tile.dtype)))

            filled = loop("p", POINTS, lambda p: loop("q", POINTS, lambda q: hold(p, q)))

            def value(p: Expr, q: Expr, lane: Expr) -> Expr:
                return tirx.BufferLoad(held, [(p * POINTS + q) * lanes + lane])

            return sequence([tirx.AllocBuffer(held), filled, self.turned(row, vector * lanes, value)])

        whole = tirx.all(y >= 0, y + POINTS <= height, x >= 0, x + POINTS <= width)
        vectors = conv.depth // lanes
        code.add(tirx.IfThenElse(whole, loop("v", vectors, inside), loop("v", vectors, border)))
        return code.statement()

    def turned(self, row: Expr, channel: Expr, value: Callable[[Expr, Expr, Expr], Expr]) -> tirx.Stmt:
        """Compute the points of one vector of channels from the inputs `value(p, q, lane)`."""
        conv, lanes = self.conv, self.conv.tile.lanes

        def put(a: int, b: int, lane: Expr, result: Expr) -> tirx.Stmt:
            place = row * self.points_pitch + (a * POINTS + b) * conv.depth + channel + lane
            return tirx.BufferStore(self.points, result, [place])

        return both_ways(INPUT, lanes, conv.tile.dtype, value, put)

    def products(self, point: Expr, group: Expr, panel: Expr, block: Expr, strips: Expr) -> tirx.Stmt:
        """Add the products of a point, for one panel of weights and a block of channels, to the sums."""
        conv, tile = self.conv, self.conv.tile
        depth, blocks = conv.depth, int(conv.packed.shape[1])
        code = Code()
        weights = (((group + panel) * blocks + block) * (POINTS * POINTS) + point) * (depth * tile.columns)
        weight = code.let("weight", weights)

        def strip(index: Expr) -> tirx.Stmt:
            cell = tile.scratch()
            first = index * tile.rows

            def left(row: Expr, k: Expr) -> Expr:
                return tirx.BufferLoad(self.points, [(first + row) * self.points_pitch + point * depth + k])

            def right(k: Expr, column: Expr) -> Expr:
                return tirx.BufferLoad(self.packed, [weight + k * tile.columns + column])

            def place(row: Expr, column: Expr) -> Expr:
                return (first + row) * self.sums_pitch + point * self.width + panel * tile.columns + column

            def resume(row: Expr, column: Expr, at: Expr) -> tirx.Stmt:
                return tirx.BufferStore(cell, tirx.BufferLoad(self.sums, [place(row, column)]), [at])

            def keep(row: Expr, column: Expr, at: Expr) -> tirx.Stmt:
                return tirx.BufferStore(self.sums, tirx.BufferLoad(cell, [at]), [place(row, column)])

            begun = zero(tile, cell)
            if blocks > 1:
                begun = tirx.IfThenElse(block == 0, begun, each_vector(tile, resume))
            terms = steps(tile, cell, depth, left, right, together(self.device, tile))
            return sequence([tirx.AllocBuffer(cell), begun, terms, each_vector(tile, keep)])

        code.add(loop("strip", strips, strip))
        return code.statement()

    def turn_out(self, number: Expr, row: Expr, group: Expr) -> tirx.Stmt:
        """Compute the outputs of a tile, and store those that exist."""
        conv, code, lanes = self.conv, Code(), self.conv.tile.lanes
        image, y, x = self.corner(code, number)
        first = code.let("channel", group * conv.tile.columns)
        valid = tirx.min(const(conv.group * conv.tile.columns), conv.channels - first)
        extents = [as_index(axis.extent) for axis in conv.axes[1:-1]]

        def vector(index: Expr) -> tirx.Stmt:
            held = local("held", OUTPUTS * OUTPUTS * lanes, conv.tile.dtype)

            def value(a: Expr, b: Expr, lane: Expr) -> Expr:
                place = row * self.sums_pitch + (a * POINTS + b) * self.width + index * lanes + lane
                return tirx.BufferLoad(self.sums, [place])

            def put(i: int, j: int, lane: Expr, result: Expr) -> tirx.Stmt:
                return tirx.BufferStore(held, result, [(i * OUTPUTS + j) * lanes + lane])

            def store(i: Expr, j: Expr, lane: Expr) -> tirx.Stmt:
                at = [image, y + i, x + j, first + index * lanes + lane]
                result = tirx.BufferLoad(held, [(i * OUTPUTS + j) * lanes + lane])
                return conv.finish(result, dict(zip((axis.var for axis in conv.axes), at, strict=True)))

            kind = tirx.ForKind.VECTORIZED if conv.along else tirx.ForKind.SERIAL
            down, across = (tirx.min(const(OUTPUTS), e - at) for e, at in zip(extents, (y, x), strict=True))

            def line(i: Expr) -> tirx.Stmt:
                return loop("j", across, lambda j: loop("lane", lanes, lambda lane: store(i, j, lane), kind))

            turned = both_ways(OUTPUT, lanes, conv.tile.dtype, value, put)
            return sequence([tirx.AllocBuffer(held), turned, loop("i", down, line)])

        code.add(loop("v", tirx.truncdiv(valid, const(lanes)), vector))
        return code.statement()


def _pitch(channels: int, lanes: int) -> int:
    """The elements from tile to tile: one vector more than needed, so that tiles lie in different sets of a cache."""
    return POINTS * POINTS * channels + lanes


def worthwhile(weight_elements: int, outputs: Sequence[Expr], fewest: int = FEWEST_TILES) -> bool:
    """Whether there are enough tiles, at least `fewest`, for the transformed weights, which take four times the memory
    of the weights."""
    known = [static(extent) for extent in outputs]
    if None in known:
        return weight_elements <= MOST_WEIGHTS // 16
    tiles = prod(-(-extent // OUTPUTS) for extent in known if extent is not None)
    return tiles >= fewest and weight_elements <= MOST_WEIGHTS

"""Convolutions over planes: register tiles of output channels by neighbouring outputs.

Takes the `planes` anchor with weights packed `[groups, tiles, C, *kernel, rows]` (`anchors.packed_conv.plane_conv`).
The outputs of an image are numbered along the rows of a plane, gaps between rows included, so that `w` consecutive
numbers read `w` consecutive elements for every tap; a tile computes `rows` channels for such a run. Runs end inside the
plane: the last one is moved back and overlaps the one before, and only its new part is stored. Images with fewer
numbers than a vector has lanes are computed one output at a time, with vectors along the channels.

Where planes and outputs have the same extents, full runs are stored straight from registers; otherwise row by row
through a local copy. The epilogue is applied while storing. One unit of parallel work is a block of runs whose input
stays in half of the second-level cache by `CHANNEL_TILES` tiles of channels of one image.

Declines convolutions with other operands: they are ordinary reductions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from tvm import ir, sym, tirx

from deploykit.compiler.schedules.access import Views, analyse, fuse, pinned, values_of
from deploykit.compiler.schedules.anchors.conv import ConvShape
from deploykit.compiler.schedules.anchors.packed_conv import tap_offset, tap_phase
from deploykit.compiler.schedules.device import Device
from deploykit.compiler.schedules.finish import Finish, finish_of
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
    vectorized,
)
from deploykit.compiler.schedules.nest import Axis, Buffer, Expr, Stage, collect, replace_loads, sequence, substitute
from deploykit.compiler.schedules.tile import Tile, copy, each_vector, step, zero

CHANNEL_TILES = 2
"""Register tiles of output channels in one unit of parallel work."""


def conv_tile(device: Device, dtype: str, channels: int) -> Tile:
    """The register tile for `channels` output channels a group: as few filled-up rows as possible."""
    lanes = device.lanes(bits_of(dtype))
    registers = device.vector_registers * 3 // 4
    tallest = min(channels, registers // 3)
    rows = min(range(max(1, tallest // 2), tallest + 1), key=lambda r: (-channels % r / channels > 0.05, -r))
    return Tile(rows, min(4, registers // rows), lanes, dtype)


@dataclass(frozen=True)
class _Conv:
    """One convolution. `product` is a term of its sums; `grid` are the extents of a plane, `channels` the outputs of a
    group; `values` give the spatial axes in terms of `run`, the one loop over all of them, where there is one."""

    data: Buffer
    packed: Buffer
    product: Any
    shape: ConvShape
    kernel: Sequence[int]
    axes: tuple[Axis, ...]
    grid: tuple[Expr, ...]
    channels: Expr
    finish: Finish
    run: ir.Var | None
    values: dict[ir.Var, Expr]
    tile: Tile

    @property
    def spatial(self) -> tuple[Expr, ...]:
        return tuple(as_index(axis.extent) for axis in self.axes[2:])

    @property
    def numbers(self) -> Expr:
        """How many numbers there are: that of the last output plus one."""
        last: Expr = const(0)
        for extent, width in zip(self.spatial, self.grid, strict=True):
            last = last * width + (extent - 1)
        if all(static(extent) for extent in self.spatial):
            return last + 1
        return tirx.Select(tirx.all(*(extent > 0 for extent in self.spatial)), last + 1, const(0))


@dataclass(frozen=True)
class _Place:
    """Which outputs a tile is for: the image, the group, and the tile of channels within the group. `numbers` is how
    many outputs an image has, gaps included."""

    image: Expr
    group: Expr
    tile: Expr
    numbers: Expr


def conv(stage: Stage, views: Views, device: Device) -> list[Any] | str:
    """Statements that compute `stage`, or why it is not a convolution over planes."""
    notes = stage.annotations
    if notes.get(ANCHOR) != "planes":
        return "no convolution over planes"
    combine = stage.combine
    if combine is None or not isinstance(combine.source, tirx.Mul) or stage.store is None:
        return "its sum is not one of products"
    data, packed = (collect(side, ir.TensorLoad)[0].source for side in (combine.source.a, combine.source.b))
    kernel = [int(width) for width in packed.shape[3:-1]]
    rank = len(kernel)
    shape = ConvShape(
        tuple(int(n) for n in notes["deploykit.strides"]),
        (0,) * (2 * rank),
        tuple(int(n) for n in notes["deploykit.dilation"]),
        int(packed.shape[0]),
    )
    finish = finish_of(stage, views)
    grid = tuple(as_index(extent) for extent in data.shape[-rank:])
    run, values = _run(stage, finish, grid)
    dtype = dtype_of(stage.store.buffer)
    channels = as_index(stage.axes[1].extent) // shape.groups
    rows = int(packed.shape[-1])
    vectors = min(4, device.vector_registers * 3 // 4 // rows)
    task = _Conv(
        data,
        packed,
        combine.source,
        shape,
        kernel,
        stage.axes,
        grid,
        channels,
        finish,
        run,
        values,
        Tile(rows, vectors, device.lanes(bits_of(dtype)), dtype),
    )
    return [_Emitter(task, views, device).tasks()]


def _run(stage: Stage, finish: Finish, grid: Sequence[Expr]) -> tuple[ir.Var | None, dict[ir.Var, Expr]]:
    """The one loop over all spatial axes, where outputs and everything the epilogue reads allow it."""
    known = sym.Analyzer()
    spatial = stage.axes[2:]
    if not all(known.can_prove_equal(g, a.extent) for g, a in zip(grid[1:], spatial[1:], strict=True)):
        return None, {}
    found = analyse([finish.plain], stage.axes)
    fused = fuse(stage.axes, found, pinned([finish.plain.value], stage.axes), range(2, len(stage.axes)))
    if len(fused) != 1 or not all(access.contiguous(fused[0].inner) for access in found):
        return None, {}
    return fused[0].axis.var, values_of(fused, spatial)


class _Emitter:
    """Emits the loops of one convolution."""

    def __init__(self, conv: _Conv, views: Views, device: Device) -> None:
        self.conv = conv
        self.device = device
        self.data = views.flat(conv.data)
        self.packed = views.flat(conv.packed)
        self.depth = int(conv.packed.shape[2])
        self.phased = len(conv.data.shape) == len(conv.axes) + 1

    def tasks(self) -> Any:
        """All units of work; the channels of one block of runs follow each other."""
        conv = self.conv
        block = self.block()
        tiles = int(conv.packed.shape[1])
        tile_blocks = -(-tiles // CHANNEL_TILES)
        rest = [const(conv.shape.groups), const(tile_blocks)]

        def task(index: Expr) -> Any:
            code = Code()
            numbers = code.let("numbers", conv.numbers)
            blocks = code.let("blocks", tirx.truncdiv(numbers + (block - 1), const(block)))
            image, run_block, group, tile_block = unravel(index, [const(0), blocks, *rest])
            first = code.let("first", run_block * block)
            place = _Place(code.let("image", image), group, tile_block, numbers)
            stop = code.let("stop", tirx.min(first + block, numbers))
            count = tirx.min(const(CHANNEL_TILES), tiles - tile_block * CHANNEL_TILES)

            def strip(t: Expr) -> Any:
                return self.strip(replace(place, tile=tile_block * CHANNEL_TILES + t), first, stop)

            code.add(loop("tile", count, strip))
            return code.statement()

        blocks = tirx.floordiv(conv.numbers + (block - 1), const(block))
        total = as_index(conv.axes[0].extent) * blocks * rest[0] * rest[1]
        return loop("task", total, task, tirx.ForKind.PARALLEL if self.device.parallel else tirx.ForKind.SERIAL)

    def block(self) -> int:
        """Numbers whose input fills half of the second-level cache: a multiple of a run."""
        planes = prod(self.conv.shape.phases(self.conv.kernel)) if self.phased else 1
        column_bytes = max(1, self.depth * planes * bits_of(dtype_of(self.conv.data)) // 8)
        width = self.conv.tile.columns
        return max(1, self.device.l2_bytes // 2 // column_bytes // width) * width

    def strip(self, place: _Place, first: Expr, stop: Expr) -> Any:
        """One tile of channels for the outputs numbered from `first` to `stop`."""
        tile = self.conv.tile
        narrow = Tile(tile.rows, 1, tile.lanes, tile.dtype)
        numbers = place.numbers
        few = loop("q", stop - first, lambda q: self.single(place, first + q))
        if static(numbers) is not None and int(numbers) < tile.lanes:
            return few
        code = Code()
        whole = code.let("whole", tirx.truncdiv(stop - first, const(tile.columns)))
        rest = code.let("rest", first + whole * tile.columns)
        code.add(loop("run", whole, lambda r: self.run(tile, place, first + r * tile.columns, None)))

        def moved_back(r: Expr) -> Any:
            inner = Code()
            start = inner.let("start", rest + r * tile.lanes)
            begin = inner.let("begin", tirx.min(start, numbers - tile.lanes))
            inner.add(self.run(narrow, place, begin, start))
            return inner.statement()

        code.add(loop("run", tirx.truncdiv(stop - rest + (tile.lanes - 1), const(tile.lanes)), moved_back))
        wide = code.statement()
        return wide if static(numbers) is not None else tirx.IfThenElse(numbers >= tile.lanes, wide, few)

    def over_depth(self, body: Callable[[Expr, Expr], Any], place: _Place) -> Any:
        """`body(offset of the data for number 0, offset of the weights)` for every input channel and tap."""
        kernel = self.conv.kernel

        def taps(channel: Expr, chosen: list[Any]) -> Any:
            dim = len(chosen)
            if dim == len(kernel):
                return body(self.data_offset(place, channel, chosen), self.weight_offset(place, channel, chosen))
            return loop(f"k{dim}", kernel[dim], lambda tap: taps(channel, [*chosen, tap]))

        return loop("c", self.depth, lambda channel: taps(channel, []))

    def data_offset(self, place: _Place, channel: Expr, taps: Sequence[Any]) -> Expr:
        conv = self.conv
        plane: Expr = (place.image * as_index(conv.data.shape[1])) + place.group * self.depth + channel
        if self.phased:
            phases = conv.shape.phases(conv.kernel)
            plane = plane * prod(phases) + tap_phase(conv.shape, phases, taps)
        offset: Expr = const(0)
        for dim, (extent, tap) in enumerate(zip(conv.grid, taps, strict=True)):
            plane = plane * extent
            offset = offset * extent + tap_offset(conv.shape, dim, tap)
        return plane + offset

    def weight_offset(self, place: _Place, channel: Expr, taps: Sequence[Any]) -> Expr:
        packed = self.conv.packed
        offset: Expr = (place.group * as_index(packed.shape[1]) + place.tile) * self.depth + channel
        for width, tap in zip(self.conv.kernel, taps, strict=True):
            offset = offset * width + tap
        return offset * self.conv.tile.rows

    def data_at(self, offset: Expr) -> Expr:
        return replace_loads(self.conv.product.a, lambda _: tirx.BufferLoad(self.data, [offset]))

    def weight_at(self, offset: Expr) -> Expr:
        return replace_loads(self.conv.product.b, lambda _: tirx.BufferLoad(self.packed, [offset]))

    def run(self, tile: Tile, place: _Place, first: Expr, start: Expr | None) -> Any:
        """A register tile for the outputs numbered from `first`; those before `start` are not stored."""
        sums = tile.scratch()

        def body(data: Expr, weight: Expr) -> Any:
            return step(
                tile,
                sums,
                lambda row: self.weight_at(weight + row),
                lambda column: self.data_at(data + (first + column)),
            )

        steps = [tirx.AllocBuffer(sums), zero(tile, sums), self.over_depth(body, place)]
        return sequence([*steps, *self.stored(tile, sums, place, first, start)])

    def stored(self, tile: Tile, sums: Buffer, place: _Place, first: Expr, start: Expr | None) -> list[Any]:
        spilled = local("spilled", tile.rows * tile.columns, tile.dtype)
        begin = first if start is None else start
        stop = first + tile.columns

        def rows(body: Callable[[Expr], Any]) -> Any:
            return loop("i", self.rows_of(place), body)

        def value(row: Expr, number: Expr) -> Expr:
            return tirx.BufferLoad(spilled, [row * tile.columns + (number - first)])

        through = sequence(
            [tirx.AllocBuffer(spilled), copy(tile, sums, spilled), *self.pieces(place, begin, stop, rows, value)]
        )
        if start is not None or self.conv.run is None or self.conv.finish.scalar:
            return [through]

        def store(row: Expr, column: Expr, at: Expr) -> Any:
            return self.store_run(place, row, first + column, tirx.BufferLoad(sums, [at]))

        straight = each_vector(tile, store)
        if static(self.conv.channels) is not None and int(self.conv.channels) % tile.rows == 0:
            return [straight]
        return [tirx.IfThenElse((place.tile + 1) * tile.rows <= self.conv.channels, straight, through)]

    def pieces(
        self,
        place: _Place,
        begin: Expr,
        stop: Expr,
        rows: Callable[[Callable[[Expr], Any]], Any],
        value: Callable[[Expr, Expr], Expr],
    ) -> list[Any]:
        """Stores of the outputs numbered from `begin` to `stop`, row by row of the plane where there are gaps."""
        lanes = 1 if self.conv.finish.scalar else self.conv.tile.lanes
        if self.conv.run is not None:
            return [
                rows(
                    lambda i: sequence(
                        main_and_tail(
                            "j", stop - begin, lanes, lambda j: self.store_run(place, i, begin + j, value(i, begin + j))
                        )
                    )
                )
            ]
        width, extent = self.conv.grid[-1], self.conv.spatial[-1]
        code = Code()
        first_line = code.let("line", tirx.truncdiv(begin, width))

        def line(index: Expr) -> Any:
            inner = Code()
            at = inner.let("at", (first_line + index) * width)
            left = inner.let("left", tirx.max(begin, at))
            length = inner.let("length", tirx.max(tirx.min(stop, at + extent) - left, const(0)))
            *outer, _ = self.coordinates(at)

            def element(i: Expr, j: Expr) -> Any:
                return self.store_at(place, i, [*outer, left - at + j], value(i, left + j))

            inner.add(
                self.within(outer, rows(lambda i: sequence(main_and_tail("j", length, lanes, lambda j: element(i, j)))))
            )
            return inner.statement()

        code.add(loop("line", tirx.truncdiv(stop - 1, width) - first_line + 1, line))
        return [code.statement()]

    def single(self, place: _Place, number: Expr) -> Any:
        """One output of every channel of the tile, with a vector along the channels."""
        tile = self.conv.tile
        sums = local("sums", tile.rows, tile.dtype)

        def body(data: Expr, weight: Expr) -> Any:
            def add(row: Expr) -> Any:
                total = tirx.BufferLoad(sums, [row])
                return tirx.BufferStore(sums, total + self.weight_at(weight + row) * self.data_at(data + number), [row])

            return vectorized(tile.rows, add)

        nothing = tirx.const(0, tile.dtype)
        at = self.coordinates(number)
        store = loop("i", self.rows_of(place), lambda i: self.store_at(place, i, at, tirx.BufferLoad(sums, [i])))
        steps = [
            tirx.AllocBuffer(sums),
            vectorized(tile.rows, lambda row: tirx.BufferStore(sums, nothing, [row])),
            self.over_depth(body, place),
            store,
        ]
        return self.within(at, sequence(steps))

    def rows_of(self, place: _Place) -> Expr:
        """Channels of the tile that exist."""
        rows, channels = self.conv.tile.rows, self.conv.channels
        if static(channels) is not None and int(channels) % rows == 0:
            return const(rows)
        return tirx.min(const(rows), channels - place.tile * rows)

    def coordinates(self, number: Expr) -> list[Expr]:
        """Where in a plane a number is."""
        return unravel(number, [const(0), *self.conv.grid[1:]])

    def within(self, at: Sequence[Expr], body: Any) -> Any:
        """`body` where the coordinates are those of an output."""
        gaps = list(zip(at, self.conv.spatial, strict=False))[1:]
        known = sym.Analyzer()
        conditions = [
            index < extent
            for (index, extent), width in zip(gaps, self.conv.grid[1:], strict=False)
            if not known.can_prove_equal(width, extent)
        ]
        return tirx.IfThenElse(tirx.all(*conditions), body, None) if conditions else body

    def store_run(self, place: _Place, row: Expr, number: Expr, value: Expr) -> Any:
        at = self.conv.finish(value, self.conv.values)
        return substitute(at, {**self.lead(place, row), self.conv.run: number})

    def store_at(self, place: _Place, row: Expr, at: Sequence[Expr], value: Expr) -> Any:
        spatial = dict(zip((axis.var for axis in self.conv.axes[2:]), at, strict=True))
        return self.conv.finish(value, {**self.lead(place, row), **spatial})

    def lead(self, place: _Place, row: Expr) -> dict[ir.Var, Expr]:
        """The values of the batch and channel axes."""
        channel = place.group * self.conv.channels + place.tile * self.conv.tile.rows + row
        return {self.conv.axes[0].var: place.image, self.conv.axes[1].var: channel}

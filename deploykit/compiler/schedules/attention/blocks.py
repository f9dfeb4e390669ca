"""Attention for a block of query rows, with one vector lane per row.

The queries of the block are transposed once. Then scores are computed as `[key, row]`, in register tiles of keys times
rows: a key element is a scalar, and a vector holds the same element of all queries. Peaks, powers and totals are vector
operations without reductions across lanes. Sums of values are kept as `[row, place]`, in tiles of rows times places: a
power is a scalar, and a vector holds several places of a value. Keys and values are read in place if such a vector is
contiguous; otherwise a block of them is copied to a local buffer.

Rows beyond the last are computed as copies of the last row and are not stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from tvm import tirx

from deploykit.compiler.devices.cpu import Device
from deploykit.compiler.operators.softmax_exp import power_of
from deploykit.compiler.schedules.attention.problem import AttentionProblem
from deploykit.compiler.schedules.kernel.loops import Code, local, loop, main_and_tail, unrolled, vectorized
from deploykit.compiler.schedules.matmul.tile import (
    Tile,
    each_vector,
    step,
    steps,
    tallest_with_factors,
    together,
    zero,
)
from deploykit.compiler.tir.rewriting import Buffer, Expr, sequence
from deploykit.compiler.tir.values import const

DTYPE = "float32"

KEY_BLOCK = 64
"""The most keys whose scores are computed before their values are used."""

HIGHEST = 8
"""The most keys of a register tile."""

LOCAL_ELEMENTS = 4096
"""The most elements of a local copy of keys or values."""


@dataclass(frozen=True)
class BlockPlace:
    """A block of rows: the coordinates of its head, its first row, and the number of rows to store."""

    lead: Sequence[Expr]
    first: Expr
    count: Expr


@dataclass(frozen=True)
class AttentionBlocks:
    """Attention for up to `height` rows at once."""

    problem: AttentionProblem
    device: Device
    height: int

    @cached_property
    def lanes(self) -> int:
        return self.device.lanes(32)

    @cached_property
    def tile(self) -> Tile:
        """The largest tile of keys (or places) by rows that the registers hold."""
        vectors = self.height // self.lanes
        budget = self.device.vector_registers
        sums = budget // 2 if budget >= 32 else budget * 3 // 4
        rows = max(1, sums // vectors)
        if self.device.loads_first:
            rows = min(rows, tallest_with_factors(self.device, vectors))
        return Tile(min(HIGHEST, rows), vectors, self.lanes, DTYPE)

    @cached_property
    def row_tile(self) -> int:
        """The rows of a tile of rows by places; a divisor of the height."""
        return max(rows for rows in range(1, self.tile.rows + 1) if self.height % rows == 0)

    @cached_property
    def key_block(self) -> int:
        widest = max(self.problem.depth, self.problem.width)
        fitting = min(KEY_BLOCK, LOCAL_ELEMENTS // widest)
        return max(1, fitting // self.tile.rows) * self.tile.rows

    def run(self, lead: Sequence[Expr], first: Expr, count: Expr) -> tirx.Stmt:
        """The statements for the whole block."""
        return BlockEmitter(self, BlockPlace(lead, first, count)).statement()


class BlockEmitter:
    """Emits the statements for one block."""

    def __init__(self, blocks: AttentionBlocks, place: BlockPlace) -> None:
        self.blocks, self.place = blocks, place
        self.problem, self.tile = blocks.problem, blocks.tile
        height = blocks.height
        self.queries = local("queries", self.problem.depth * height, DTYPE)
        self.powers = local("powers", blocks.key_block * height, DTYPE)
        self.sums = local("sums", self.problem.width * height, DTYPE)
        self.peak, self.total, self.factor = (local(name, height, DTYPE) for name in ("peak", "total", "factor"))
        self.copies = {
            operand: local(operand, blocks.key_block * size, DTYPE)
            for operand, size in (("keys", self.problem.depth), ("values", self.problem.width))
            if not (self.problem.plain(operand) and self.problem.strides(operand)[0])
        }

    def buffers(self) -> list[Buffer]:
        """All local buffers of the block."""
        return [self.queries, self.powers, self.sums, self.peak, self.total, self.factor, *self.copies.values()]

    def statement(self) -> tirx.Stmt:
        code = Code()
        code.add(*(tirx.AllocBuffer(buffer) for buffer in self.buffers()), *self.start())
        place = self.place
        start, stop = self.problem.visited(place.lead, place.first, place.first + place.count - 1)
        start = code.let("start", start)
        keys = code.let("keys", tirx.max(stop - start, const(0)))
        size = self.blocks.key_block
        code.add(loop("block", tirx.floordiv(keys + (size - 1), const(size)), partial(self.key_block, start, keys)))
        code.add(*self.finish())
        return code.statement()

    def start(self) -> list[tirx.Stmt]:
        """What is done before any key."""
        sums = main_and_tail(
            "place",
            self.problem.width * self.blocks.height,
            self.tile.lanes,
            lambda at: tirx.BufferStore(self.sums, tirx.const(0, DTYPE), [at]),
        )
        return [*self.turned(), *self.without_keys(), *sums]

    def turned(self) -> list[tirx.Stmt]:
        """Transpose the queries."""
        height, depth = self.blocks.height, self.problem.depth

        def query(row: Expr, d: Expr) -> tirx.Stmt:
            value = self.problem.query(self.place.lead, self.place.first + row, d)
            return tirx.BufferStore(self.queries, value, [d * height + row])

        def repeated(row: Expr, d: Expr) -> tirx.Stmt:
            value = tirx.BufferLoad(self.queries, [d * height + self.place.count - 1])
            return tirx.BufferStore(self.queries, value, [d * height + row])

        beyond = const(height) - self.place.count
        return [
            loop("row", self.place.count, lambda row: loop("d", depth, lambda d: query(row, d))),
            loop("d", depth, lambda d: loop("row", beyond, lambda row: repeated(self.place.count + row, d))),
        ]

    def without_keys(self) -> list[tirx.Stmt]:
        """The peaks and totals of no scores."""
        return [
            self.rows(lambda row: tirx.BufferStore(self.peak, tirx.min_value(DTYPE), [row])),
            self.rows(lambda row: tirx.BufferStore(self.total, tirx.const(0, DTYPE), [row])),
        ]

    def rows(self, body: Callable[[Expr], tirx.Stmt]) -> tirx.Stmt:
        """`body` for every row, one vector at a time."""
        lanes, count = self.tile.lanes, self.tile.vectors

        def vector(v: Expr) -> tirx.Stmt:
            return vectorized(lanes, lambda lane: body(v * lanes + lane))

        return unrolled("v", count, vector, lanes == 1)

    def key_block(self, start: Expr, keys: Expr, block: Expr) -> tirx.Stmt:
        size = self.blocks.key_block
        code = Code()
        offset = code.let("offset", block * size)
        first = code.let("first", start + offset)
        count = code.let("count", tirx.min(const(size), keys - offset))
        for operand, target in self.copies.items():
            code.add(self.copied(operand, target, first, count))
        code.add(self.rows(lambda row: tirx.BufferStore(self.factor, self.peak[row], [row])))
        code.add(
            *self.scores(first, count),
            self.rows(self.rescaled),
            loop("key", count, self.powers_of),
            *self.weighted(first, count),
        )
        return code.statement()

    def copied(self, operand: str, target: Buffer, first: Expr, count: Expr) -> tirx.Stmt:
        """Copy a block of keys or values to a local buffer, one vector after the other."""
        keys = operand == "keys"
        size = self.problem.depth if keys else self.problem.width
        stride = self.stride(target)
        element = self.problem.key if keys else self.problem.value

        def copy(key: Expr, e: Expr) -> tirx.Stmt:
            return tirx.BufferStore(target, element(self.place.lead, first + key, e), [key * stride + e])

        if self.problem.strides(operand)[0]:
            return loop("key", count, lambda key: loop("e", size, lambda e: copy(key, e)))
        return loop("e", size, lambda e: loop("key", count, lambda key: copy(key, e)))

    def operand(self, name: str, first: Expr, key: Expr, e: Expr) -> Expr:
        """An element of a key or value vector, from its local copy if there is one."""
        if name in self.copies:
            copy = self.copies[name]
            return tirx.BufferLoad(copy, [key * self.stride(copy) + e])
        element = self.problem.key if name == "keys" else self.problem.value
        return element(self.place.lead, first + key, e)

    def stride(self, copy: Buffer) -> int:
        """The elements of each key or value in a local copy."""
        return int(copy.shape[0]) // self.blocks.key_block

    def scores(self, first: Expr, count: Expr) -> list[tirx.Stmt]:
        """Compute the scores of `count` keys from `first`, in tiles of keys by rows, and raise the peaks to them. The
        last tile may compute the last key several times, so that all tiles have the same height."""
        rows = const(self.tile.rows)
        whole = tirx.truncdiv(count, rows)
        rest = tirx.IfThenElse(whole * rows < count, self.score_tile(first, whole * rows, count - 1), None)
        return [loop("t", whole, lambda index: self.score_tile(first, index * rows, None)), rest]

    def score_tile(self, first: Expr, key: Expr, last: Expr | None) -> tirx.Stmt:
        """Compute the scores of a tile of keys from `first + key`, none after `first + last`."""
        tile, height = self.tile, self.blocks.height
        products = tile.scratch()

        def place(i: Expr) -> Expr:
            return key + i if last is None else tirx.min(key + i, last)

        def element(i: Expr, d: Expr) -> Expr:
            return self.operand("keys", first, place(i), d)

        def query(d: Expr, row: Expr) -> Expr:
            return tirx.BufferLoad(self.queries, [d * height + row])

        def score(i: Expr, row: Expr, at: Expr) -> tirx.Stmt:
            value = self.problem.score(self.place.lead, self.exact(row), first + place(i), products[at])
            return tirx.BufferStore(self.powers, value, [(key + i) * height + row])

        added = steps(tile, products, self.problem.depth, element, query, together(self.blocks.device, tile))
        begun = [tirx.AllocBuffer(products), zero(tile, products), added]
        return sequence([*begun, each_vector(tile, score), self.risen(key, tile.rows)])

    def exact(self, row: Expr) -> Expr:
        """The query row of a row of the block; that of the last one for rows beyond it."""
        return self.place.first + tirx.min(row, self.place.count - 1)

    def risen(self, key: Expr, count: int) -> tirx.Stmt:
        """Raise the peaks to the scores of `count` keys."""

        def raised(row: Expr) -> tirx.Stmt:
            found: list[Expr] = [self.powers[(key + i) * self.blocks.height + row] for i in range(count)]
            while len(found) > 1:
                pairs = [tirx.max(a, b) for a, b in zip(found[::2], found[1::2], strict=False)]
                found = pairs + found[len(pairs) * 2 :]
            return tirx.BufferStore(self.peak, tirx.max(self.peak[row], found[0]), [row])

        return self.rows(raised)

    def rescaled(self, row: Expr) -> tirx.Stmt:
        """Compute the factor by which a raised peak shrinks earlier sums, and apply it to the total."""
        return sequence(
            [
                tirx.BufferStore(self.factor, power_of(self.factor[row] - self.peak[row]), [row]),
                tirx.BufferStore(self.total, self.total[row] * self.factor[row], [row]),
            ]
        )

    def powers_of(self, key: Expr) -> tirx.Stmt:
        """Compute the powers of the scores of a key, and add them to the totals."""

        def power(row: Expr) -> tirx.Stmt:
            at = key * self.blocks.height + row
            return sequence(
                [
                    tirx.BufferStore(self.powers, power_of(self.powers[at] - self.peak[row]), [at]),
                    tirx.BufferStore(self.total, self.total[row] + self.powers[at], [row]),
                ]
            )

        return self.rows(power)

    def weighted(self, first: Expr, count: Expr) -> list[tirx.Stmt]:
        """Add the values of a block of keys to the sums, in tiles of rows by places. The last tile may reach beyond the
        rows that are stored."""
        high, width = self.blocks.row_tile, self.problem.width
        tiles = tirx.floordiv(self.place.count + (high - 1), const(high))
        pieces = _pieces(width, self.tile.vectors, self.tile.lanes)

        def tile(index: Expr) -> tirx.Stmt:
            return sequence([self.sum_tile(piece, start, index * high, first, count) for start, piece in pieces])

        return [loop("t", tiles, tile)]

    def sum_tile(self, vectors: tuple[int, int], start: int, row: Expr, first: Expr, count: Expr) -> tirx.Stmt:
        tile = Tile(self.blocks.row_tile, *vectors, DTYPE)
        height, width = self.blocks.height, self.problem.width
        sums = tile.scratch()

        def begin(i: Expr, e: Expr, at: Expr) -> tirx.Stmt:
            found = self.sums[(row + i) * width + start + e] * self.factor[row + i]
            return tirx.BufferStore(sums, found, [at])

        held = local("held", tile.rows, DTYPE)
        at_once = together(self.blocks.device, tile)
        holds = at_once > 1 and tile.rows % at_once == 0

        def power(key: Expr, i: Expr) -> Expr:
            return tirx.BufferLoad(self.powers, [key * height + row + i])

        def hold(key: Expr, v: Expr) -> tirx.Stmt:
            return vectorized(at_once, lambda s: tirx.BufferStore(held, power(key, v + s), [v + s]))

        def add(key: Expr) -> tirx.Stmt:
            factors = partial(power, key)
            loads: list[tirx.Stmt] = []
            if holds:
                factors = partial(_element, held)
                loads = [tirx.AllocBuffer(held), *(hold(key, const(v)) for v in range(0, tile.rows, at_once))]
            return sequence(
                [*loads, step(tile, sums, factors, lambda e: self.operand("values", first, key, start + e))]
            )

        def end(i: Expr, e: Expr, at: Expr) -> tirx.Stmt:
            return tirx.BufferStore(self.sums, sums[at], [(row + i) * width + start + e])

        added = loop("key", count, add)
        return sequence([tirx.AllocBuffer(sums), each_vector(tile, begin), added, each_vector(tile, end)])

    def finish(self) -> list[tirx.Stmt]:
        """Store the sums times the shares."""
        width, place = self.problem.width, self.place

        def store(row: Expr, e: Expr) -> tirx.Stmt:
            found = self.sums[row * width + e]
            return self.problem.store(place.lead, place.first + row, e, found, self.total[row])

        stores = loop("row", place.count, lambda row: loop("place", width, lambda e: store(row, e)))
        return [self.rows(self.share), stores]

    def share(self, row: Expr) -> tirx.Stmt:
        """Compute the share of a row in place of its total."""
        return tirx.BufferStore(
            self.total, self.problem.share(self.place.lead, self.exact(row), self.total[row]), [row]
        )


def _element(buffer: Buffer, index: Expr) -> Expr:
    return tirx.BufferLoad(buffer, [index])


def _pieces(width: int, most: int, lanes: int) -> list[tuple[int, tuple[int, int]]]:
    """Splits `width` places into few tiles: the first place of each, its number of vectors (at most `most`), its
    lanes."""
    pieces: list[tuple[int, tuple[int, int]]] = []
    start = 0
    while start < width:
        while lanes > width - start:
            lanes //= 2
        vectors = min(most, (width - start) // lanes)
        pieces.append((start, (vectors, lanes)))
        start += vectors * lanes
    return pieces

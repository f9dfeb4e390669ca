"""Attention for a block of query rows in the tile registers of AMX, with factors rounded to bfloat16.

Like `blocks`, with other products. A register has 16 rows of 32 neighbouring factors, or 16 pairs of neighbouring terms
of 16 columns (`schedules.integer.amx`):

    scores [key, row]    keys [key, place] times pairs of places of the queries, which are packed once
    sums [row, place]    powers [row, key] times pairs of keys of the values

Scores and sums are in memory between the products; peaks, powers and totals are computed in float32 as in `blocks`.
Places beyond a vector, and keys beyond the last one of a block, are zeros where they are multiplied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from tvm import ir, tirx

from deploykit.compiler.devices.amx import ROWS, TALL
from deploykit.compiler.schedules.attention.blocks import DTYPE, KEY_BLOCK, AttentionBlocks, BlockEmitter, BlockPlace
from deploykit.compiler.schedules.integer.amx import by_layers
from deploykit.compiler.schedules.kernel.loops import Code, local, loop
from deploykit.compiler.schedules.kernel.pointers import pointer, run
from deploykit.compiler.tir.rewriting import Buffer, Expr, sequence
from deploykit.compiler.tir.values import consecutive, const, repeated

STEP = 2 * ROWS
"""The terms that one instruction adds to a sum."""

TOGETHER = 4
"""The keys whose scores are compared with the peaks at a time."""


@dataclass(frozen=True)
class AttentionTiles(AttentionBlocks):
    """Attention for up to `height` rows at once: 16 or 32."""

    @property
    def key_block(self) -> int:
        return KEY_BLOCK

    def run(self, lead: Sequence[Expr], first: Expr, count: Expr) -> tirx.Stmt:
        return _TileEmitter(self, BlockPlace(lead, first, count)).statement()


class _TileEmitter(BlockEmitter):
    """Emits the statements for one block."""

    def __init__(self, blocks: AttentionBlocks, place: BlockPlace) -> None:
        super().__init__(blocks, place)
        height, block = blocks.height, blocks.key_block
        self.depth, width = _up(self.problem.depth, STEP), _up(self.problem.width, ROWS)
        self.queries = local("queries", self.depth * height, DTYPE)
        self.query_pairs = local("query_pairs", self.depth // 2 * height, "int32")
        self.key_halves = local("key_halves", block * self.depth // 2, "int32")
        self.products = local("products", block * height, DTYPE)
        self.power_halves = local("power_halves", height * block // 2, "int32")
        self.copies = {
            operand: local(operand, block * padded, DTYPE)
            for operand, size, padded in (
                ("keys", self.problem.depth, self.depth),
                ("values", self.problem.width, width),
            )
            if size != padded or not (self.problem.plain(operand) and self.problem.strides(operand)[0])
        }
        self.columns = [(start, min(2 * ROWS, width - start)) for start in range(0, width, 2 * ROWS)]
        """The first place and the number of places of each panel of values."""
        self.value_pairs = [local("value_pairs", block // 2 * count, "int32") for _, count in self.columns]
        self.panel_sums = [local("sums", height * count, DTYPE) for _, count in self.columns]

    def buffers(self) -> list[Buffer]:
        own = [self.query_pairs, self.key_halves, self.products, self.power_halves, *self.value_pairs, *self.panel_sums]
        return [self.queries, self.powers, self.peak, self.total, self.factor, *self.copies.values(), *own]

    def statement(self) -> tirx.Stmt:
        return sequence([run("amx_configure", const(ROWS)), super().statement(), run("amx_release")])

    def start(self) -> list[tirx.Stmt]:
        height = self.blocks.height

        def pairs(pair: Expr) -> tirx.Stmt:
            return self._pairs(self.query_pairs, pair * height, self.queries, pair * (2 * height), height)

        padded = [] if self.depth == self.problem.depth else [self.queries]
        return [
            *map(self._cleared, [*padded, *self.copies.values(), *self.panel_sums]),
            *self.turned(),
            loop("pair", self.depth // 2, pairs),
            *self.without_keys(),
        ]

    def _cleared(self, buffer: Buffer) -> tirx.Stmt:
        def clear(v: Expr) -> tirx.Stmt:
            return tirx.BufferStore(buffer, repeated(tirx.const(0, DTYPE), ROWS), [_vector(v * ROWS)])

        return loop("v", int(buffer.shape[0]) // ROWS, clear)

    def _pairs(self, target: Buffer, at: Expr, source: Buffer, start: Expr, count: int) -> tirx.Stmt:
        """Store pairs of numbers of two rows of `count` numbers, one behind the other in `source`."""

        def stored(v: int) -> tirx.Stmt:
            low, high = (tirx.BufferLoad(source, [_vector(start + (row * count + v))]) for row in range(2))
            return tirx.BufferStore(target, _bf16("pairs", low, high), [_vector(at + v)])

        return sequence([stored(v) for v in range(0, count, ROWS)])

    def scores(self, first: Expr, count: Expr) -> list[tirx.Stmt]:
        height, block, vectors = self.blocks.height, self.blocks.key_block, self.blocks.height // ROWS

        def halves(key: Expr) -> tirx.Stmt:
            def stored(start: int) -> tirx.Stmt:
                low, high = (self._vector_of("keys", first, key, start + more) for more in (0, ROWS))
                at = key * (self.depth // 2) + start // 2
                return tirx.BufferStore(self.key_halves, _bf16("run", low, high), [_vector(at)])

            return sequence([stored(start) for start in range(0, self.depth, STEP)])

        def multiplied(layers: int, layer: Expr) -> tirx.Stmt:
            sums, declared = pointer("sums", self.products, layer * (ROWS * height))
            left, others = pointer("left", self.key_halves, layer * (ROWS * self.depth // 2))
            steps = const(self.depth // STEP)
            product = _multiplied(layers, vectors, sums, left, 2 * self.depth, self.query_pairs, steps, 1)
            return sequence([*declared, *others, product])

        layers = tirx.truncdiv(count + (ROWS - 1), const(ROWS))
        whole = tirx.truncdiv(count, const(TOGETHER))
        return [
            loop("key", count, halves),
            by_layers(layers, block // ROWS, TALL[vectors], multiplied),
            loop("t", whole, lambda t: self._raised(first, t * TOGETHER, TOGETHER)),
            loop("key", count - whole * TOGETHER, lambda key: self._raised(first, whole * TOGETHER + key, 1)),
        ]

    def _vector_of(self, operand: str, first: Expr, key: Expr, start: int) -> Expr:
        """16 neighbouring elements of a key or value vector."""
        load = self.operand(operand, first, key, const(start))
        assert isinstance(load, ir.TensorLoad)
        return tirx.BufferLoad(load.source, [_vector(load.indices[0])])

    def _raised(self, first: Expr, key: Expr, count: int) -> tirx.Stmt:
        """Compute the scores of `count` keys from their products, and raise the peaks to them."""
        height = self.blocks.height

        def score(i: int, row: Expr) -> tirx.Stmt:
            at = (key + i) * height + row
            product = tirx.BufferLoad(self.products, [at])
            value = self.problem.score(self.place.lead, self.exact(row), first + key + i, product)
            return tirx.BufferStore(self.powers, value, [at])

        return sequence([*(self.rows(partial(score, i)) for i in range(count)), self.risen(key, count)])

    def powers_of(self, key: Expr) -> tirx.Stmt:
        height = self.blocks.height
        steps = []
        for v in range(0, height, ROWS):
            at, row = _vector(key * height + v), _vector(const(v))
            below = tirx.BufferLoad(self.powers, [at]) - tirx.BufferLoad(self.peak, [row])
            steps.append(tirx.BufferStore(self.powers, tirx.call_pure_extern("float32x16", "bf16_power", below), [at]))
            total = tirx.BufferLoad(self.total, [row]) + tirx.BufferLoad(self.powers, [at])
            steps.append(tirx.BufferStore(self.total, total, [row]))
        return sequence(steps)

    def weighted(self, first: Expr, count: Expr) -> list[tirx.Stmt]:
        height, block, vectors = self.blocks.height, self.blocks.key_block, self.blocks.height // ROWS
        code = Code()
        steps = code.let("steps", tirx.truncdiv(count + (STEP - 1), const(STEP)))

        def nothing(key: Expr) -> tirx.Stmt:
            return self.rows(
                lambda row: tirx.BufferStore(self.powers, tirx.const(0, DTYPE), [(count + key) * height + row])
            )

        def halves(s: Expr) -> tirx.Stmt:
            found: list[tirx.Stmt] = []
            for v in range(vectors):
                to, declared = pointer("to", self.power_halves, s * ROWS + v * (ROWS * block // 2))
                source, others = pointer("source", self.powers, s * (STEP * height) + v * ROWS)
                turned = run("amx_halves", to, const(2 * block), source, const(4 * height))
                found += [*declared, *others, turned]
            return sequence(found)

        code.add(loop("key", steps * STEP - count, nothing), loop("s", steps, halves))
        for (start, columns), pairs, sums in zip(self.columns, self.value_pairs, self.panel_sums, strict=True):
            code.add(
                *self._value_pairs(first, count, steps * ROWS, start, columns, pairs),
                self._rescaled_sums(sums, columns),
                _multiplied(vectors, columns // ROWS, sums, self.power_halves, 2 * block, pairs, steps, 0),
            )
        return [code.statement()]

    def _value_pairs(
        self, first: Expr, count: Expr, all_pairs: Expr, start: int, columns: int, target: Buffer
    ) -> list[tirx.Stmt]:
        """Store pairs of values of neighbouring keys, and zeros for keys that do not exist."""
        whole = tirx.truncdiv(count, const(2))
        zeros = repeated(tirx.const(0, DTYPE), ROWS)

        def pair(at: Expr, last: bool) -> tirx.Stmt:
            def stored(v: int) -> tirx.Stmt:
                low = self._vector_of("values", first, at * 2, start + v)
                high = zeros if last else self._vector_of("values", first, at * 2 + 1, start + v)
                return tirx.BufferStore(target, _bf16("pairs", low, high), [_vector(at * columns + v)])

            return sequence([stored(v) for v in range(0, columns, ROWS)])

        def none(at: Expr) -> tirx.Stmt:
            nothing = repeated(tirx.const(0, "int32"), ROWS)
            return sequence(
                [tirx.BufferStore(target, nothing, [_vector(at * columns + v)]) for v in range(0, columns, ROWS)]
            )

        rounded = tirx.truncdiv(count + 1, const(2))
        return [
            loop("pair", whole, lambda at: pair(at, False)),
            tirx.IfThenElse(whole < rounded, pair(whole, True), None),
            loop("pair", all_pairs - rounded, lambda at: none(rounded + at)),
        ]

    def _rescaled_sums(self, sums: Buffer, columns: int) -> tirx.Stmt:
        def row(i: Expr) -> tirx.Stmt:
            factor = repeated(tirx.BufferLoad(self.factor, [i]), ROWS)
            places = [_vector(i * columns + v) for v in range(0, columns, ROWS)]
            return sequence([tirx.BufferStore(sums, tirx.BufferLoad(sums, [at]) * factor, [at]) for at in places])

        return loop("row", self.blocks.height, row)

    def finish(self) -> list[tirx.Stmt]:
        place = self.place

        def panel(row: Expr, start: int, columns: int, sums: Buffer) -> tirx.Stmt:
            def store(e: Expr) -> tirx.Stmt:
                found = tirx.BufferLoad(sums, [row * columns + e])
                return self.problem.store(place.lead, place.first + row, start + e, found, self.total[row])

            return loop("place", min(columns, self.problem.width - start), store)

        def stores(row: Expr) -> tirx.Stmt:
            return sequence(
                [panel(row, *where, sums) for where, sums in zip(self.columns, self.panel_sums, strict=True)]
            )

        return [self.rows(self.share), loop("row", place.count, stores)]


def _up(size: int, step: int) -> int:
    return -(-size // step) * step


def _vector(at: Expr) -> Expr:
    return consecutive(at, ROWS)


def _bf16(kind: str, low: Expr, high: Expr) -> Expr:
    """16 words of bfloat16: `pairs` of both operands, or one operand behind the other."""
    return tirx.call_pure_extern(f"int32x{ROWS}", f"bf16_{kind}", low, high)


def _multiplied(
    layers: int, vectors: int, sums: Buffer, left: Buffer, stride: int, right: Buffer, steps: Expr, first: int
) -> tirx.Stmt:
    operands = (const(ROWS), const(stride), steps, steps, const(0), const(first))
    return run(f"amx_tdpbf16ps_{layers}x{vectors}", sums, left, right, right, *operands)

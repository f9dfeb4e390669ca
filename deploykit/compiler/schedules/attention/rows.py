"""Attention for a few query rows, one by one, as in a decoding step, which streams keys and values once.

A block of keys is used for all rows while it is in the cache. Scores are products of two contiguous vectors. If keys
are transposed instead, they are sums over places, for neighbouring keys at once. The powers of a block are computed in
whole vectors, and the sums of values stay in registers over the block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from tvm import tirx

from deploykit.compiler.devices.cpu import Device
from deploykit.compiler.operators.softmax_exp import power_of
from deploykit.compiler.schedules.attention.problem import AttentionProblem
from deploykit.compiler.schedules.kernel.loops import Code, local, loop, main_and_tail, unrolled, vectorized
from deploykit.compiler.schedules.reduction.accumulators import folded
from deploykit.compiler.tir.rewriting import Buffer, Expr, sequence
from deploykit.compiler.tir.values import const

DTYPE = "float32"

KEY_BLOCK = 64
"""The most keys whose scores are computed before their values are used: a multiple of every vector's lanes."""

VECTORS = 8
"""The most vectors of sums that are kept in registers."""


@dataclass(frozen=True)
class AttentionRows:
    """Attention for up to `most` rows."""

    problem: AttentionProblem
    device: Device
    most: int

    def run(self, lead: Sequence[Expr], first: Expr, count: Expr) -> tirx.Stmt:
        """The statements for the rows `first` to `first + count`, the end excluded."""
        return _Emitter(self, lead, first, count).statement()


class _Emitter:
    """Emits the statements for the rows of one head."""

    def __init__(self, rows: AttentionRows, lead: Sequence[Expr], first: Expr, count: Expr) -> None:
        self.problem, self.lead, self.first, self.count = rows.problem, lead, first, count
        self.lanes = rows.device.lanes(32)
        most = rows.most
        self.queries = local("queries", most * self.problem.depth, DTYPE)
        self.sums = local("sums", most * self.problem.width, DTYPE)
        self.scores = local("scores", KEY_BLOCK, DTYPE)
        self.peak, self.total = (local(name, most, DTYPE) for name in ("peak", "total"))
        self.fresh, self.factor = local("fresh", 1, DTYPE), local("factor", 1, DTYPE)

    def statement(self) -> tirx.Stmt:
        buffers = [self.queries, self.sums, self.scores, self.peak, self.total, self.fresh, self.factor]
        code = Code()
        code.add(*(tirx.AllocBuffer(buffer) for buffer in buffers), loop("row", self.count, self.start))
        start, stop = self.problem.visited(self.lead, self.first, self.first + self.count - 1)
        start = code.let("start", start)
        keys = code.let("keys", tirx.max(stop - start, const(0)))
        blocks = tirx.floordiv(keys + (KEY_BLOCK - 1), const(KEY_BLOCK))
        code.add(loop("block", blocks, partial(self.key_block, start, keys)), loop("row", self.count, self.finish))
        return code.statement()

    def start(self, row: Expr) -> tirx.Stmt:
        depth, width, none = self.problem.depth, self.problem.width, tirx.const(0, DTYPE)

        def query(d: Expr) -> tirx.Stmt:
            value = self.problem.query(self.lead, self.first + row, d)
            return tirx.BufferStore(self.queries, value, [row * depth + d])

        return sequence(
            [
                loop("d", depth, query),
                tirx.BufferStore(self.peak, tirx.min_value(DTYPE), [row]),
                tirx.BufferStore(self.total, none, [row]),
                *self.vectors(width, lambda e: tirx.BufferStore(self.sums, none, [row * width + e])),
            ]
        )

    def vectors(self, size: Expr | int, body: Callable[[Expr], tirx.Stmt]) -> list[tirx.Stmt]:
        return main_and_tail("e", size, self.lanes, body)

    def key_block(self, start: Expr, keys: Expr, block: Expr) -> tirx.Stmt:
        code = Code()
        offset = code.let("offset", block * KEY_BLOCK)
        first = code.let("first", start + offset)
        count = code.let("count", tirx.min(const(KEY_BLOCK), keys - offset))
        code.add(loop("row", self.count, lambda row: self.row_block(row, first, count)))
        return code.statement()

    def row_block(self, row: Expr, first: Expr, count: Expr) -> tirx.Stmt:
        """Process one block of keys for one row."""
        zero = const(0)
        whole = tirx.floordiv(count + (self.lanes - 1), const(self.lanes))
        steps = [
            tirx.BufferStore(self.fresh, self.peak[row], [zero]),
            *self.products(row, first, count),
            loop("key", count, lambda key: self.score(row, first, key)),
            loop("key", whole * self.lanes - count, lambda key: self.closed(count + key)),
            tirx.BufferStore(self.factor, tirx.exp(self.peak[row] - self.fresh[zero]), [zero]),
            tirx.BufferStore(self.peak, self.fresh[zero], [row]),
            tirx.BufferStore(self.total, self.total[row] * self.factor[zero], [row]),
            *self.powers(row, whole),
            *self.weighted(row, first, count),
        ]
        return sequence(steps)

    def products(self, row: Expr, first: Expr, count: Expr) -> list[tirx.Stmt]:
        """Compute the products of the query with a block of keys."""
        contiguous, across = self.problem.strides("keys")
        depth = self.problem.depth
        if self.lanes > 1 and contiguous and depth >= self.lanes:
            return [loop("key", count, lambda key: self.dot(row, first, key))]
        lanes = self.lanes if across and not contiguous else 1

        def places(key: Expr, width: int) -> tirx.Stmt:
            cells = local("products", width, DTYPE)

            def add(d: Expr, lane: Expr) -> tirx.Stmt:
                value = self.queries[row * depth + d] * self.problem.key(self.lead, first + key + lane, d)
                return tirx.BufferStore(cells, cells[lane] + value, [lane])

            return sequence(
                [
                    tirx.AllocBuffer(cells),
                    vectorized(width, lambda lane: tirx.BufferStore(cells, tirx.const(0, DTYPE), [lane])),
                    loop("d", depth, lambda d: vectorized(width, lambda lane: add(d, lane))),
                    vectorized(width, lambda lane: tirx.BufferStore(self.scores, cells[lane], [key + lane])),
                ]
            )

        if lanes == 1:
            return [loop("key", count, lambda key: places(key, 1))]
        whole = tirx.floordiv(count, const(lanes))
        return [
            loop("vector", whole, lambda v: places(v * lanes, lanes)),
            loop("key", count - whole * lanes, lambda key: places(whole * lanes + key, 1)),
        ]

    def dot(self, row: Expr, first: Expr, key: Expr) -> tirx.Stmt:
        """Compute the product of two contiguous vectors."""
        lanes, depth, zero = self.lanes, self.problem.depth, const(0)
        partial_sums, rest = local("partial", lanes, DTYPE), local("dot", 1, DTYPE)

        def term(d: Expr) -> Expr:
            return self.queries[row * depth + d] * self.problem.key(self.lead, first + key, d)

        def add(target: Buffer, at: Expr, d: Expr) -> tirx.Stmt:
            return tirx.BufferStore(target, target[at] + term(d), [at])

        whole = depth // lanes
        return sequence(
            [
                tirx.AllocBuffer(partial_sums),
                tirx.AllocBuffer(rest),
                vectorized(lanes, lambda lane: tirx.BufferStore(partial_sums, term(lane), [lane])),
                unrolled(
                    "d",
                    whole - 1,
                    lambda v: vectorized(lanes, lambda lane: add(partial_sums, lane, (v + 1) * lanes + lane)),
                    False,
                ),
                tirx.BufferStore(rest, tirx.const(0, DTYPE), [zero]),
                loop("d", depth - whole * lanes, lambda d: add(rest, zero, whole * lanes + d)),
                *folded(partial_sums, rest, lanes, lanes, tirx.Add),
                tirx.BufferStore(self.scores, rest[zero], [key]),
            ]
        )

    def score(self, row: Expr, first: Expr, key: Expr) -> tirx.Stmt:
        """Compute the score from a product, and raise the peak to it."""
        value = self.problem.score(self.lead, self.first + row, first + key, self.scores[key])
        zero = const(0)
        return sequence(
            [
                tirx.BufferStore(self.scores, value, [key]),
                tirx.BufferStore(self.fresh, tirx.max(self.fresh[zero], self.scores[key]), [zero]),
            ]
        )

    def closed(self, key: Expr) -> tirx.Stmt:
        return tirx.BufferStore(self.scores, tirx.const(float("-inf"), DTYPE), [key])

    def powers(self, row: Expr, whole: Expr) -> list[tirx.Stmt]:
        """Compute the powers from scores, and add them to the total."""
        lanes, zero = self.lanes, const(0)
        partial_sums, total = local("partial", lanes, DTYPE), local("powers", 1, DTYPE)

        def power(v: Expr, lane: Expr) -> tirx.Stmt:
            at = v * lanes + lane
            return sequence(
                [
                    tirx.BufferStore(self.scores, power_of(self.scores[at] - self.fresh[zero]), [at]),
                    tirx.BufferStore(partial_sums, partial_sums[lane] + self.scores[at], [lane]),
                ]
            )

        return [
            tirx.AllocBuffer(partial_sums),
            tirx.AllocBuffer(total),
            vectorized(lanes, lambda lane: tirx.BufferStore(partial_sums, tirx.const(0, DTYPE), [lane])),
            tirx.BufferStore(total, self.total[row], [zero]),
            loop("vector", whole, lambda v: vectorized(lanes, lambda lane: power(v, lane))),
            *folded(partial_sums, total, lanes, lanes, tirx.Add),
            tirx.BufferStore(self.total, total[zero], [row]),
        ]

    def weighted(self, row: Expr, first: Expr, count: Expr) -> list[tirx.Stmt]:
        """Add the values of a block of keys to the sums of a row."""
        lanes, width = self.lanes, self.problem.width
        steps: list[tirx.Stmt] = []
        done = 0
        while done < width:
            vectors = min(VECTORS, (width - done) // lanes)
            size = vectors * lanes or width - done
            steps.append(self.sum_tile(row, done, size, lanes if vectors else 1, first, count))
            done += size
        return steps

    def sum_tile(self, row: Expr, done: int, size: int, lanes: int, first: Expr, count: Expr) -> tirx.Stmt:
        """Add to the sums of `size` places from `done` on, in vectors of `lanes`."""
        cells = local("cells", size, DTYPE)
        at = row * self.problem.width + done

        def each(body: Callable[[Expr], tirx.Stmt]) -> tirx.Stmt:
            return unrolled(
                "v", size // lanes, lambda v: vectorized(lanes, lambda lane: body(v * lanes + lane)), lanes == 1
            )

        def add(key: Expr, e: Expr) -> tirx.Stmt:
            value = self.scores[key] * self.problem.value(self.lead, first + key, done + e)
            return tirx.BufferStore(cells, cells[e] + value, [e])

        return sequence(
            [
                tirx.AllocBuffer(cells),
                each(lambda e: tirx.BufferStore(cells, self.sums[at + e] * self.factor[const(0)], [e])),
                loop("key", count, lambda key: each(partial(add, key))),
                each(lambda e: tirx.BufferStore(self.sums, cells[e], [at + e])),
            ]
        )

    def finish(self, row: Expr) -> tirx.Stmt:
        width, exact = self.problem.width, self.first + row
        share = tirx.BufferStore(self.total, self.problem.share(self.lead, exact, self.total[row]), [row])

        def store(e: Expr) -> tirx.Stmt:
            return self.problem.store(self.lead, exact, e, self.sums[row * width + e], self.total[row])

        return sequence([share, loop("place", width, store)])

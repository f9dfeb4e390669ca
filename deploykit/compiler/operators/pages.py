"""Keys and values of the tokens that a language model has read, in pages, and attention to them.

A page has room for `PAGE` tokens. A sequence owns pages in any order, which a row of a table lists: its token `p` is in
the page `table[sequence, p // PAGE]`, at the place `p % PAGE`. So sequences of different lengths share one memory, and
two sequences may share the pages of what they have in common. (Source: Kwon et al., "Efficient Memory Management for
Large Language Model Serving with PagedAttention", 2023.)

    cache   (pages, 2, heads, size * PAGE): of a head of a page the keys, (size, PAGE), then the values, (PAGE, size)
    scales  (pages, 2, heads, PAGE): of the keys and values of a token, if the cache has 8 bits

A cache is of float32, float16 or int8. Arithmetic is float32 with all of them.

Keys lie with neighbouring tokens next to each other, so that scores are computed for a vector of tokens; values with
neighbouring channels, so that they are added for a vector of channels. Sums go over the lanes of a vector once, behind
the last page. Pages lie anywhere in memory: while one is computed, the next one is prefetched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

from tvm import ir, te, tirx

from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.expressions import compute
from deploykit.compiler.operators.building.imperative import Array, Cell, Code, imperative
from deploykit.compiler.operators.building.indices import checked
from deploykit.compiler.operators.building.integers import clamp, expr, minimum
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.softmax_exp import power_of
from deploykit.compiler.tir.prefetches import LINE, prefetch
from deploykit.compiler.tir.values import bits_of

PAGE = 32
"""Tokens of a page."""

LANES = 16
"""Elements that are computed together."""

MOST_SUMS = 256
"""The most sums that a kernel keeps: as many as fit into the registers of a CPU with wide vectors."""

PAGED = "deploykit.pages"
"""Annotation of a kernel that writes or reads pages: `STORE` or `ATTENTION`. GPUs have another form of it
(`schedules.gpu.pages`)."""

STORE, ATTENTION = "store", "attention"

LEAST = 1e-37
"""A scale that is smaller has no inverse: its numbers count as zeros."""

LOWEST = -3.0e38
"""Less than every score. It is finite, so that the difference to itself is a number."""


DTYPES = ("float32", "float16", "int8")
"""Of caches."""

GREATEST = 127.0
"""The greatest magnitude of a number of 8 bits."""


class Cache(NamedTuple):
    """The keys and values of a layer."""

    numbers: Value
    scales: Value | None = None


@dataclass(frozen=True)
class Pages:
    """Where the tokens of a step are: `positions` (tokens) in their sequences, `sequences` (tokens), the row of `table`
    (sequences, blocks) that lists the pages of each token's sequence. `count` is the number of pages, and `size` that
    of tokens of a page: `PAGE`, where it has their keys and values."""

    ctx: Context
    positions: Value
    sequences: Value
    table: Value
    count: IntExpr
    size: int = PAGE

    @classmethod
    def checked(
        cls,
        ctx: Context,
        positions: Value,
        sequences: Value,
        table: Value,
        count: IntExpr,
        context: int,
        size: int = PAGE,
    ) -> Pages:
        """The same, where a run with a position, a sequence or a page that is not there is refused. A sequence has at
        most `context` tokens."""
        rows, blocks = table.shape
        last = ctx.simplify(minimum(blocks * size, context) - 1)
        return cls(
            ctx,
            checked(ctx, positions, [(0, last)], 0, "positions"),
            checked(ctx, sequences, [(0, rows - 1)], 1, "sequences"),
            checked(ctx, table, [(0, count - 1)], 2, "pages"),
            count,
            size,
        )

    @property
    def tokens(self) -> IntExpr:
        return self.positions.shape[0]

    @cached_property
    def places(self) -> Value:
        """The place of each token in the cache: `page * PAGE + place in the page`."""

        def build(positions: te.Tensor, sequences: te.Tensor, table: te.Tensor) -> te.Tensor:
            def element(token: ir.Expr) -> ir.Expr:
                position = self.position(positions(token))
                page = self.page(table, sequences(token), tirx.truncdiv(position, expr(PAGE)))
                return page * PAGE + tirx.truncmod(position, expr(PAGE))

            return compute((self.tokens,), element, name="places")

        return self.ctx.kernel("places", build, self.positions, self.sequences, self.table, dtype="int64")

    def position(self, given: ir.Expr) -> ir.Expr:
        """A position that is in the table."""
        return _inside(given, self.table.shape[1] * self.size)

    def page(self, table: te.Tensor, sequence: ir.Expr, block: ir.Expr) -> ir.Expr:
        """The page of a block of a sequence."""
        return _inside(table(_inside(sequence, self.table.shape[0]), block), self.count)

    def stored(self, cache: Cache, keys: Value, values: Value) -> Cache:
        """`cache` with the keys and values of the tokens, each (1, tokens, heads * size), at their places, which
        are different ones."""
        if cache.scales is None:
            return Cache(self._stored(cache.numbers, keys, values))
        (keys, key_scales), (values, value_scales) = (self._narrowed(x, cache) for x in (keys, values))
        return Cache(self._stored(cache.numbers, keys, values), self._stored(cache.scales, key_scales, value_scales))

    def _narrowed(self, x: Value, cache: Cache) -> Sequence[Value]:
        """`x` (1, tokens, heads * size) in 8 bits, and the scales of its heads (1, tokens, heads). A head with an
        infinity or NaN has zeros, and that scale."""
        heads, size = _extents(cache.numbers)

        def write(code: Code, source: Array, numbers: Array, scales: Array) -> None:
            with code.shared("token", self.tokens) as token, code.loop("head", heads) as head:
                # Bits of magnitudes compare like numbers, and NaN is the greatest.
                bits = code.cell("bits", tirx.const(0, "int32"))
                with code.loop("channel", size) as d:
                    magnitude = tirx.abs(source[0, token, head * size + d])
                    bits.value = tirx.max(bits.value, tirx.reinterpret("int32", magnitude))
                greatest = tirx.reinterpret("float32", bits.value)
                scale = code.cell("scale", greatest / _float(GREATEST)).value
                usable = tirx.all(scale > _float(LEAST), scale < _float(float("inf")))
                inverse = code.cell("inverse", tirx.Select(usable, _float(1.0) / scale, _float(0.0))).value
                with code.loop("channel", size) as d:
                    number = source[0, token, head * size + d]
                    rounded = tirx.nearbyint(tirx.Select(usable, number, _float(0.0)) * inverse)
                    numbers[0, token, head * size + d] = rounded.astype("int8")
                scales[0, token, head] = scale

        def build(x: te.Tensor) -> list[te.Tensor]:
            return imperative("narrow", [x], [(x.shape, "int8"), ((1, self.tokens, heads), "float32")], write)

        return self.ctx.kernel("narrow", build, x, dtype=("int8", "float32"))

    def _stored(self, cache: Value, keys: Value, values: Value) -> Value:
        heads, size = _extents(cache)

        def write(code: Code, _old: Array, new_keys: Array, new_values: Array, places: Array, result: Array) -> None:
            with code.loop("token", self.tokens) as token:
                place = code.cell("place", places[token])
                page = code.cell("page", tirx.truncdiv(place.value, expr(PAGE)))
                slot = code.cell("slot", tirx.truncmod(place.value, expr(PAGE)))
                with code.loop("head", heads) as head:
                    with code.loop("channel", size) as d:
                        key = new_keys[0, token, head * size + d]
                        result[page.value, 0, head, d * PAGE + slot.value] = key.astype(cache.dtype)
                    with code.loop("element", size) as d:
                        value = new_values[0, token, head * size + d]
                        result[page.value, 1, head, slot.value * size + d] = value.astype(cache.dtype)

        def build(*tensors: te.Tensor) -> list[te.Tensor]:
            return imperative("store", tensors, [(cache.shape, cache.dtype)], write, {PAGED: STORE})

        return self.ctx.kernel("store", build, cache, keys, values, self.places, dtype=cache.dtype, updates=True)

    def attended(
        self,
        queries: Value,
        cache: Cache,
        *,
        scale: float,
        window: int | None = None,
        softcap: float = 0.0,
        biases: Value | None = None,
    ) -> Value:
        """Attention of the `queries` (1, tokens, heads * size) of the tokens to the keys and values of their sequences,
        up to their own positions; with a `window` to so many, the own included. A group of neighbouring heads of
        queries shares a head of keys. Scores have a size below `softcap`, if it is not 0. With `biases` (heads of
        queries, positions), the entry of a key is added to its score, less that of the query; there are entries for all
        tokens of all pages of a sequence."""
        heads, size = _extents(cache.numbers)
        group = int(queries.shape[2]) // (heads * size)
        together = next(n for n in range(group, 0, -1) if group % n == 0 and (n == 1 or n * size <= MOST_SUMS))
        walk = _Walk(self, heads, size, together, group // together, scale, window, softcap, biases is not None)

        notes = {PAGED: ATTENTION, "scale": scale, "window": window or 0, "softcap": softcap}

        def build(*tensors: te.Tensor) -> list[te.Tensor]:
            return imperative("attend", tensors, [(queries.shape, "float32")], walk.write, notes)

        others = [x for x in (cache.scales, biases) if x is not None]
        operands = (queries, cache.numbers, self.positions, self.sequences, self.table, *others)
        return self.ctx.kernel("paged_attention", build, *operands, dtype="float32")


Bias: TypeAlias = "Callable[[ir.Expr], ir.Expr]"
"""What is added to the score of a key, by its position."""


@dataclass(frozen=True)
class _Walk:
    """The kernel of attention: for each token and each head of keys, page by page, with the sums of a softmax whose
    greatest score is known only at the end. The heads of queries of a group are computed in `parts` of `group` heads.
    (Source: Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018.)"""

    pages: Pages
    heads: int
    size: int
    group: int
    parts: int
    scale: float
    window: int | None
    softcap: float
    biased: bool

    def write(
        self,
        code: Code,
        queries: Array,
        cache: Array,
        positions: Array,
        sequences: Array,
        table: Array,
        *given: Array,
    ) -> None:
        *others, result = given
        biases = others.pop() if self.biased else None
        scales = others.pop() if others else None
        rows, blocks = self.pages.table.shape
        tasks = self.heads * self.parts
        with code.shared("task", self.pages.tokens * tasks) as task:
            token = code.cell("token", tirx.truncdiv(task, expr(tasks))).value
            head = code.cell("head", tirx.truncdiv(tirx.truncmod(task, expr(tasks)), expr(self.parts))).value
            part = code.cell("part", tirx.truncmod(task, expr(self.parts))).value
            position = code.cell("position", _inside(positions[token], blocks * PAGE)).value
            row = code.cell("row", _inside(sequences[token], rows)).value
            first = code.cell("first", expr(0))
            if self.window is not None:
                first.value = tirx.max(position - (self.window - 1), expr(0))
            sums = _Sums(code, self.group, self.size)
            extra = (
                [] if biases is None else [self.bias(code, biases, head, part, g, position) for g in range(self.group)]
            )
            start = code.cell("start", tirx.truncdiv(first.value, expr(PAGE)))
            count = code.cell("count", tirx.truncdiv(position, expr(PAGE)) + 1 - start.value)
            with code.loop("step", count.value) as step:
                block = code.cell("block", start.value + step)
                page = code.cell("page", _inside(table[row, block.value], self.pages.count))
                low = code.cell("low", tirx.max(first.value - block.value * PAGE, expr(0)))
                high = code.cell("high", tirx.min(position - block.value * PAGE, expr(PAGE - 1)))
                last = start.value + count.value - 1
                later = code.cell("later", _inside(table[row, tirx.min(block.value + 1, last)], self.pages.count))
                self.scores(code, sums, queries, cache, token, head, part, page, later)
                if scales is not None:
                    self.scaled(code, sums, scales, head, page, 0)
                self.weighted(code, sums, block, low, high, extra)
                if scales is not None:
                    self.scaled(code, sums, scales, head, page, 1)
                self.added(code, sums, cache, head, page, later, low, high)
            for g in range(self.group):
                with code.lanes(LANES) as lane:
                    sums.lanes[lane] = sums.weight[g * LANES + lane]
                weight = code.cell(f"weight{g}", sums.reduced(lambda one, other: one + other)).value
                for piece in range(0, self.size, LANES):
                    with code.lanes(min(LANES, self.size - piece)) as lane:
                        value = sums.total[g * sums.width + piece + lane] / weight
                        result[0, token, self.channel(head, part, g) + piece + lane] = value

    def channel(self, head: ir.Expr, part: ir.Expr, g: int) -> ir.Expr:
        """The first channel of the queries of head `g` of a part of a group."""
        return ((head * self.parts + part) * self.group + g) * self.size

    def scores(
        self,
        code: Code,
        sums: _Sums,
        queries: Array,
        cache: Array,
        token: ir.Expr,
        head: ir.Expr,
        part: ir.Expr,
        page: Cell,
        later: Cell,
    ) -> None:
        """The products of the queries with the keys of a page, scaled. Those of a later page are prefetched."""
        pieces = range(0, PAGE, LANES)
        for g in range(self.group):
            for piece in pieces:
                with code.lanes(LANES) as lane:
                    sums.scores[g * PAGE + piece + lane] = 0.0
        with code.loop("d", self.size) as d:
            for at in range(0, PAGE, _of_line(cache)):
                code.append(prefetch(cache[later.value, 0, head, d * PAGE + at]))
            for g in range(self.group):
                query = queries[0, token, self.channel(head, part, g) + d]
                for piece in pieces:
                    with code.lanes(LANES) as lane:
                        at = g * PAGE + piece + lane
                        key = cache[page.value, 0, head, d * PAGE + piece + lane].astype("float32")
                        sums.scores[at] = sums.scores[at] + query * key

    def scaled(self, code: Code, sums: _Sums, scales: Array, head: ir.Expr, page: Cell, part: int) -> None:
        """Multiply scores by the scales of keys, or weights by those of values."""
        for g in range(self.group):
            for piece in range(0, PAGE, LANES):
                with code.lanes(LANES) as lane:
                    at = g * PAGE + piece + lane
                    sums.scores[at] = sums.scores[at] * scales[page.value, part, head, piece + lane]

    def bias(self, code: Code, biases: Array, head: ir.Expr, part: ir.Expr, g: int, position: ir.Expr) -> Bias:
        """What head `g` of a part of a group adds to the score of a key by its position."""
        row = (head * self.parts + part) * self.group + g
        own = code.cell(f"own{g}", biases[row, position]).value
        return lambda key: biases[row, key] - own

    def weighted(self, code: Code, sums: _Sums, block: Cell, low: Cell, high: Cell, extra: Sequence[Bias]) -> None:
        """The weights of the tokens of a page, from their scores; the sums so far are scaled to the new maximum.
        `extra` is what is added to scores, for each head; empty: nothing."""
        for g in range(self.group):
            best = code.cell(f"best{g}", sums.greatest[g])
            for piece in range(0, PAGE, LANES):
                with code.lanes(LANES) as lane:
                    at = g * PAGE + piece + lane
                    seen = tirx.all(expr(piece) + lane >= low.value, expr(piece) + lane <= high.value)
                    score = self.score(sums.scores[at])
                    if extra:
                        score = score + extra[g](block.value * PAGE + piece + lane)
                    sums.scores[at] = tirx.Select(seen, score, _float(LOWEST))
            for piece in range(0, PAGE, LANES):
                with code.lanes(LANES) as lane:
                    score = sums.scores[g * PAGE + piece + lane]
                    sums.lanes[lane] = score if piece == 0 else tirx.max(sums.lanes[lane], score)
            best.value = tirx.max(best.value, sums.reduced(tirx.max))
            factor = code.cell(f"factor{g}", power_of(sums.greatest[g] - best.value))
            sums.greatest[g] = best.value
            for piece in range(0, PAGE, LANES):
                with code.lanes(LANES) as lane:
                    at = g * PAGE + piece + lane
                    seen = tirx.all(expr(piece) + lane >= low.value, expr(piece) + lane <= high.value)
                    sums.scores[at] = tirx.Select(seen, power_of(sums.scores[at] - best.value), _float(0.0))
            with code.lanes(LANES) as lane:
                sums.weight[g * LANES + lane] = sums.weight[g * LANES + lane] * factor.value
            for piece in range(0, PAGE, LANES):
                with code.lanes(LANES) as lane:
                    at = g * LANES + lane
                    sums.weight[at] = sums.weight[at] + sums.scores[g * PAGE + piece + lane]
            for piece in range(0, self.size, LANES):
                with code.lanes(LANES) as lane:
                    at = g * sums.width + piece + lane
                    sums.total[at] = sums.total[at] * factor.value

    def score(self, product: ir.Expr) -> ir.Expr:
        scaled = product * _float(self.scale)
        return tirx.tanh(scaled / _float(self.softcap)) * _float(self.softcap) if self.softcap else scaled

    def added(
        self, code: Code, sums: _Sums, cache: Array, head: ir.Expr, page: Cell, later: Cell, low: Cell, high: Cell
    ) -> None:
        """Add the values of a page, with their weights. Those of a later page are prefetched."""
        with code.loop("slot", high.value - low.value + 1) as index:
            slot = low.value + index
            for at in range(0, self.size, _of_line(cache)):
                code.append(prefetch(cache[later.value, 1, head, slot * self.size + at]))
            for g in range(self.group):
                for piece in range(0, self.size, LANES):
                    count = min(LANES, self.size - piece)
                    with code.lanes(count) as lane:
                        at = g * sums.width + piece + lane
                        value = cache[page.value, 1, head, slot * self.size + piece + lane].astype("float32")
                        sums.total[at] = sums.total[at] + sums.scores[g * PAGE + slot] * value


class _Sums:
    """What is kept for each head of queries of a group: scores or weights of a page, the greatest score so far, sums of
    weights by lane, and that of weighted values. `lanes` are those of one vector."""

    def __init__(self, code: Code, group: int, size: int) -> None:
        self._code = code
        self.width = -(-size // LANES) * LANES
        self.scores = code.room("scores", group * PAGE, "float32")
        self.total = code.room("total", group * self.width, "float32")
        self.greatest = code.room("greatest", group, "float32")
        self.weight = code.room("weight", group * LANES, "float32")
        self.lanes = code.room("lanes", LANES, "float32")
        for g in range(group):
            self.greatest[g] = LOWEST
            for sums, start, stop in ((self.weight, g * LANES, LANES), (self.total, g * self.width, self.width)):
                for piece in range(0, stop, LANES):
                    with code.lanes(LANES) as lane:
                        sums[start + piece + lane] = 0.0

    def reduced(self, combine: Callable[[ir.Expr, ir.Expr], ir.Expr]) -> ir.Expr:
        """The elements of `lanes`, combined: one half with the other, until one is left."""
        half = LANES // 2
        while half > 1:
            with self._code.lanes(half) as lane:
                self.lanes[lane] = combine(self.lanes[lane], self.lanes[lane + half])
            half //= 2
        return combine(self.lanes[0], self.lanes[1])


def shape_of(pages: IntExpr, heads: int, size: int) -> tuple[IntExpr, ...]:
    """The shape of a cache; that of its scales, if `size` is 1."""
    return (pages, 2, heads, size * PAGE)


def _extents(cache: Value) -> tuple[int, int]:
    """The number of heads of a cache, and their size."""
    return int(cache.shape[2]), int(cache.shape[3]) // PAGE


def _of_line(cache: Array) -> int:
    """The numbers in a line of a CPU's cache."""
    return LINE * 8 // bits_of(cache.dtype)


def _inside(place: ir.Expr, count: IntExpr) -> ir.Expr:
    """The place, or the nearest one from 0 to `count - 1`: a wrong operand must not read other memory."""
    wide = place if str(place.ty.dtype) == "int64" else tirx.Cast("int64", place)
    return expr(clamp(wide, 0, count - 1))


def _float(value: float) -> ir.Expr:
    return tirx.const(value, "float32")

"""Attention to keys and values in pages, and the store of new ones, on GPUs (`operators.pages`).

As in `schedules.gpu.attention`, an invocation or a team computes a row, which is a head of a token, with an online
softmax. Keys lie with neighbouring tokens next to each other, so it takes four of them at a time. Those that the token
must not see count as nothing; in the place of their values it loads those of one that the token sees, so that no number
of an unused place gets into a sum.

With many tokens, each invocation has a row; neighbours have the same head. With a few, as in a decoding step, a team
has a row and `CHUNK` tokens of its sequence, and another shader puts the chunks of a row together. (Source: Dao et al.,
"Flash-Decoding for long-context inference", 2023.) Wide heads are computed in slices of their values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from tvm import ir, s_tir, tirx

from deploykit.compiler.decisions import Choice, Declined
from deploykit.compiler.devices.gpu import Gpu
from deploykit.compiler.operators.pages import LOWEST, PAGE, PAGED, STORE
from deploykit.compiler.operators.softmax_exp import power_of
from deploykit.compiler.schedules.gpu.parts import Divided, Part
from deploykit.compiler.schedules.gpu.team import agreed, once, shared_out
from deploykit.compiler.schedules.kernel.access import Views, offset_of
from deploykit.compiler.schedules.kernel.loops import Code, local, loop, unravel, vectorized
from deploykit.compiler.schedules.kernel.stages import scalars_of
from deploykit.compiler.tir.loaded_values import stored_size
from deploykit.compiler.tir.rewriting import Buffer, Expr, collect, sequence
from deploykit.compiler.tir.values import as_index, const, dtype_of

FOUR = 4
"""Keys that are read together."""

WIDEST = 128
"""The most channels of a slice: its sums stay in registers."""

CHUNK = 256
"""Tokens of a sequence that a team reads."""

DTYPE = "float32"

DTYPES = (DTYPE, "float16")
"""Of caches."""


def paged(func: tirx.PrimFunc, gpu: Gpu) -> Divided | Declined | None:
    """The shaders of a kernel that reads or writes pages, or the reason why it has none; None for other kernels."""
    notes = func.body.block.annotations if isinstance(func.body, s_tir.SBlockRealize) else {}
    kind = notes.get(PAGED)
    if kind is None:
        return None
    buffers = [param for param in func.params if tirx.is_buffer_var(param)]
    cache = buffers[0] if kind == STORE else buffers[1]
    if dtype_of(cache) not in DTYPES:
        return Declined(f"its pages are of {dtype_of(cache)}")
    found = _stored(func, buffers) if kind == STORE else _Attention(func, buffers, notes, gpu).divided()
    return Divided(found.temporaries, found.parts, (Choice(kind, "pages"),))


def _stored(func: tirx.PrimFunc, buffers: Sequence[Buffer]) -> Divided:
    """The store, with an invocation for each channel of a token. Tokens have different places."""
    _, keys, values, places, result = buffers
    pages, _, heads, extent = (as_index(n) for n in result.shape)
    size = tirx.truncdiv(extent, const(PAGE))
    views = Views()

    def at(index: Expr) -> tirx.Stmt:
        code = Code()
        token, head, channel = (
            code.let("at", each) for each in unravel(index, [as_index(places.shape[0]), heads, size])
        )
        place = _inside(tirx.BufferLoad(places, [token]), pages * PAGE)
        place = code.let("place", place)
        page, slot = tirx.truncdiv(place, const(PAGE)), tirx.truncmod(place, const(PAGE))
        for part, source, spot in ((0, keys, channel * PAGE + slot), (1, values, slot * size + channel)):
            number = tirx.BufferLoad(source, [const(0), token, head * size + channel]).astype(dtype_of(result))
            code.add(views.store(tirx.BufferStore(result, number, [page, const(part), head, spot])))
        return code.statement()

    body = loop("task", as_index(places.shape[0]) * heads * size, at, tirx.ForKind.PARALLEL)
    return Divided((), (_part(func, buffers, (keys, values, places, result), (), views, body, team=False),), ())


class _Attention:
    def __init__(self, func: tirx.PrimFunc, buffers: Sequence[Buffer], notes: Mapping[str, Any], gpu: Gpu) -> None:
        self.func, self.buffers, self.gpu = func, buffers, gpu
        self.queries, self.cache, self.positions, self.sequences, self.table, *biases, self.result = buffers
        self.biases: Buffer | None = biases[0] if biases else None
        self.heads, self.size = int(self.cache.shape[2]), int(self.cache.shape[3]) // PAGE
        self.all_heads = int(self.queries.shape[2]) // self.size
        self.scale, self.softcap = float(notes["scale"]), float(notes["softcap"])
        self.window = int(notes["window"])
        self.slices = next(n for n in range(1, self.size + 1) if self.size % n == 0 and self.size // n <= WIDEST)
        self.width = self.size // self.slices
        self.tokens = as_index(self.positions.shape[0])
        self.rows, self.blocks = (as_index(n) for n in self.table.shape)
        self.chunks = tirx.floordiv(self.blocks * PAGE + (CHUNK - 1), const(CHUNK))
        few = const(gpu.kind.few_queries)
        self.few = self.tokens <= few
        room = tirx.min(self.tokens, few) * (self.all_heads * self.slices) * self.chunks
        self.partial = tirx.decl_buffer((room * (self.width + FOUR),), DTYPE, "partial")
        """The sums of a row of a chunk, then its peak and its total."""

    def divided(self) -> Divided:
        rows, none = self.tokens * (self.all_heads * self.slices), const(0)
        sources = self.buffers[:-1]
        vectors = self.width // self.lanes(self.width)
        make = partial(_part, self.func, self.buffers, temporaries=(self.partial,))
        made: list[Part] = []
        for operands, extent, body, team in (
            ((*sources, self.result), tirx.Select(self.few, none, rows), self.whole, False),
            ((*sources, self.partial), tirx.Select(self.few, rows * self.chunks, none), self.chunk, True),
            ((self.partial, self.result), tirx.Select(self.few, rows * vectors, none), self.together, False),
        ):
            views = Views()
            statement = loop("task", extent, partial(body, views), tirx.ForKind.PARALLEL)
            made.append(make(operands=operands, views=views, body=statement, team=team))
        return Divided((self.partial,), tuple(made), ())

    def lanes(self, size: int) -> int:
        return self.gpu.lanes if size % self.gpu.lanes == 0 else 1

    def each(self, size: int, body: Callable[[Expr], tirx.Stmt]) -> list[tirx.Stmt]:
        """`body(place)` for all places, unrolled in vectors."""
        lanes = self.lanes(size)

        def vector(first: int) -> tirx.Stmt:
            return vectorized(lanes, lambda lane: body(const(first) + lane))

        return [vector(first) for first in range(0, size, lanes)]

    def whole(self, views: Views, index: Expr) -> tirx.Stmt:
        """A row, computed by an invocation."""
        code = Code()
        piece, head, token = (code.let("at", n) for n in unravel(index, [const(0), const(self.all_heads), self.tokens]))
        row = _Row(self, views, code, token, head, piece)
        start, stop = row.fours
        start = code.let("start", start)
        code.add(loop("four", stop - start, lambda step: row.added(start + step)))
        place = (token * self.all_heads + head) * self.size + piece * self.width
        flat = views.flat(self.result)
        code.add(*self.each(self.width, lambda w: tirx.BufferStore(flat, row.sums[w] / row.total[0], [place + w])))
        return code.statement()

    def chunk(self, views: Views, index: Expr) -> tirx.Stmt:
        """What a chunk adds to a row, computed by a team."""
        code = Code()
        number, chunk = (code.let("at", n) for n in unravel(index, [const(0), self.chunks]))
        token, head, piece = (
            code.let("at", n) for n in unravel(number, [const(0), const(self.all_heads), const(self.slices)])
        )
        row = _Row(self, views, code, token, head, piece)
        start, stop = row.fours
        start = code.let("start", tirx.max(start, chunk * (CHUNK // FOUR)))
        count = tirx.max(tirx.min(stop, (chunk + 1) * (CHUNK // FOUR)) - start, const(0))
        code.add(shared_out(count, lambda step: row.added(start + step)))
        best, power = (_cell(code, name) for name in ("best", "power"))
        code.add(_set(best, agreed(tirx.Max, row.peak[0])), _set(power, power_of(row.peak[0] - best[0])))
        code.add(_set(row.total, agreed(tirx.Add, row.total[0] * power[0])))
        code.add(*self.each(self.width, lambda w: _set(row.sums, agreed(tirx.Add, row.sums[w] * power[0]), w)))
        place = code.let("place", index * (self.width + FOUR))
        ends = local("ends", FOUR, DTYPE)
        stores = [
            *self.each(self.width, lambda w: tirx.BufferStore(self.partial, row.sums[w], [place + w])),
            tirx.AllocBuffer(ends),
            *(_set(ends, value, const(at)) for at, value in enumerate((best[0], row.total[0], _float(0), _float(0)))),
            vectorized(FOUR, lambda at: tirx.BufferStore(self.partial, ends[at], [place + self.width + at])),
        ]
        code.add(once(sequence(stores)))
        return code.statement()

    def together(self, views: Views, index: Expr) -> tirx.Stmt:
        """Some channels of a row, from its chunks."""
        code, lanes = Code(), self.lanes(self.width)
        row, vector = (code.let("at", n) for n in unravel(index, [const(0), const(self.width // lanes)]))
        first, stride = code.let("first", row * self.chunks * (self.width + FOUR)), self.width + FOUR
        best, total, power = (_cell(code, name) for name in ("best", "total", "power"))
        ends, sums = local("ends", FOUR, DTYPE), local("sums", lanes, DTYPE)
        code.add(tirx.AllocBuffer(ends), tirx.AllocBuffer(sums), _set(best, _float(LOWEST)), _set(total, _float(0)))
        code.add(vectorized(lanes, lambda lane: _set(sums, _float(0), lane)))

        def read(chunk: Expr) -> tirx.Stmt:
            place = first + chunk * stride + self.width
            return vectorized(FOUR, lambda at: _set(ends, tirx.BufferLoad(self.partial, [place + at]), at))

        def greater(chunk: Expr) -> tirx.Stmt:
            return sequence([read(chunk), _set(best, tirx.max(best[0], ends[const(0)]))])

        def added(chunk: Expr) -> tirx.Stmt:
            place = first + chunk * stride + vector * lanes

            def add(lane: Expr) -> tirx.Stmt:
                return _set(sums, sums[lane] + tirx.BufferLoad(self.partial, [place + lane]) * power[0], lane)

            weight = _set(power, power_of(ends[const(0)] - best[0]))
            return sequence(
                [read(chunk), weight, _set(total, total[0] + ends[const(1)] * power[0]), vectorized(lanes, add)]
            )

        code.add(loop("chunk", self.chunks, greater), loop("chunk", self.chunks, added))
        flat, place = views.flat(self.result), row * self.width + vector * lanes
        code.add(vectorized(lanes, lambda lane: tirx.BufferStore(flat, sums[lane] / total[0], [place + lane])))
        return code.statement()


class _Row:
    """A slice of a head of a token. Its greatest score so far, the sum of weights, and that of weighted values are in
    registers."""

    def __init__(self, attention: _Attention, views: Views, code: Code, token: Expr, head: Expr, piece: Expr) -> None:
        self.attention, self.views, self.piece = attention, views, piece
        position = _inside(tirx.BufferLoad(attention.positions, [token]), attention.blocks * PAGE)
        self.position = code.let("position", position)
        sequence_ = _inside(tirx.BufferLoad(attention.sequences, [token]), attention.rows)
        self.pages = code.let("pages", sequence_ * attention.blocks)
        self.first: Expr = const(0)
        if attention.window:
            self.first = code.let("first", tirx.max(self.position - (attention.window - 1), const(0)))
        self.biases = None if attention.biases is None else views.flat(attention.biases)
        if attention.biases is not None:
            self.bias = code.let("bias", head * as_index(attention.biases.shape[1]))
        self.head = code.let("head", tirx.truncdiv(head, const(attention.all_heads // attention.heads)))
        self.query = code.let("query", (token * attention.all_heads + head) * attention.size)
        self.peak, self.total = (_cell(code, name) for name in ("peak", "total"))
        self.sums = local("sums", attention.width, DTYPE)
        code.add(tirx.AllocBuffer(self.sums), _set(self.peak, _float(LOWEST)), _set(self.total, _float(0)))
        code.add(*attention.each(attention.width, lambda w: _set(self.sums, _float(0), w)))

    @property
    def fours(self) -> tuple[Expr, Expr]:
        """The first four of keys that the token sees, and the one behind the last."""
        return tirx.truncdiv(self.first, const(FOUR)), tirx.truncdiv(self.position, const(FOUR)) + 1

    def added(self, four: Expr) -> tirx.Stmt:
        """Add four keys."""
        attention, code = self.attention, Code()
        cache, size = self.views.flat(attention.cache), attention.size
        block = code.let("block", tirx.truncdiv(four, const(PAGE // FOUR)))
        listed = tirx.BufferLoad(self.views.flat(attention.table), [self.pages + block])
        page = code.let("page", _inside(listed, as_index(attention.cache.shape[0])))
        keys, values = (
            code.let(name, offset_of(attention.cache, [page, const(part), self.head, const(0)]))
            for part, name in enumerate(("keys", "values"))
        )
        scores, powers = local("scores", FOUR, DTYPE), local("powers", FOUR, DTYPE)
        code.add(tirx.AllocBuffer(scores), tirx.AllocBuffer(powers))
        code.add(vectorized(FOUR, lambda lane: _set(scores, _float(0), lane)))
        slot = code.let("slot", tirx.truncmod(four, const(PAGE // FOUR)) * FOUR)
        code.add(self.products(scores, cache, keys + slot))

        def seen(lane: Expr) -> Expr:
            return tirx.all(four * FOUR + lane >= self.first, four * FOUR + lane <= self.position)

        def score(lane: Expr) -> Expr:
            scaled = self.score(scores[lane])
            if self.biases is None:
                return scaled
            key, own = (tirx.BufferLoad(self.biases, [self.bias + n]) for n in (four * FOUR + lane, self.position))
            return scaled + (key - own)

        code.add(vectorized(FOUR, lambda n: _set(scores, tirx.Select(seen(n), score(n), _float(LOWEST)), n)))
        best, power = (_cell(code, name) for name in ("best", "power"))
        code.add(_set(best, self.peak[0]), *(_set(best, tirx.max(best[0], scores[const(n)])) for n in range(FOUR)))
        rise = [
            _set(power, power_of(self.peak[0] - best[0])),
            _set(self.total, self.total[0] * power[0]),
            *attention.each(attention.width, lambda w: _set(self.sums, self.sums[w] * power[0], w)),
            _set(self.peak, best[0]),
        ]
        code.add(tirx.IfThenElse(best[0] > self.peak[0], sequence(rise), None))

        def weight(lane: Expr) -> tirx.Stmt:
            return _set(powers, tirx.Select(seen(lane), power_of(scores[lane] - self.peak[0]), _float(0)), lane)

        code.add(vectorized(FOUR, weight))
        for n in range(FOUR):
            code.add(_set(self.total, self.total[0] + powers[const(n)]))
            key = tirx.min(tirx.max(four * FOUR + n, self.first), self.position) - four * FOUR
            place = code.let("place", values + (slot + key) * size + self.piece * attention.width)

            def add(w: Expr, n: int = n, place: Expr = place) -> tirx.Stmt:
                return _set(self.sums, self.sums[w] + powers[const(n)] * _wide(tirx.BufferLoad(cache, [place + w])), w)

            code.add(*attention.each(attention.width, add))
        return code.statement()

    def products(self, scores: Buffer, cache: Buffer, keys: Expr) -> tirx.Stmt:
        """Add the products of the query with the four keys from `keys` on."""
        attention = self.attention
        lanes = attention.lanes(attention.size)
        queries = self.views.flat(attention.queries)

        def step(index: Expr) -> tirx.Stmt:
            inner, query = Code(), local("query", lanes, DTYPE)
            inner.add(tirx.AllocBuffer(query))
            place = self.query + index * lanes
            inner.add(vectorized(lanes, lambda d: _set(query, tirx.BufferLoad(queries, [place + d]), d)))
            for d in range(lanes):
                start = keys + (index * lanes + d) * PAGE

                def add(lane: Expr, d: int = d, start: Expr = start) -> tirx.Stmt:
                    product = query[const(d)] * _wide(tirx.BufferLoad(cache, [start + lane]))
                    return _set(scores, scores[lane] + product, lane)

                inner.add(vectorized(FOUR, add))
            return inner.statement()

        return loop("channel", attention.size // lanes, step)

    def score(self, product: Expr) -> Expr:
        scaled, cap = product * _float(self.attention.scale), self.attention.softcap
        return tirx.tanh(scaled / _float(cap)) * _float(cap) if cap else scaled


def _inside(load: Expr, count: Expr) -> Expr:
    """The integer that `load` gives, or the nearest one from 0 to `count - 1`: a wrong one must not read other
    memory."""
    return tirx.max(tirx.min(stored_size(load), count - 1), const(0))


def _part(
    func: tirx.PrimFunc,
    buffers: Sequence[Buffer],
    operands: Sequence[Buffer],
    temporaries: Sequence[Buffer],
    views: Views,
    body: tirx.Stmt,
    *,
    team: bool,
) -> Part:
    """A part that stores the last of its `operands`, which are among `buffers` and `temporaries`."""
    whole = sequence([*(view for buffer in operands for view in views.declarations(buffer)), body])
    used = {var for node in (whole, *(n for b in operands for n in b.shape)) for var in collect(node, ir.Var)}
    scalars = [var for var in scalars_of(func) if var in used]
    known = [*buffers, *temporaries]
    numbers = tuple(next(i for i, other in enumerate(known) if other.same_as(buffer)) for buffer in operands)
    return Part(tirx.PrimFunc([*operands, *scalars], whole), numbers, 1, team)


def _cell(code: Code, name: str) -> Buffer:
    cell = local(name, 1, DTYPE)
    code.add(tirx.AllocBuffer(cell))
    return cell


def _set(cell: Buffer, value: Expr, index: Expr | None = None) -> tirx.Stmt:
    return tirx.BufferStore(cell, value, [const(0) if index is None else index])


def _wide(number: Expr) -> Expr:
    return number.astype(DTYPE)


def _float(value: float) -> Expr:
    return tirx.const(value, DTYPE)

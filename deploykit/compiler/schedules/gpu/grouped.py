"""Products with weights in groups of few bits on GPUs (`operators.anchors.grouped`), in float32.

A tile has several rows of the result and some columns of a panel. Each code is unpacked once for all rows of a tile:

    number = float(word & mask)         a code where it stands in its word: too large by a power of two
    sum += number * (x / power)         which the left operand is divided by; this is exact

The zero or the minimum of a group counts with the sum of the group's left operands. With one row, each team has a panel
and divides the words along its columns, so that its invocations load neighbouring words. With few tiles, each team has
a tile, else each invocation has one. If the number of rows is symbolic, there is a shader for each case, and only one
of them does something.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from tvm import ir, tirx

from deploykit.compiler.decisions import Declined
from deploykit.compiler.devices.gpu import Gpu
from deploykit.compiler.operators.anchors.annotation import ANCHOR
from deploykit.compiler.operators.anchors.grouped import GROUPED, GroupPacking
from deploykit.compiler.operators.quantized.groups import GROUP
from deploykit.compiler.schedules.gpu.team import Way, agreed, once, shared_out
from deploykit.compiler.schedules.kernel.access import Views
from deploykit.compiler.schedules.kernel.finish import Finish, finish_of
from deploykit.compiler.schedules.kernel.loops import Code, index_of, local, loop, unravel, vectorized
from deploykit.compiler.schedules.kernel.stages import Stage
from deploykit.compiler.tir.rewriting import Buffer, Expr, collect, sequence, substitute
from deploykit.compiler.tir.values import as_index, consecutive, const, dtype_of, repeated, static

WORD = 4
"""Codes of 8 bits, or pairs of codes of 4 bits, in a word."""


def is_grouped(stage: Stage) -> bool:
    """Whether the rule takes a stage."""
    return stage.annotations.get(ANCHOR) == GROUPED


def grouped(stage: Stage, views: Views, gpu: Gpu) -> list[Way] | Declined:
    """Ways that together compute `stage`, or the reason why there are none."""
    product = _product(stage, views)
    if isinstance(product, Declined):
        return product
    sizes = gpu.kind.products
    height, width = sizes.rows[0], next(width for width in sizes.widths if product.packing.width % width == 0)
    count = as_index(stage.axes[0].extent)
    alone, wide = _Tile(product, 1, product.packing.width), _Tile(product, height, width)
    known, few = static(count), wide.count < gpu.kind.few_tiles
    if known is not None:
        wide = _Tile(product, min(known, height), width)
        team = known == 1 or (static(wide.count) or 0) < gpu.kind.few_tiles
        return [Way((alone if known == 1 else wide).loop(team=team), team)]

    def where(condition: Expr, tile: _Tile, *, team: bool) -> Way:
        return Way(tile.loop(tirx.Select(condition, tile.count, const(0)), team=team), team)

    return [
        where(count <= 1, alone, team=True),
        where(tirx.all(count > 1, few), wide, team=True),
        where(tirx.all(count > 1, tirx.Not(few)), wide, team=False),
    ]


@dataclass(frozen=True)
class _Product:
    """A stage that is a product. `left` is its left operand in terms of the axes, `codes`, `scales` and `minima` are
    the arrays of the weight."""

    stage: Stage
    packing: GroupPacking
    left: Expr
    codes: Buffer
    scales: Buffer
    minima: Buffer | None
    finish: Finish


def _product(stage: Stage, views: Views) -> _Product | Declined:
    combine = stage.combine
    if combine is None or not isinstance(combine.source, tirx.Mul) or len(stage.axes) != 2:
        return Declined("it is no product of two matrices")
    rows, depth = stage.axes[-1].static, stage.reduce[-1].static
    assert rows is not None
    assert depth is not None
    packing = GroupPacking.of_notes(stage.annotations, rows, depth)
    left, number = views.value(combine.source.a), combine.source.b
    arrays = dict.fromkeys(load.source for load in collect(number, ir.TensorLoad))
    codes = next(array for array in arrays if dtype_of(array) == "uint8")
    scales, *minima = (array for array in arrays if dtype_of(array) != "uint8")
    return _Product(stage, packing, left, codes, scales, minima[0] if minima else None, finish_of(stage, views))


@dataclass(frozen=True)
class _Tile:
    """`rows` rows and `width` columns of a product."""

    product: _Product
    rows: int
    width: int

    @property
    def extents(self) -> list[Expr]:
        """Tiles along the rows and the columns."""
        blocks = tirx.floordiv(as_index(self.product.stage.axes[0].extent) + (self.rows - 1), const(self.rows))
        return [blocks, const(-(-self.product.packing.rows // self.width))]

    @property
    def count(self) -> Expr:
        blocks, chunks = self.extents
        return blocks * chunks

    def loop(self, count: Expr | None = None, *, team: bool) -> tirx.Stmt:
        def at(index: Expr) -> tirx.Stmt:
            code = Code()
            block, chunk = unravel(index, self.extents)
            first, column = code.let("first", block * self.rows), code.let("column", chunk * self.width)
            code.add(_Body(self, first, column, team).statement())
            return code.statement()

        return loop("task", self.count if count is None else count, at, tirx.ForKind.PARALLEL)


class _Body:
    """The code of a tile that begins at the row `first` and the column `column`."""

    def __init__(self, tile: _Tile, first: Expr, column: Expr, team: bool) -> None:
        self.product, self.rows, self.width = tile.product, tile.rows, tile.width
        self.packing, self.team = tile.product.packing, team
        self.first, self.column = first, column
        self.lane = tirx.truncmod(column, const(self.packing.width))
        self.halves = 8 // self.packing.format.bits
        self.sums, self.parts = (local(name, self.rows * self.width, "float32") for name in ("sums", "parts"))
        self.whole = local("whole", self.rows, "float32")
        self.left = local("left", self.rows * self.halves * WORD, "float32")

    def statement(self) -> tirx.Stmt:
        code = Code()
        code.add(*map(tirx.AllocBuffer, (self.sums, self.parts, self.whole, self.left)))
        code.add(*self.zeros(self.sums))
        quads = self.packing.stored_quads
        if self.team:
            places = [const(self.packing.groups), const(quads)]
            count = const(self.packing.groups * quads)
            code.add(shared_out(count, lambda index: self.words(1, *unravel(index, places))))
            code.add(*self.vectors(lambda place: _put(self.sums, place, agreed(tirx.Add, _at(self.sums, place)))))
        else:
            code.add(loop("group", self.packing.groups, lambda group: self.words(quads, group, const(0))))
        stores = sequence([self.stored(row, vector) for row in range(self.rows) for vector in range(self.width // 4)])
        code.add(once(stores) if self.team else stores)
        return code.statement()

    def vectors(self, body: Callable[[int], tirx.Stmt]) -> list[tirx.Stmt]:
        return [body(place) for place in range(0, self.rows * self.width, 4)]

    def zeros(self, cells: Buffer) -> list[tirx.Stmt]:
        return self.vectors(lambda place: _put(cells, place, repeated(_float(0), 4)))

    def words(self, count: int, group: Expr, quad: Expr) -> tirx.Stmt:
        """Add what `count` quads of a group from `quad` on give."""
        code = Code()
        code.add(*self.zeros(self.parts))
        code.add(*(tirx.BufferStore(self.whole, _float(0), [const(row)]) for row in range(self.rows)))
        code.add(loop("quad", count, lambda index: self.quad(group, quad + index)))
        place = code.let("place", self.block(group) * self.packing.width + self.lane)
        for vector in range(self.width // 4):
            code.add(*self.scaled(place + vector * 4, vector))
        return code.statement()

    def block(self, group: Expr) -> Expr:
        """The number of a group of the panel."""
        return tirx.truncdiv(self.column, const(self.packing.width)) * self.packing.groups + group

    def scaled(self, place: Expr, vector: int) -> list[tirx.Stmt]:
        """Add the sums of a group to those of four columns."""
        product, code = self.product, Code()
        scale = self.floats(code, "scale", product.scales, place)
        least = None if product.minima is None else self.floats(code, "least", product.minima, place)
        for row in range(self.rows):
            at = row * self.width + vector * 4
            whole, total = tirx.BufferLoad(self.whole, [const(row)]), _at(self.parts, at)
            if least is None:
                total = (total - repeated(whole * _float(product.packing.format.zero or 0), 4)) * scale
            else:
                total = total * scale + repeated(whole, 4) * least
            code.add(_put(self.sums, at, _at(self.sums, at) + total))
        return [code.statement()]

    def floats(self, code: Code, name: str, source: Buffer, place: Expr) -> Expr:
        cells = local(name, 4, "float32")
        loaded = tirx.BufferLoad(source, [consecutive(place, 4)])
        code.add(tirx.AllocBuffer(cells), _put(cells, 0, loaded.astype("float32x4")))
        return _at(cells, 0)

    def quad(self, group: Expr, quad: Expr) -> tirx.Stmt:
        """Add the products of a quad of stored words, one for each column, with its left operands."""
        code, packing = Code(), self.packing
        for row in range(self.rows):
            whole: Expr = tirx.BufferLoad(self.whole, [const(row)])
            for half in range(self.halves):
                cell = (row * self.halves + half) * WORD
                start = group * GROUP + (quad + half * packing.stored_quads) * WORD
                code.add(vectorized(WORD, partial(self.load_left, row, cell, start)))
                for byte in range(WORD):
                    whole = whole + tirx.BufferLoad(self.left, [const(cell + byte)])
            code.add(tirx.BufferStore(self.whole, whole, [const(row)]))
        place = self.block(group) * packing.group_bytes + (quad * packing.width + self.lane) * WORD
        for vector in range(self.width // 4):
            four = tirx.BufferLoad(self.product.codes, [consecutive(place + vector * 4 * WORD, 4 * WORD)])
            words = code.let("words", tirx.reinterpret("uint32x4", four))
            for half in range(self.halves):
                for byte in range(WORD):
                    code.add(self.multiplied(words, vector, half, byte))
        return code.statement()

    def load_left(self, row: int, cell: int, start: Expr, lane: Expr) -> tirx.Stmt:
        stage = self.product.stage
        (rows, _), inner = stage.axes, stage.reduce[-1]
        last = as_index(rows.extent) - 1
        at = self.first if self.rows == 1 else tirx.min(self.first + row, last)
        values = {rows.var: index_of(rows, at), inner.var: index_of(inner, start + lane)}
        return tirx.BufferStore(self.left, substitute(self.product.left, values), [const(cell) + lane])

    def multiplied(self, words: Expr, vector: int, half: int, byte: int) -> tirx.Stmt:
        """Add the products of one code of each of four columns."""
        bits = self.packing.format.bits
        shift = 8 * byte + bits * half
        mask = tirx.const(((1 << bits) - 1) << shift, "uint32")
        code, number = Code(), local("number", 4, "float32")
        code.add(tirx.AllocBuffer(number), _put(number, 0, (words & repeated(mask, 4)).astype("float32x4")))
        for row in range(self.rows):
            left = tirx.BufferLoad(self.left, [const((row * self.halves + half) * WORD + byte)])
            at = row * self.width + vector * 4
            factor = left * _float(2.0**-shift)
            code.add(_put(self.parts, at, _at(self.parts, at) + _at(number, 0) * repeated(factor, 4)))
        return code.statement()

    def stored(self, row: int, vector: int) -> tirx.Stmt:
        """Store four columns of a row, those that exist."""
        rows, columns = self.product.stage.axes
        count, cell = self.packing.rows, row * self.width + vector * 4
        place = self.column + vector * 4

        def one(lane: Expr) -> tirx.Stmt:
            value = tirx.BufferLoad(self.sums, [const(cell) + lane])
            at = {rows.var: index_of(rows, self.first + row), columns.var: index_of(columns, place + lane)}
            return self.product.finish(value, at)

        if count % 4 or self.product.finish.scalar:
            lanes = [const(lane) for lane in range(4)]
            result = sequence([_when(place + lane < count, one(lane), count % self.width == 0) for lane in lanes])
        else:
            result = _when(place < count, vectorized(4, one), count % self.width == 0)
        return _when(self.first + row < as_index(rows.extent), result, self.rows == 1)


def _when(condition: Expr, statement: tirx.Stmt, always: bool) -> tirx.Stmt:
    return statement if always else tirx.IfThenElse(condition, statement, None)


def _at(cells: Buffer, place: int) -> Expr:
    return tirx.BufferLoad(cells, [consecutive(const(place), 4)])


def _put(cells: Buffer, place: int, value: Expr) -> tirx.Stmt:
    return tirx.BufferStore(cells, value, [consecutive(const(place), 4)])


def _float(value: float) -> Expr:
    return tirx.const(value, "float32")

"""Integer matrix products and convolutions for CPUs without vectors, in tiles whose sums fit the general registers.

The rule takes the anchors `integer_matmul` and `integer_conv` whose right factors are packed for one of `TILES`:

* `smlad` multiplies both halves of a word. A word of four right factors becomes two words of two factors each, those of
  bytes 0 and 2 and those of bytes 1 and 3; the left factors of a tile are copied in this form once, for all panels,
  from a word of 8-bit integers or from two words of 16-bit ones.
* `mla` multiplies one factor at a time.

Right factors of 4 bits are two in a byte (`anchors.integer`). For `smlad_4`, both halves of the bytes of a word are
widened where they are the upper ones, so that factors, and with them sums, are 16 times as large until they are stored.
For `mla_4`, both halves of a byte become numbers.

As for vectors (`matmul`), the left factors of a tile of rows are copied first, those of one term for all rows next to
each other. The epilogue is one loop over the sums of a tile, the rows of a column one after the other, so that what it
reads for a column is read once.

It declines other stages, and left factors that are computed.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
from tvm import ir, sym, tirx
from tvm.ir.prim import expr as prim

from deploykit.compiler.decisions import Declined
from deploykit.compiler.devices.cpu import Device
from deploykit.compiler.operators.anchors.integer import DOT
from deploykit.compiler.operators.quantized.numbers import RANGES
from deploykit.compiler.schedules.integer.dot import DOTS, Dot
from deploykit.compiler.schedules.integer.matmul import STRETCH, Emitter, Strip
from deploykit.compiler.schedules.integer.product import Product, product_of
from deploykit.compiler.schedules.kernel.access import Views
from deploykit.compiler.schedules.kernel.kinds import another_kind
from deploykit.compiler.schedules.kernel.loops import Code, index_of, local, loop
from deploykit.compiler.schedules.kernel.pointers import pointer
from deploykit.compiler.schedules.kernel.stages import Stage
from deploykit.compiler.schedules.matmul.tile import Tile
from deploykit.compiler.tir.rewriting import Buffer, Expr, collect, sequence, substitute
from deploykit.compiler.tir.values import as_index, const, dtype_of, static

TILES: Mapping[str, tuple[int, int]] = {"smlad": (4, 2), "mla": (2, 4), "smlad_4": (4, 2), "mla_4": (2, 4)}
"""The rows and columns of a tile, by the name of the instruction: eight sums leave registers for factors and places."""

WORD = 4
"""The 8-bit integers of a word."""

MOST_TERMS = 512
"""The terms of a sum whose left factors are copied at a time."""

TOGETHER = 2
"""The groups of terms in one iteration of the innermost loop."""


HALVED: Mapping[str, str] = {"smlad": "smlad_4", "mla": "mla_4"}
"""The instruction's form for right factors of 4 bits."""

SCALE = 16
"""Sums of `smlad_4` are so many times as large."""

UPPER = 0xF0F0F0F0 - (1 << 32)
"""The upper halves of the bytes of a word."""


def halved(dot: Dot, left: str, right: np.ndarray) -> Dot | None:
    """The form of an instruction for right factors `[..., K, N]`, if they all have 4 bits, and the sums of their
    products with any left factors of dtype `left` have room for `SCALE`."""
    name = HALVED.get(dot.name)
    if name is None or not right.size or right.min() < -8 or right.max() > 7:
        return None
    greatest = max(map(abs, RANGES[left]))
    sums = np.abs(right.astype(np.int64)).sum(axis=-2).max()
    return DOTS[name] if int(sums) * greatest * SCALE < 1 << 31 else None


def width(dot: Dot, columns: int | None) -> int:
    """The columns of a panel for an instruction; 0 if it is none of `TILES`."""
    if dot.name not in TILES:
        return 0
    widest = TILES[dot.name][1]
    return widest if columns is None else max(1, min(widest, columns))


def integer_words(stage: Stage, views: Views, device: Device) -> list[tirx.Stmt] | Declined:
    """Statements that compute `stage`, or the reason why it is no integer product for a CPU without vectors."""
    other = another_kind(stage, "integer_matmul", "integer_conv")
    if other is not None:
        return other
    if stage.annotations[DOT] not in TILES:
        return Declined("its right operand is not packed for a CPU without vectors")
    product = product_of(stage, views)
    if isinstance(product, Declined):
        return product
    left = product.left
    if not isinstance(left, prim.Cast) or not isinstance(left.value, ir.TensorLoad):
        return Declined("its left factors are computed")
    return [_Words(product, views, device).tasks()]


class _Words(Emitter):
    """Emits the loops of one product."""

    def __init__(self, product: Product, views: Views, device: Device) -> None:
        super().__init__(product, views, device)
        rows, columns = TILES[product.dot.name]
        self.tallest = max(rows, rows * columns // self.vectors if self.vectors < columns else rows)
        self.most = MOST_TERMS
        self.taps = self._taps()
        self.part = self._part()
        assert isinstance(product.left, prim.Cast)
        self.narrow = dtype_of(product.left.value)
        self.pairs = product.dot.left == "int32"
        self.halved = product.dot.name in HALVED.values()

    @property
    def whole(self) -> bool:
        """Whether all terms of a sum are copied at once."""
        depth = static(self.depth)
        return depth is not None and depth <= self.part

    def tasks(self) -> tirx.Stmt:
        """All tiles."""
        product = self.product
        panels = tirx.floordiv(as_index(product.columns.extent) + (product.width - 1), const(product.width))
        panels = sym.Analyzer().simplify(panels)
        batch = {axis.var: ir.Var(axis.var.name.removeprefix("v_"), "int64") for axis in product.batch}
        values = {var: index_of(axis, batch[axis.var]) for var, axis in zip(batch, product.batch, strict=True)}

        def stretch(first: Expr, count: Expr) -> tirx.Stmt:
            return self._rows(partial(self.strip, values, first, count))

        body = (
            stretch(const(0), panels)
            if self.whole
            else loop(
                "stretch",
                tirx.floordiv(panels + (STRETCH - 1), const(STRETCH)),
                lambda s: stretch(s * STRETCH, tirx.min(const(STRETCH), panels - s * STRETCH)),
            )
        )
        for axis in reversed(product.batch):
            body = tirx.For(batch[axis.var], const(0), as_index(axis.extent), tirx.ForKind.SERIAL, body)
        return body

    def _rows(self, strip: partial[tirx.Stmt]) -> tirx.Stmt:
        """Strips that cover all rows: as many of the tallest height as there are, then lower ones."""
        rows = as_index(self.product.rows.extent)
        known, tall = static(rows), self.tallest
        tiles = tirx.floordiv(rows, const(tall)) if known is None else const(known // tall)
        steps = [loop("tile", tiles, lambda t: strip(tall, t * tall))]
        if known is None:
            steps.append(loop("row", rows - tiles * tall, lambda r: strip(1, tiles * tall + r)))
        elif known % tall:
            steps.append(strip(known % tall, const(known // tall * tall)))
        return sequence(steps)

    @property
    def step(self) -> int:
        """The bytes of right factors of one step."""
        return super().step // (2 if self.halved else 1)

    @property
    def stride(self) -> int:
        """The elements of the left factors of a row."""
        group = self.product.dot.group
        return -(-self.part // group) * group * 16 // _bits(self.product.dot)

    # Left factors

    def copied(self, place: Strip, start: Expr, terms: Expr) -> tirx.Stmt:
        if not self.pairs or self._in_words():
            return super().copied(place, start, terms)
        self._row = local("row_factors", 2 * self.stride, self.narrow)
        return sequence([tirx.AllocBuffer(self._row), super().copied(place, start, terms)])

    def _in_words(self) -> bool:
        """Whether left factors are read as words: whole groups of neighbouring factors."""
        product, group = self.product, self.product.dot.group
        channels = static(product.channel.extent)
        if not product.contiguous or channels is None:
            return False
        together = (product.taps[-1].static or 1) if product.taps and product.adjacent else 1
        return channels * together % group == 0 and self.part % group == 0

    def copied_row(self, place: Strip, row: Expr, terms: Expr) -> tirx.Stmt:
        """The words of a row, from the factors that were read one by one."""
        if not self.pairs or self._in_words():
            return sequence([])
        group = self.product.dot.group
        groups = tirx.truncdiv(terms + (group - 1), const(group))
        nothing = tirx.const(0, self.narrow)
        steps: list[tirx.Stmt] = []
        if static(terms) is None or int(terms) % group:
            zero = partial(_store_at, self._row, nothing, terms)
            steps.append(loop("z", groups * group - terms, zero))
        row_factors, words = self._row, groups * (group // WORD)
        steps.append(loop("g", words, lambda g: self._widen(place, row, g, row_factors, g * WORD)))
        return sequence(steps)

    def _widen(self, place: Strip, row: Expr, group: Expr, source: Buffer, offset: Expr) -> tirx.Stmt:
        """Store four left factors of a row as two words."""
        count = 2 if self.narrow == "int16" else 1
        held = local("held", count, "int32")
        values = [tirx.BufferLoad(held, [const(n)]) for n in range(count)]
        prefix = {"int8": "sxtb16", "uint8": "uxtb16", "int16": "pack16"}[self.narrow]
        suffixes = ("_low", "_high") if self.narrow == "int16" else ("", "_ror8")
        at = (group * place.tile.rows + row) * 2
        steps: list[tirx.Stmt] = [tirx.AllocBuffer(held)]
        steps += [tirx.BufferStore(held, word(source, offset + 2 * n), [const(n)]) for n in range(count)]
        for half, suffix in enumerate(suffixes):
            steps.append(tirx.BufferStore(place.factors, called(f"{prefix}{suffix}", *values), [at + half]))
        return sequence(steps)

    def copied_run(
        self, at: dict[ir.Var, Expr], start: Expr, count: Expr, place: Strip, row: Expr, term: Expr
    ) -> tirx.Stmt:
        product = self.product

        def load(c: Expr) -> ir.TensorLoad:
            value = substitute(product.left, {**at, product.channel.var: index_of(product.channel, start + c)})
            return collect(self.views.value(value), ir.TensorLoad)[-1]  # those in its indices come before it

        if not self.pairs:
            rows = place.tile.rows
            return loop(
                "c",
                count,
                lambda c: tirx.BufferStore(place.factors, load(c).astype("int16"), [(term + c) * rows + row]),
            )
        if not self._in_words():
            return loop("c", count, lambda c: tirx.BufferStore(self._row, load(c), [term + c]))

        def words(g: Expr) -> tirx.Stmt:
            first = load(g * WORD)
            return self._widen(place, row, tirx.truncdiv(term, const(WORD)) + g, first.source, first.indices[0])

        return loop("g", tirx.truncdiv(count, const(WORD)), words)

    # Sums

    def block(
        self, place: Strip, panel: Expr, start: Expr, terms: Expr, state: tuple[Buffer, Expr, Expr] | None, slot: Expr
    ) -> tirx.Stmt:
        tile, group = place.tile, self.product.dot.group
        sums = tile.scratch()
        code = Code()
        groups = sym.Analyzer().simplify(tirx.truncdiv(terms + (group - 1), const(group)))
        base = code.let("weights", self.panel_offset(place, panel) + tirx.truncdiv(start, const(group)) * self.step)
        code.add(tirx.AllocBuffer(sums))
        count = tile.rows * tile.columns
        nothing: list[tirx.Stmt] = [_store_at(sums, tirx.const(0, "int32"), const(0), const(n)) for n in range(count)]
        steps = self._steps(place, sums, base, groups)
        finished = self.stored(tile, sums, place, panel)
        if state is None:
            code.add(*nothing, steps, finished)
            return code.statement()
        kept, is_first, is_last = state
        at = slot * count
        again = [_store_at(sums, tirx.BufferLoad(kept, [at + n]), const(0), const(n)) for n in range(count)]
        keep = [_store_at(kept, tirx.BufferLoad(sums, [const(n)]), at, const(n)) for n in range(count)]
        code.add(
            tirx.IfThenElse(is_first, sequence(nothing), sequence(again)),
            steps,
            tirx.IfThenElse(is_last, finished, sequence(keep)),
        )
        return code.statement()

    def _steps(self, place: Strip, sums: Buffer, base: Expr, groups: Expr) -> tirx.Stmt:
        """Add `groups` groups of products to every sum."""
        weights = self.views.flat(self.product.right.source)
        lefts = self.product.dot.group * 16 // _bits(self.product.dot) * place.tile.rows

        def several(count: int, first: Expr) -> tirx.Stmt:
            left, declared = pointer("left", place.factors, first * lefts)
            right, others = pointer("right", weights, base + first * self.step)
            steps: list[tirx.Stmt] = [*declared, *others]
            step = self._pairs if self.pairs else self._products
            steps += [step(place.tile, sums, left, n * lefts, right, n * self.step) for n in range(count)]
            return sequence(steps)

        whole = static(groups)
        if whole is None:
            return loop("g", groups, partial(several, 1))
        together = max(1, min(whole, TOGETHER))
        main = loop("g", whole // together, lambda index: several(together, index * together))
        rest = whole % together
        return sequence([main, several(rest, const(whole - rest))]) if rest else main

    def _products(self, tile: Tile, sums: Buffer, left: Buffer, at: int, right: Buffer, to: int) -> tirx.Stmt:
        """Add the products of one group of left factors of each row, from place `at` on, and one of right factors of
        each column, from place `to` on, to every sum."""
        steps: list[tirx.Stmt] = []
        for v in range(tile.columns):
            value = tirx.BufferLoad(right, [const(to + v)]).astype("int32")
            rights = [called(name, value) for name in ("lower_half", "upper_half")] if self.halved else [value]
            for term, factor in enumerate(rights):
                for i in range(tile.rows):
                    other = tirx.BufferLoad(left, [const(at + term * tile.rows + i)]).astype("int32")
                    place = const(i * tile.columns + v)
                    total = called("mla", other, factor, tirx.BufferLoad(sums, [place]))
                    steps.append(_store_at(sums, total, const(0), place))
        return sequence(steps)

    def _pairs(self, tile: Tile, sums: Buffer, left: Buffer, at: int, right: Buffer, to: int) -> tirx.Stmt:
        """Add one group of products to every sum, two at a time. Their left factors are from place `at` on, the right
        ones from place `to` on."""
        words, pairs = (local(name, tile.columns, "int32") for name in ("words", "pairs"))
        columns = range(tile.columns)
        steps: list[tirx.Stmt] = [tirx.AllocBuffer(words), tirx.AllocBuffer(pairs)]
        steps += [_store_at(words, word(right, const(to + v * WORD)), const(0), const(v)) for v in columns]
        held: list[Expr] = [tirx.BufferLoad(words, [const(v)]) for v in columns]
        quads = [held]
        if self.halved:
            mask = tirx.IntImm("int32", UPPER)
            quads = [[(word_ << 4) & mask for word_ in held], [word_ & mask for word_ in held]]
        for n, quad in enumerate(quads):
            for half, widened in enumerate(("sxtb16", "sxtb16_ror8")):
                steps += [_store_at(pairs, called(widened, quad[v]), const(0), const(v)) for v in columns]
                for i in range(tile.rows):
                    factor = tirx.BufferLoad(left, [const(at + (n * tile.rows + i) * 2 + half)])
                    for v in columns:
                        place = const(i * tile.columns + v)
                        pair = tirx.BufferLoad(pairs, [const(v)])
                        value = called("smlad", factor, pair, tirx.BufferLoad(sums, [place]))
                        steps.append(_store_at(sums, value, const(0), place))
        return sequence(steps)

    # Results

    def stored(self, tile: Tile, sums: Buffer, place: Strip, panel: Expr) -> tirx.Stmt:
        """Store the sums in the columns that exist."""
        columns, known = as_index(self.product.columns.extent), static(self.product.columns.extent)
        code = Code()
        spilled = local("spilled", tile.rows * tile.columns, "int32")
        code.add(tirx.AllocBuffer(spilled))
        for n in range(tile.rows * tile.columns):
            total: Expr = tirx.BufferLoad(sums, [const(n)])
            total = total >> (SCALE.bit_length() - 1) if self.halved and self.pairs else total
            code.add(_store_at(spilled, total, const(0), const(n)))
        count: Expr = const(tile.columns)
        if known is None or known % tile.columns:
            count = code.let("columns", tirx.min(count, columns - panel * tile.columns))

        def element(j: Expr, i: Expr) -> tirx.Stmt:
            return self.store(place, panel, i, j, tirx.BufferLoad(spilled, [i * tile.columns + j]))

        code.add(loop("j", count, lambda j: loop("i", tile.rows, partial(element, j))))
        return code.statement()


def _bits(dot: Dot) -> int:
    return 32 if dot.left == "int32" else 16


def called(name: str, *operands: Expr) -> Expr:
    """A call of a function of `codegen.c.words`."""
    return tirx.call_pure_extern("int32", name, *operands)


def word(buffer: Buffer, offset: Expr) -> Expr:
    """Four neighbouring 8-bit integers, or two 16-bit ones."""
    return called("load_word", tirx.address_of(tirx.BufferLoad(buffer, [offset])))


def _store_at(buffer: Buffer, value: Expr, start: Expr, offset: Expr) -> tirx.Stmt:
    return tirx.BufferStore(buffer, value, [start + offset])

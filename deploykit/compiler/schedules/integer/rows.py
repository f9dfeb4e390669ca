"""Integer matrix products and convolutions for CPUs with vectors that C calls functions for (`devices.row_functions`).

The rule takes the anchors `integer_matmul` and `integer_conv` whose right factors are packed for an instruction of such
a set. Rows are taken a few at a time, with all columns. `vmladava` of Helium adds the products of 16 neighbouring terms
to a sum: each pair of vectors of left factors meets four columns. `vwmacc` of RISC-V adds the products of one left
factor and a vector of columns: each vector of right factors meets three rows. Left factors are int8, for RISC-V also
uint8. Those of a row stay where they are if they are contiguous there; otherwise they are copied, those of at most
`MOST_TERMS` terms at a time.

Sums of some columns are in memory, from where they are requantised as vectors, if that is the epilogue; other epilogues
are applied to one sum after the other.

It declines other stages, and for RISC-V, and for 16 bits, left factors that are computed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import prod

from tvm import ir, sym, tirx
from tvm.ir.prim import expr as prim

from deploykit.compiler.decisions import Declined
from deploykit.compiler.devices.cpu import Device
from deploykit.compiler.devices.row_functions import RowFunctions
from deploykit.compiler.operators.anchors.integer import DOT
from deploykit.compiler.schedules.conv.row_walk import Walk
from deploykit.compiler.schedules.integer.product import Product, copied_taps, product_of
from deploykit.compiler.schedules.integer.sums import Sums, stored
from deploykit.compiler.schedules.kernel.access import Views, offset_of
from deploykit.compiler.schedules.kernel.kinds import another_kind
from deploykit.compiler.schedules.kernel.loops import Code, index_of, local, loop
from deploykit.compiler.schedules.kernel.pointers import address, run
from deploykit.compiler.schedules.kernel.stages import Stage
from deploykit.compiler.tir.rewriting import Buffer, Expr, collect, sequence, substitute
from deploykit.compiler.tir.values import as_index, bits_of, const, dtype_of, static

MOST_TERMS = 1024
"""The terms of a sum whose left factors are copied at a time."""


def integer_rows(stage: Stage, views: Views, device: Device) -> list[tirx.Stmt] | Declined:
    """Statements that compute `stage`, or the reason why it is no integer product by functions on rows."""
    other = another_kind(stage, "integer_matmul", "integer_conv")
    if other is not None:
        return other
    functions = device.row_functions
    if functions is None or stage.annotations[DOT] not in functions.dots:
        return Declined("its right operand is not packed for functions on rows")
    product = product_of(stage, views)
    if isinstance(product, Declined):
        return product
    narrow = _narrow(product)
    return [_Rows(product, views, functions, narrow).tasks()] if narrow else Declined("its left factors are computed")


@dataclass(frozen=True)
class _Place:
    """Rows that are multiplied together: the values of the batch loops, the first row, and for each row the
    copied left factors. The sums of a row are `between` behind those of the row before."""

    batch: dict[ir.Var, Expr]
    row: Expr
    rows: int
    factors: list[Buffer]
    sums: Buffer
    between: int


class _Rows:
    """Emits the loops of one product."""

    def __init__(self, product: Product, views: Views, functions: RowFunctions, narrow: str) -> None:
        self.product, self.views, self.narrow = product, views, narrow
        self.functions, self.group = functions, product.dot.group
        self.depth = sym.Analyzer().simplify(product.depth)
        self.in_place = self._in_place()
        self.taps = self._taps()
        self.places = [local(f"place{i}", self.functions.rows, "int64") for i in range(len(product.coordinates))]

    def _in_place(self) -> bool:
        """Whether the left factors of a row are next to each other in memory."""
        product = self.product
        *outer, last = [axis.static or 0 for axis in product.taps] or [1]
        together = last == 1 or product.adjacent
        return _plain(product) == self.narrow and product.contiguous and together and all(n == 1 for n in outer)

    def _taps(self) -> int:
        """The number of taps that are copied at a time: all, those of the last axis, or one. Others than all must fill
        whole vectors."""
        channels = static(self.product.channel.extent) or 1
        sizes = [axis.static or 1 for axis in self.product.taps] or [1]
        if prod(sizes) * channels > MOST_TERMS:
            for count in (sizes[-1], 1):
                if count * channels % self.group == 0 and count * channels <= max(MOST_TERMS, channels):
                    return count
        return prod(sizes)

    @property
    def part(self) -> int:
        """The number of terms of a sum that are copied at a time: all, or whole vectors."""
        if self.product.taps:
            return self.taps * (static(self.product.channel.extent) or 1)
        depth = static(self.depth)
        return MOST_TERMS if depth is None else min(depth, MOST_TERMS)

    @property
    def whole(self) -> bool:
        """Whether all left factors of a row are there at once."""
        depth = static(self.depth)
        return self.in_place or (depth is not None and depth <= self.part)

    def tasks(self) -> tirx.Stmt:
        """All rows."""
        product, code = self.product, Code()
        loops = {axis.var: ir.Var(axis.var.name.removeprefix("v_"), "int64") for axis in product.batch}
        batch = {axis.var: index_of(axis, loops[axis.var]) for axis in product.batch}
        walk = Walk(code, product.coordinates, const(0)) if product.taps else None
        if walk is not None:
            code.add(*map(tirx.AllocBuffer, self.places))
        rows = as_index(product.rows.extent)
        known, few = static(rows), self.functions.rows
        tiles = tirx.floordiv(rows, const(few)) if known is None else const(known // few)
        rest = rows - tiles * few if known is None else const(known % few)
        code.add(loop("tile", tiles, lambda tile: self._tile(batch, walk, few, tile * few)))
        code.add(loop("last", rest, lambda row: self._tile(batch, walk, 1, tiles * few + row)))
        body = code.statement()
        for axis in reversed(product.batch):
            body = tirx.For(loops[axis.var], const(0), as_index(axis.extent), tirx.ForKind.SERIAL, body)
        return body

    def _tile(self, batch: dict[ir.Var, Expr], walk: Walk | None, height: int, row: Expr) -> tirx.Stmt:
        """All columns of `height` rows from `row` on."""
        columns, code = as_index(self.product.columns.extent), Code()
        known = static(columns)
        most = self.functions.stretch(known)
        copied = 0 if self.in_place else height
        factors = [local("factors", -(-self.part // self.group) * self.group, self.narrow) for _ in range(copied)]
        place = _Place(batch, row, height, factors, local("sums", height * most, "int32"), most)
        code.add(*map(tirx.AllocBuffer, (*place.factors, place.sums)))
        if walk is not None:
            code.add(*self._walked(walk, height))
        if self.whole:
            code.add(self._copied(place, const(0), self.depth))

        def stretch(index: Expr) -> tirx.Stmt:
            inner, first = Code(), index * most
            count: Expr = const(most)
            if known is None or known % most:
                count = inner.let("columns", tirx.min(count, columns - first))
            inner.add(self._multiplied(place, first, count))
            sums = Sums(place.sums, const(height), most, count)
            inner.add(stored(partial(self._stored, place, first), sums, self.functions))
            return inner.statement()

        code.add(loop("stretch", tirx.floordiv(columns + (most - 1), const(most)), stretch))
        return code.statement()

    def _stored(self, place: _Place, first: Expr, value: Expr, row: Expr, index: Expr) -> tirx.BufferStore:
        """The store of a row's result, `index` columns after `first`."""
        product = self.product
        at = {product.rows.var: place.row + row, product.columns.var: first + index}
        return substitute(product.finish(value, product.values), {**place.batch, **at})

    # Left factors

    def _walked(self, walk: Walk, height: int) -> list[tirx.Stmt]:
        """Keep the coordinates of the next `height` rows."""
        steps: list[tirx.Stmt] = []
        for i in range(height):
            cells = zip(self.places, walk.values().values(), strict=True)
            steps += [tirx.BufferStore(cell, as_index(value), [const(i)]) for cell, value in cells]
            steps.append(walk.advance())
        return steps

    def _values(self, place: _Place, i: int) -> dict[ir.Var, Expr]:
        """The values of the axes for a row of a tile."""
        product = self.product
        at = {**place.batch, product.rows.var: place.row + i}
        values = {var: substitute(value, at) for var, value in product.values.items()}
        if product.taps:
            kept = zip(product.coordinates, self.places, strict=True)
            values |= {axis.var: index_of(axis, tirx.BufferLoad(cell, [const(i)])) for axis, cell in kept}
        return values

    def _copied(self, place: _Place, start: Expr, terms: Expr) -> tirx.Stmt:
        """Copy `terms` terms from `start` on of every row, if they do not stay where they are."""
        steps: list[tirx.Stmt] = []
        for i, factors in enumerate(place.factors):
            at = self._values(place, i)
            if self.product.taps:
                first = tirx.truncdiv(start, as_index(self.product.channel.extent))
                steps.append(copied_taps(self.product, first, self.taps, partial(self._copied_tap, factors, at)))
            else:
                steps.append(self._copied_run(factors, at, start, terms, const(0)))
        return sequence(steps)

    def _copied_tap(
        self, factors: Buffer, values: dict[ir.Var, Expr], tap: dict[ir.Var, Expr], count: Expr, term: Expr
    ) -> tirx.Stmt:
        return self._copied_run(factors, {**values, **tap}, const(0), count, term)

    def _copied_run(self, factors: Buffer, at: dict[ir.Var, Expr], start: Expr, count: Expr, term: Expr) -> tirx.Stmt:
        """Copy `count` neighbouring left factors, from that of channel `start` on, to place `term` on."""
        product = self.product
        plain = _plain(product)
        if plain and product.contiguous:
            copy, size = "copy_bytes" if plain == self.narrow else "copy_signed", bits_of(plain) // 8
            return run(self.functions.name(copy), address(factors, term), self._address(at, start), count * size)

        def element(c: Expr) -> tirx.Stmt:
            value = substitute(product.left, {**at, product.channel.var: index_of(product.channel, start + c)})
            return tirx.BufferStore(factors, self.views.value(value).astype(self.narrow), [term + c])

        return loop("c", count, element)

    def _address(self, at: dict[ir.Var, Expr], channel: Expr) -> Expr:
        """The address of a left factor."""
        axes = {**at, self.product.channel.var: index_of(self.product.channel, channel)}
        value = self.views.value(substitute(self.product.left, axes))
        load = collect(value, ir.TensorLoad)[-1]  # those in its indices come before it
        return address(load.source, load.indices[0])

    def _row(self, place: _Place, i: int) -> Expr:
        """The address of the left factors of a row."""
        if not self.in_place:
            return place.factors[i]
        taps = {axis.var: tirx.IntImm(dtype_of(axis.var), 0) for axis in self.product.taps}
        return self._address({**self._values(place, i), **taps}, const(0))

    # Sums

    def _multiplied(self, place: _Place, first: Expr, count: Expr) -> tirx.Stmt:
        """The sums of `count` columns from `first` on."""
        right, functions = self.product.right.source, self.functions
        width, group = self.product.width, self.group
        lead = [substitute(substitute(i, self.product.values), place.batch) for i in self.product.right.indices[:-4]]
        within: Expr = const(0)
        extents: tuple[Expr, Expr] = (const(width), count)
        if static(right.shape[-4]) == 1 and functions.whole:
            panel, within = const(0), first
        else:
            panel = tirx.floordiv(first, const(width))
        if not functions.whole:
            extents = (as_index(right.shape[-3]) * (width * group), tirx.floordiv(count + (width - 1), const(width)))
        base = offset_of(right, [*lead, panel, const(0), within, const(0)])

        def multiply(start: Expr, terms: Expr, more: Expr) -> tirx.Stmt:
            weights = address(self.views.flat(right), base + tirx.truncdiv(start, const(group)) * (width * group))
            rows = [self._row(place, i) for i in range(place.rows)]
            rest = (*rows, weights, extents[0], terms, extents[1], more)
            of = f"_{self.narrow}" if self.product.dot.left == "int16" else ""
            if place.rows == 1:
                return run(functions.name(f"multiply_row{of}"), place.sums, *rest)
            return run(functions.name(f"multiply_rows{of}"), place.sums, const(place.between), *rest)

        if self.whole:
            return multiply(const(0), self.depth, const(0))

        def part(index: Expr) -> tirx.Stmt:
            inner = Code()
            start = inner.let("start", index * self.part)
            terms = inner.let("terms", tirx.min(const(self.part), self.depth - start))
            inner.add(self._copied(place, start, terms), multiply(start, terms, index))
            return inner.statement()

        parts = tirx.truncdiv(self.depth + (self.part - 1), const(self.part))
        return loop("part", tirx.max(parts, const(1)), part)


def _narrow(product: Product) -> str:
    """The dtype in which functions take left factors; an empty string if they do not take them."""
    if product.dot.left == "int8":
        return "int8"
    dtype = dtype_of(product.left.value) if isinstance(product.left, prim.Cast) else ""
    return dtype if dtype in (("int8", "uint8") if product.dot.narrow else ("int16",)) else ""


def _plain(product: Product) -> str:
    """The dtype of left factors that are read, with nothing but an offset of the instruction; else an empty string."""
    left, offset = product.left, 0
    if isinstance(left, prim.Add | prim.Sub) and isinstance(left.b, prim.IntImm):
        offset = int(left.b) if isinstance(left, prim.Add) else -int(left.b)
        left = left.a
    if not isinstance(left, prim.Cast) or not isinstance(left.value, ir.TensorLoad):
        return ""
    dtype = dtype_of(left.value)
    return dtype if dtype in ("int8", "uint8", "int16") and offset == product.dot.offset(dtype) else ""

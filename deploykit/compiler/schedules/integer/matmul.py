"""Matrix products and convolutions of integers, or of bfloat16, with packed right factors.

The rule takes the anchors `integer_matmul`, `integer_conv`, `bf16_matmul` and `bf16_conv` (`anchors.integer`). A batch
dim becomes rows if the left operand and the result traverse it like rows and the right factors do not depend on it. All
outputs of a convolution become rows, too.

Rows are cut into tiles. First, the left factors of a tile are copied to contiguous memory, in the form that the
instruction takes (`dot`), with the taps of a convolution one after the other. Then all panels of a stretch are
multiplied with them. A sum over more than `DEPTH_BYTES` is computed in parts; the partial sums are kept for a stretch.
If the number of rows is known, tiles are as even as possible; else the last rows are cut into tiles of ever smaller
height. The epilogue is applied when sums leave the registers. One unit of parallel work is a tile of rows by a stretch
of panels.

It declines other stages, and machines without vectors, where they are ordinary reductions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import TypeAlias

from tvm import ir, sym, tirx

from deploykit.compiler.decisions import Declined
from deploykit.compiler.devices.cpu import Device
from deploykit.compiler.operators.anchors.integer import DOT
from deploykit.compiler.schedules.conv.row_walk import Walk, pieces
from deploykit.compiler.schedules.integer import matrices, quads
from deploykit.compiler.schedules.integer.dot import DOTS, PACKED_4X8, QUADS, Apply, Dot, relaxed_probe, sum_of_octets
from deploykit.compiler.schedules.integer.product import Product, copied_taps, product_of
from deploykit.compiler.schedules.kernel.access import Views, offset_of
from deploykit.compiler.schedules.kernel.kinds import another_kind
from deploykit.compiler.schedules.kernel.loops import Code, index_of, local, loop, unravel
from deploykit.compiler.schedules.kernel.stages import Stage
from deploykit.compiler.schedules.matmul.tile import Tile, copy, each_vector, fill, tallest_with_factors, zero
from deploykit.compiler.tir.features import cpu_has
from deploykit.compiler.tir.rewriting import Buffer, Expr, sequence, substitute
from deploykit.compiler.tir.values import as_index, bits_of, consecutive, const, dtype_of, repeated, static

STRETCH = 8
"""The number of panels for which one copy of left factors is used."""

DEPTH_BYTES = 1024
"""Bytes of left factors of a row that are copied at a time."""

TALLEST = 24
"""The most rows of a tile."""


def integer_matmul(stage: Stage, views: Views, device: Device) -> list[tirx.Stmt] | Declined:
    """Statements that compute `stage`, or the reason why it is no product of narrow factors."""
    other = another_kind(stage, "integer_matmul", "integer_conv", "bf16_matmul", "bf16_conv")
    if other is not None:
        return other
    if device.vector_bits == 0:
        return Declined("the device has no vectors")
    if stage.annotations[DOT] == PACKED_4X8:
        return Declined("its right operand is packed for GPUs")
    product = product_of(stage, views)
    return product if isinstance(product, Declined) else [emitter_for(product, views, device).tasks()]


@dataclass(frozen=True)
class Strip:
    """A tile of rows: the values of the batch loops, its first row, the number of rows that exist, the copied left
    factors, and for each row what the lift of right factors adds to its sums."""

    batch: dict[ir.Var, Expr]
    tile: Tile
    row: Expr
    rows: Expr
    factors: Buffer
    lifted: Buffer | None


State: TypeAlias = tuple[Buffer, Expr, Expr]
"""The buffer that keeps sums between the parts of a sum, and whether a part is the first and whether it is the last."""


def emitter_for(product: Product, views: Views, device: Device) -> Emitter:
    """The emitter for the product, with another one for CPUs without what its instruction needs."""
    other = product.dot.otherwise
    plain = None if not other else Emitter(replace(product, dot=DOTS[other]), views, device)
    return Emitter(product, views, device, plain)


class Emitter:
    """Emits the loops of one product. `plain` emits strips for CPUs without the feature that its instruction needs."""

    def __init__(self, product: Product, views: Views, device: Device, plain: Emitter | None = None) -> None:
        self.product = product
        self.plain = plain
        self.views = views
        self.device = device
        self.lanes = device.lanes(32)
        self.vectors = product.width // self.lanes
        by_element = device.by_element and bits_of(product.dot.left) * product.dot.group == 32
        self.together = self.lanes if by_element else 1
        self.matrices = matrices.multiplies(device, product.dot)
        self.tallest = self.tallest_tile()
        self.most = DEPTH_BYTES * 8 // bits_of(product.dot.left)
        self.taps = self._taps()
        self.part = self._part()

    def tallest_tile(self) -> int:
        """The most rows of a tile."""
        if self.matrices:
            return min(TALLEST, matrices.tallest(self.device, self.vectors))
        if self.together > 1 or self.device.loads_first:
            return min(TALLEST, tallest_with_factors(self.device, self.vectors))
        spare = self.vectors + 1 + self.product.dot.spare
        return max(1, min(TALLEST, (self.device.vector_registers - spare) // self.vectors))

    def tile(self, height: int) -> Tile:
        """The tile of `height` rows."""
        return Tile(height, self.vectors, self.lanes, self.product.sums)

    def _taps(self) -> int:
        """The number of taps of a convolution that are copied at a time: all, those of the last axis, or one."""
        product = self.product
        channels = static(product.channel.extent) or 1
        sizes = [axis.static or 1 for axis in product.taps]
        for count in (prod(sizes), sizes[-1] if sizes else 1):
            if count * channels <= self.most and (count == prod(sizes) or count * channels % product.dot.group == 0):
                return count
        return prod(sizes) if channels % product.dot.group else 1

    def _part(self) -> int:
        """The number of terms of a sum that are copied at a time: all if they fit, else a multiple of the group."""
        if self.product.taps:
            return self.taps * (static(self.product.channel.extent) or 1)
        depth = static(self.depth)
        return self.most if depth is None else min(depth, self.most)

    @property
    def depth(self) -> Expr:
        return sym.Analyzer().simplify(self.product.depth)

    def heights(self) -> tuple[int, ...]:
        """The heights of tiles, largest first."""
        rows = static(self.product.rows.extent)
        if rows is None:
            return tuple(sorted({self.tallest, *(h for h in (4, 1) if h < self.tallest)}, reverse=True))
        tall = -(-rows // max(1, -(-rows // self.tallest)))
        return (tall, rows % tall) if tall and rows % tall else (max(tall, 1),)

    def tasks(self) -> tirx.Stmt:
        """All units of work. Units of one stretch of panels are consecutive."""
        product = self.product
        rows, columns = as_index(product.rows.extent), as_index(product.columns.extent)
        height = self.heights()[0]
        panels = tirx.floordiv(columns + (product.width - 1), const(product.width))
        tiles = tirx.floordiv(rows + (height - 1), const(height))
        stretches = tirx.floordiv(panels + (STRETCH - 1), const(STRETCH))
        extents = [*(as_index(axis.extent) for axis in product.batch), stretches, tiles]

        def task(index: Expr) -> tirx.Stmt:
            code = Code()
            counts = [code.let("count", extent) for extent in extents]
            *lead, stretch, tile = (code.let("place", place) for place in unravel(index, counts))
            batch = {axis.var: value for axis, value in zip(product.batch, lead, strict=True)}
            first = code.let("panel", stretch * STRETCH)
            count = code.let("panels", tirx.min(const(STRETCH), panels - first))
            start = code.let("row", tile * height)
            here = code.let("rows", tirx.min(const(height), rows - start))
            code.add(self.strips(start, here, partial(self.either_strip, batch, first, count)))
            return code.statement()

        total = extents[0]
        for extent in extents[1:]:
            total = total * extent
        return loop("task", total, task, tirx.ForKind.PARALLEL if self.device.parallel else tirx.ForKind.SERIAL)

    def strips(self, start: Expr, count: Expr, strip: Callable[[int, Expr], tirx.Stmt]) -> tirx.Stmt:
        """Tiles that cover `count` rows from `start` on; `count` is at most the tallest height."""
        tallest, *rest = self.heights()
        whole = strip(tallest, start)
        if static(self.product.rows.extent) is not None:
            return tirx.IfThenElse(count >= tallest, whole, strip(rest[0], start)) if rest else whole
        code = Code()
        row, left = start, count
        for height in rest:
            tiles = code.let("tiles", tirx.truncdiv(left, const(height)))
            code.add(loop("t", tiles, partial(_at_height, strip, height, row)))
            row, left = code.let("row", row + tiles * height), code.let("rows", left - tiles * height)
        return tirx.IfThenElse(count >= tallest, whole, code.statement())

    def either_strip(
        self, batch: dict[ir.Var, Expr], first: Expr, count: Expr, height: int, row: Expr, rows: Expr | None = None
    ) -> tirx.Stmt:
        """The strip for the CPU that code is generated for."""
        own = self.strip(batch, first, count, height, row, rows)
        if self.plain is None:
            return own
        other = self.plain.strip(batch, first, count, height, row, rows)
        return tirx.IfThenElse(cpu_has(self.product.dot.needs), own, other)

    def strip(
        self, batch: dict[ir.Var, Expr], first: Expr, count: Expr, height: int, row: Expr, rows: Expr | None = None
    ) -> tirx.Stmt:
        """`rows` rows (as many as the tile is high, by default) from `row` on by `count` panels from `first` on."""
        dot = self.product.dot
        tile = self.tile(height)
        factors = local("factors", tile.rows * self.stride, dot.left)
        lifted = local("lifted", tile.rows, "int32") if dot.lift else None
        place = Strip(batch, tile, row, const(height) if rows is None else rows, factors, lifted)
        code = Code()
        code.add(*(tirx.AllocBuffer(buffer) for buffer in (factors, lifted) if buffer is not None))
        depth = self.depth
        if static(depth) is not None and int(depth) <= self.part:
            code.add(self.copied(place, const(0), depth))
            code.add(loop("panel", count, lambda p: self.block(place, first + p, const(0), depth, None, p)))
            return code.statement()
        held = self.held(tile)
        kept = local("kept", STRETCH * held.rows * held.columns, tile.dtype)
        parts = code.let("parts", tirx.truncdiv(depth + (self.part - 1), const(self.part)))
        code.add(tirx.AllocBuffer(kept))

        def part(index: Expr) -> tirx.Stmt:
            inner = Code()
            start = inner.let("start", index * self.part)
            terms = inner.let("terms", tirx.min(const(self.part), depth - start))
            inner.add(self.copied(place, start, terms))
            state = (kept, index == 0, index == parts - 1)
            inner.add(loop("panel", count, lambda p: self.block(place, first + p, start, terms, state, p)))
            return inner.statement()

        code.add(loop("part", tirx.max(parts, const(1)), part))
        return code.statement()

    @property
    def terms(self) -> int:
        """The terms that one instruction adds to a sum."""
        return self.product.dot.group * (2 if self.matrices else 1)

    @property
    def filled(self) -> int:
        """The terms of which copied rows have a whole number: those that are added to `lifted` together, if any."""
        return self.product.dot.group * self.lanes if self.product.dot.lift else self.terms

    @property
    def stride(self) -> int:
        """The elements between copied rows: not a power of two, so that rows do not compete for the same cache sets."""
        size = bits_of(self.product.dot.left) // 8
        whole = -(-self.part // self.filled) * self.filled
        return whole + (64 // size if whole * size % 512 == 0 else 0)

    # Left factors

    def copied(self, place: Strip, start: Expr, terms: Expr) -> tirx.Stmt:
        """Copy `terms` terms from `start` on of every row, one row after the other."""
        product = self.product
        if not product.taps:

            def run(i: Expr) -> tirx.Stmt:
                copied = self.copied_run(self.values(place, i), start, terms, place, i, const(0))
                return sequence([copied, self.copied_row(place, i, terms)])

            return loop("i", place.rows, run)
        code = Code()
        at = Walk(code, product.coordinates, place.row)
        first = code.let("tap", tirx.truncdiv(start, as_index(product.channel.extent)))

        def row(i: Expr) -> tirx.Stmt:
            copied = self.copied_taps(place, {**self.fixed(place), **at.values()}, first, i)
            return sequence([copied, self.copied_row(place, i, terms), at.advance()])

        var = ir.Var("i", "int64")
        code.add(tirx.For(var, const(0), place.rows, tirx.ForKind.SERIAL, row(var)))
        return code.statement()

    def copied_taps(self, place: Strip, values: dict[ir.Var, Expr], first: Expr, i: Expr) -> tirx.Stmt:
        """Copy all channels of the taps of one part for row `i`."""

        def run(taps: dict[ir.Var, Expr], count: Expr, term: Expr) -> tirx.Stmt:
            return self.copied_run({**values, **taps}, const(0), count, place, i, term)

        return copied_taps(self.product, first, self.taps, run)

    def fixed(self, place: Strip) -> dict[ir.Var, Expr]:
        """The values of the axes that are not among the rows' coordinates."""
        own = {axis.var for axis in self.product.coordinates}
        return {var: substitute(value, place.batch) for var, value in self.product.values.items() if var not in own}

    def values(self, place: Strip, i: Expr) -> dict[ir.Var, Expr]:
        at = {**place.batch, self.product.rows.var: place.row + i}
        return {var: substitute(value, at) for var, value in self.product.values.items()}

    def copied_row(self, place: Strip, row: Expr, terms: Expr) -> tirx.Stmt:
        """What is to be done when all `terms` terms of a row are copied. The last group of floats is filled with zeros,
        because right factors of zero do not hide what memory holds, which may be NaN; and so is that of integers whose
        right factors are lifted. What the lift adds to the sums of the row is computed."""
        known, filled = static(terms), self.filled
        if place.lifted is None and (self.product.sums != "float32" or filled == 1):
            return sequence([])
        nothing = tirx.const(0, self.product.dot.left)
        missing = (filled - tirx.truncmod(terms, const(filled))) % filled
        end = row * self.stride + terms
        zeros = loop("z", missing, lambda z: tirx.BufferStore(place.factors, nothing, [end + z]))
        statements = [] if known is not None and known % filled == 0 else [zeros]
        if place.lifted is not None:
            statements.append(self.lifted_row(place, place.lifted, row, terms))
        return sequence(statements)

    def lifted_row(self, place: Strip, lifted: Buffer, row: Expr, terms: Expr) -> tirx.Stmt:
        """Compute what the lift of right factors adds to the sums of a row: its sum, times the lift."""
        lanes, count = self.lanes, self.filled
        sums = local("sums", lanes, "int32")
        every = [consecutive(const(0), lanes)]

        def add(index: Expr) -> tirx.Stmt:
            value = sum_of_octets(_load(place.factors, row * self.stride + index * count, count))
            return tirx.BufferStore(sums, tirx.BufferLoad(sums, every) + value, every)

        total: Expr = tirx.BufferLoad(sums, [const(0)])
        for lane in range(1, lanes):
            total = total + tirx.BufferLoad(sums, [const(lane)])
        return sequence(
            [
                tirx.AllocBuffer(sums),
                tirx.BufferStore(sums, repeated(tirx.const(0, "int32"), lanes), every),
                loop("c", tirx.truncdiv(terms + (count - 1), const(count)), add),
                tirx.BufferStore(lifted, total * self.product.dot.lift, [row]),
            ]
        )

    def copied_run(
        self, at: dict[ir.Var, Expr], start: Expr, count: Expr, place: Strip, row: Expr, term: Expr
    ) -> tirx.Stmt:
        """Copy `count` neighbouring left factors, from that of channel `start` on, to `row` from `term` on."""
        product = self.product
        offset = row * self.stride + term

        def element(c: Expr) -> tirx.Stmt:
            value = substitute(product.left, {**at, product.channel.var: index_of(product.channel, start + c)})
            return tirx.BufferStore(place.factors, self.views.value(value).astype(product.dot.left), [offset + c])

        lanes = self.device.lanes(bits_of(product.dot.left)) if product.contiguous else 1
        return sequence(pieces("c", sym.Analyzer().simplify(count), lanes, element))

    # Sums

    def block(self, place: Strip, panel: Expr, start: Expr, terms: Expr, state: State | None, slot: Expr) -> tirx.Stmt:
        """One register tile over `terms` terms from `start` on."""
        tile, dot = self.held(place.tile), self.product.dot
        sums = tile.scratch()
        code = Code()
        groups = code.let("groups", tirx.truncdiv(terms + (dot.group - 1), const(dot.group)))
        base = code.let("weights", self.panel_offset(place, panel) + tirx.truncdiv(start, const(dot.group)) * self.step)
        steps = self.steps(place, sums, base, groups)
        lifted = place.lifted
        if lifted is None:
            begin = zero(tile, sums)
        else:
            begin = fill(tile, sums, lambda r, _c: tirx.const(0, "int32") - tirx.BufferLoad(lifted, [r]))
        if state is None:
            code.add(tirx.AllocBuffer(sums), begin, steps, self.finished(sums, place, panel))
            return code.statement()
        kept, is_first, is_last = state
        at = slot * (tile.rows * tile.columns)

        def before(r: Expr, j: Expr) -> Expr:
            value = tirx.BufferLoad(kept, [at + j])
            return value if lifted is None else value - tirx.BufferLoad(lifted, [r])

        again = each_vector(tile, lambda r, _c, j: tirx.BufferStore(sums, before(r, j), [j]))
        keep = each_vector(tile, lambda _r, _c, j: tirx.BufferStore(kept, tirx.BufferLoad(sums, [j]), [at + j]))
        code.add(
            tirx.AllocBuffer(sums),
            tirx.IfThenElse(is_first, begin, again),
            steps,
            tirx.IfThenElse(is_last, self.finished(sums, place, panel), keep),
        )
        return code.statement()

    def held(self, tile: Tile) -> Tile:
        """The tile as its sums are in registers."""
        return matrices.paired(tile) if self.matrices else tile

    @property
    def step(self) -> int:
        """The number of right factors of one step."""
        return self.product.width * self.product.dot.group

    def panel_offset(self, place: Strip, panel: Expr) -> Expr:
        source = self.product.right.source
        lead = [substitute(substitute(i, self.product.values), place.batch) for i in self.product.right.indices[:-4]]
        return offset_of(source, [*lead, panel, const(0), const(0), const(0)])

    def steps(self, place: Strip, sums: Buffer, base: Expr, groups: Expr) -> tirx.Stmt:
        """Add `groups` groups of products to every sum. Several groups of left factors of a row are loaded as one
        vector, if the instruction takes any of them."""
        dot, count, rows = self.product.dot, self.together, place.tile.rows
        if self.matrices:
            left, right = matrices.Rows(place.factors, self.stride), partial(self.right, base)
            return matrices.steps(self.device, place.tile, sums, groups, left, right)

        def group(g: Expr, i: int) -> Expr:
            return _load(place.factors, g * dot.group + i * self.stride, dot.group)

        if dot.name == QUADS:
            return quads.steps(place.tile, dot, sums, groups, group, partial(self.right_half, base))

        def single(g: Expr, apply: Apply = dot.apply) -> tirx.Stmt:
            return self.step_of(place, sums, base, g, partial(group, g), apply)

        if dot.saturating is not None:
            probe = local("probe", 2 * self.lanes, "int16")
            at = [consecutive(const(0), 2 * self.lanes)]
            pairs = dot.saturating(tirx.BufferLoad(probe, at))
            fewer = loop("g", groups, partial(single, apply=pairs))
            saturates = tirx.BufferLoad(probe, [const(0)]) == tirx.const(32767, "int16")
            either = tirx.IfThenElse(saturates, fewer, loop("g", groups, single))
            return sequence([tirx.AllocBuffer(probe), tirx.BufferStore(probe, relaxed_probe(), at), either])
        if count == 1:
            return loop("g", groups, single)
        held = local("held", rows * count, "int32")

        def several(index: Expr) -> tirx.Stmt:
            start = index * count
            loads: list[tirx.Stmt] = []
            for i in range(rows):
                vector = _load(place.factors, start * dot.group + i * self.stride, count * dot.group)
                value = tirx.reinterpret(f"int32x{count}", vector)
                loads.append(tirx.BufferStore(held, value, [consecutive(const(i * count), count)]))
            added = [
                self.step_of(place, sums, base, start + s, partial(_held, held, count, s), dot.apply)
                for s in range(count)
            ]
            return sequence([tirx.AllocBuffer(held), *loads, *added])

        known = static(groups)
        whole = tirx.truncdiv(groups, const(count)) if known is None else const(known // count)
        main = loop("g", whole, several)
        if known is not None and known % count == 0:
            return main
        return sequence([main, loop("g", groups - whole * count, lambda g: single(whole * count + g))])

    def step_of(
        self, place: Strip, sums: Buffer, base: Expr, g: Expr, group: Callable[[int], Expr], apply: Apply
    ) -> tirx.Stmt:
        """Add one group of products to every sum; `group` gives that of the left factors of a row."""
        dot, lanes = self.product.dot, self.lanes
        statements: list[tirx.Stmt] = []
        for i in range(place.tile.rows):
            left = _copies(group(i), dot, lanes)
            for v in range(self.vectors):
                right = self.right(base, g, v)
                at = consecutive(const(i * place.tile.columns + v * lanes), lanes)
                value = apply(tirx.BufferLoad(sums, [at]), left, right, lanes)
                statements.append(tirx.BufferStore(sums, value, [at]))
        return sequence(statements)

    def right(self, base: Expr, g: Expr, v: int) -> Expr:
        """The right factors of a group in the columns of a vector."""
        dot, source = self.product.dot, self.product.right.source
        spread = self.lanes * dot.group
        factors = _load(self.views.flat(source), base + g * self.step + v * spread, spread)
        return factors + repeated(tirx.const(dot.lift, "int8"), spread) if dot.lift else factors

    def right_half(self, base: Expr, g: Expr, v: int, half: int) -> Expr:
        """The right factors of a group in half of the columns of a vector."""
        spread = self.lanes * self.product.dot.group // 2
        return _load(self.views.flat(self.product.right.source), base + g * self.step + (2 * v + half) * spread, spread)

    # Results

    def finished(self, sums: Buffer, place: Strip, panel: Expr) -> tirx.Stmt:
        """Store the sums of a tile."""
        if not self.matrices:
            return self.stored(place.tile, sums, place, panel)
        rows = place.tile.scratch()
        arranged = matrices.arrange(place.tile, sums, rows)
        return sequence([tirx.AllocBuffer(rows), arranged, self.stored(place.tile, rows, place, panel)])

    def stored(self, tile: Tile, sums: Buffer, place: Strip, panel: Expr) -> tirx.Stmt:
        """Store whole panels from registers, and the existing columns of other panels through a copy of the sums."""
        columns, width = as_index(self.product.columns.extent), self.product.width
        known = static(columns)
        spilled = local("spilled", tile.rows * tile.columns, tile.dtype)
        rest = columns - panel * width if known is None else const(known % width)
        lanes = 1 if self.product.finish.scalar else self.lanes

        def element(i: Expr, column: Expr) -> tirx.Stmt:
            return self.store(place, panel, i, column, tirx.BufferLoad(spilled, [i * tile.columns + column]))

        through = sequence(
            [
                tirx.AllocBuffer(spilled),
                copy(tile, sums, spilled),
                loop("i", tile.rows, lambda i: sequence(pieces("j", rest, lanes, partial(element, i)))),
            ]
        )
        if lanes == 1:
            rest = tirx.min(const(width), columns - panel * width)
            return sequence(
                [
                    tirx.AllocBuffer(spilled),
                    copy(tile, sums, spilled),
                    loop("i", tile.rows, lambda i: loop("j", rest, partial(element, i))),
                ]
            )
        if known is not None and known < width:
            return through
        wide, joined = tile, self.device.narrowed
        if bits_of(dtype_of(self.product.finish.store.buffer)) == 8 and tile.vectors % joined == 0:
            wide = replace(tile, vectors=tile.vectors // joined, lanes=tile.lanes * joined)
        whole = each_vector(wide, lambda i, c, at: self.store(place, panel, i, c, tirx.BufferLoad(sums, [at])))
        if known is not None and known % width == 0:
            return whole
        return tirx.IfThenElse(panel * width + width <= columns, whole, through)

    def store(self, place: Strip, panel: Expr, row: Expr, column: Expr, value: Expr) -> tirx.Stmt:
        product = self.product
        at = {product.rows.var: place.row + row, product.columns.var: panel * product.width + column}
        return substitute(product.finish(value, product.values), {**place.batch, **at})


def _load(buffer: Buffer, offset: Expr, count: int) -> Expr:
    return tirx.BufferLoad(buffer, [offset if count == 1 else consecutive(offset, count)])


def _held(held: Buffer, count: int, s: int, i: int) -> Expr:
    return tirx.BufferLoad(held, [const(i * count + s)])


def _copies(group: Expr, dot: Dot, lanes: int) -> Expr:
    """A group of left factors, repeated for every lane."""
    if dot.group == 1:
        return repeated(tirx.reinterpret(dot.left, group) if bits_of(dot.left) == 32 else group, lanes)
    spread = repeated(tirx.reinterpret("int32", group), lanes)
    return tirx.reinterpret(f"{dot.left}x{lanes * dot.group}", spread)


def _at_height(strip: Callable[[int, Expr], tirx.Stmt], height: int, start: Expr, index: Expr) -> tirx.Stmt:
    return strip(height, start + index * height)

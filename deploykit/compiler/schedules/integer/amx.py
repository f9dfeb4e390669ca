"""Products and convolutions in the tile registers of AMX: of 8-bit integers, or of bfloat16.

A register has up to 16 rows of 64 bytes. One instruction adds, to a register of 16 x 16 sums, the product of a register
of left factors, 16 rows of 16 groups of neighbouring terms, and one of right factors, 16 groups of 16 columns. Right
factors are read from panels as they are packed for the dot products of the same groups (`dot`), so that CPUs with and
without AMX share weights. A last part of fewer than 16 groups is copied and filled with zeros.

Sums are in memory while no instruction adds to them: row after row, as the epilogue takes them. A tile of rows is cut
into layers of one height, for which registers are configured, and released after the tile. The last layer may compute
some rows that do not exist, from whatever memory holds.

Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, 18; volume 2, LDTILECFG, TDPBF16PS,
TDPBUSD.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tvm import ir, tirx

from deploykit.compiler.decisions import Declined
from deploykit.compiler.devices.amx import KINDS, ROWS, TALL
from deploykit.compiler.devices.cpu import Device
from deploykit.compiler.operators.anchors.integer import DOT
from deploykit.compiler.schedules.integer.matmul import Emitter, State, Strip
from deploykit.compiler.schedules.integer.product import product_of
from deploykit.compiler.schedules.kernel.access import Views
from deploykit.compiler.schedules.kernel.kinds import another_kind
from deploykit.compiler.schedules.kernel.loops import Code, local, loop
from deploykit.compiler.schedules.kernel.pointers import address, pointer, run
from deploykit.compiler.schedules.kernel.stages import Stage
from deploykit.compiler.schedules.matmul.tile import Tile, each_vector
from deploykit.compiler.tir.rewriting import Buffer, Expr, sequence
from deploykit.compiler.tir.values import bits_of, consecutive, const, dtype_of, repeated, static


def integer_amx(stage: Stage, views: Views, device: Device) -> list[tirx.Stmt] | Declined:
    """Statements that compute `stage`, or the reason why it is no product for tile registers."""
    other = another_kind(stage, "integer_matmul", "integer_conv", "bf16_matmul", "bf16_conv")
    if other is not None:
        return other
    if not device.amx:
        return Declined("the device has no tile registers")
    if stage.annotations[DOT] not in KINDS:
        return Declined(f"its right operand is packed for {stage.annotations[DOT]}")
    product = product_of(stage, views)
    return product if isinstance(product, Declined) else [TileEmitter(product, views, device).tasks()]


HEIGHT = 32
"""The most rows of a tile: their factors fit the first-level cache beside those of a panel."""

ALL_ROWS = 64
"""The most rows that are one tile if there are no others, so that right factors are read once."""


class TileEmitter(Emitter):
    """Emits the loops of one product."""

    def tallest_tile(self) -> int:
        rows = static(self.product.rows.extent)
        return ALL_ROWS if rows is not None and rows <= ALL_ROWS else HEIGHT

    def heights(self) -> tuple[int, ...]:
        return super().heights()[:1]

    def strips(self, start: Expr, count: Expr, strip: Callable[..., tirx.Stmt]) -> tirx.Stmt:
        return strip(self.heights()[0], start, count)

    def tile(self, height: int) -> Tile:
        """With the rows that layers of one height have in all."""
        return super().tile(-(-height // ROWS) * ROWS)

    @property
    def terms(self) -> int:
        return ROWS * self.product.dot.group

    def strip(
        self, batch: dict[ir.Var, Expr], first: Expr, count: Expr, height: int, row: Expr, rows: Expr | None = None
    ) -> tirx.Stmt:
        assert rows is not None
        configured = run("amx_configure", _rows_of_layer(rows))
        return sequence([configured, super().strip(batch, first, count, height, row, rows), run("amx_release")])

    def block(self, place: Strip, panel: Expr, start: Expr, terms: Expr, state: State | None, slot: Expr) -> tirx.Stmt:
        tile, dot, right = place.tile, self.product.dot, self.views.flat(self.product.right.source)
        code = Code()
        groups = code.let("groups", tirx.truncdiv(terms + (dot.group - 1), const(dot.group)))
        base = code.let("weights", self.panel_offset(place, panel) + tirx.truncdiv(start, const(dot.group)) * self.step)
        sums, first, last = (tile.scratch(), tirx.const(True), tirx.const(True)) if state is None else state
        at = const(0) if state is None else slot * (tile.rows * tile.columns)
        if state is None:
            code.add(tirx.AllocBuffer(sums))
        whole = code.let("whole", tirx.truncdiv(groups, const(ROWS)))
        more = code.let("more", groups - whole * ROWS)
        rest = local("rest", ROWS * self.step, dtype_of(right))
        code.add(tirx.AllocBuffer(rest), self._copied_rest(rest, base + whole * (ROWS * self.step), more))

        ahead = (
            tirx.truncdiv(self.depth + (dot.group - 1), const(dot.group)) * self.step * bits_of(dtype_of(right)) // 8
        )
        rows = code.let("layer", _rows_of_layer(place.rows))

        def multiplied(layers: int, layer: Expr) -> tirx.Stmt:
            below, declared = pointer("below", sums, at + layer * rows * tile.columns)
            left, others = pointer("left", place.factors, layer * rows * self.stride)
            product = run(
                f"amx_{KINDS[dot.name]}_{layers}x{self.vectors}_ahead",
                below,
                left,
                address(right, base),
                address(rest, const(0)),
                rows,
                const(self.stride * bits_of(dot.left) // 8),
                whole,
                whole + tirx.min(more, const(1)),
                ahead,
                first.astype("int64"),
            )
            return sequence([*declared, *others, product])

        code.add(by_layers(code.let("layers", _layers(place.rows)), tile.rows // ROWS, TALL[self.vectors], multiplied))
        code.add(tirx.IfThenElse(last, self._stored_rows(place, sums, at, panel), None))
        return code.statement()

    def _copied_rest(self, rest: Buffer, start: Expr, groups: Expr) -> tirx.Stmt:
        """Copy the last groups of right factors of a panel, if they are fewer than a register holds, and zeros."""
        known, lanes = static(groups), self.lanes * self.product.dot.group
        if known == 0:
            return sequence([])

        def copied(row: Expr) -> tirx.Stmt:
            return sequence([self._rest(rest, row, v, self.right(start, row, v)) for v in range(self.vectors)])

        def cleared(row: Expr) -> tirx.Stmt:
            nothing = repeated(tirx.const(0, dtype_of(rest)), lanes)
            return sequence([self._rest(rest, groups + row, v, nothing) for v in range(self.vectors)])

        both = sequence([loop("r", groups, copied), loop("r", ROWS - groups, cleared)])
        return both if known is not None else tirx.IfThenElse(groups > 0, both, None)

    def _rest(self, rest: Buffer, row: Expr, v: int, value: Expr) -> tirx.Stmt:
        lanes = self.lanes * self.product.dot.group
        return tirx.BufferStore(rest, value, [consecutive(row * self.step + v * lanes, lanes)])

    def _stored_rows(self, place: Strip, sums: Buffer, at: Expr, panel: Expr) -> tirx.Stmt:
        """Store the finished sums, one row after the other."""
        single = replace(place.tile, rows=1)
        held = single.scratch()

        def row(i: Expr) -> tirx.Stmt:
            start = at + i * single.columns
            loaded = each_vector(
                single, lambda _r, _c, j: tirx.BufferStore(held, tirx.BufferLoad(sums, [start + j]), [j])
            )
            here = replace(place, tile=single, row=place.row + i)
            return sequence([tirx.AllocBuffer(held), loaded, self.stored(single, held, here, panel)])

        return loop("i", place.rows, row)


def by_layers(layers: Expr, most: int, tall: int, step: Callable[[int, Expr], tirx.Stmt]) -> tirx.Stmt:
    """`step(count, first)` for all of at most `most` layers, `tall` together."""
    whole = tirx.truncdiv(layers, const(tall))
    last: tirx.Stmt = sequence([])
    for count in range(1, min(tall, most + 1)):
        last = tirx.IfThenElse(layers - whole * tall == count, step(count, whole * tall), last)
    return last if most < tall else sequence([loop("b", whole, lambda b: step(tall, b * tall)), last])


def _layers(rows: Expr) -> Expr:
    """The number of registers below each other that hold the sums of `rows` rows."""
    return tirx.truncdiv(rows + (ROWS - 1), const(ROWS))


def _rows_of_layer(rows: Expr) -> Expr:
    """The rows of each of these registers. The last one may have some that do not exist."""
    return tirx.truncdiv(rows + _layers(rows) - 1, _layers(rows))

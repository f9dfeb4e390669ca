"""Transposed reads: square tiles that are transposed in registers.

The rule takes a pointwise stage whose result is contiguous along its innermost loop, `j`. Some operand must be
contiguous along another loop, `i`, and every operand along one of the two. Both loops are cut into square tiles of
`TILE` x `TILE` elements. A tile of such an operand is read in vectors along `i` and transposed by shuffles: for `h`
from half of `TILE` down to 1, in every pair of vectors `h` apart, the off-diagonal blocks of `h` elements are
exchanged. Elements outside of the tiles are computed one at a time.

It declines scalar devices, booleans, operands under conditions, and loops that are known to be shorter than a tile.
(Source: J. O. Eklundh, A fast computer method for matrix transposing, IEEE Transactions on Computers C-21, 1972.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import tvm_ffi
from tvm import ir, tirx

from deploykit.compiler.decisions import Declined
from deploykit.compiler.devices.cpu import Device
from deploykit.compiler.schedules.kernel.access import (
    Access,
    Fused,
    Views,
    analyse,
    fuse,
    pinned,
    static_stride,
    values_of,
)
from deploykit.compiler.schedules.kernel.loops import index_of, local, loop, nested, vectorized, without_units
from deploykit.compiler.schedules.kernel.stages import Axis, Stage
from deploykit.compiler.schedules.pointwise.elementwise import guarded
from deploykit.compiler.tir.rewriting import Buffer, Expr, Node, replace_loads, sequence, substitute
from deploykit.compiler.tir.values import as_index, bits_of, consecutive, const, dtype_of, static

TILE = 8
"""The rows and columns of a tile; as many as a vector has elements if that is fewer."""


def transpose(stage: Stage, views: Views, device: Device) -> list[tirx.Stmt] | Declined:
    """Statements that compute `stage`, or the reason why it has no transposed reads."""
    if stage.store is None or stage.reduce:
        return Declined("it is not elementwise")
    if guarded(stage.store.value):
        return Declined("it reads operands under conditions")
    axes, units = without_units(stage.axes)
    store = substitute(stage.store, units)
    found = analyse([store], axes)
    fused = fuse(axes, found, pinned([store.value], axes))
    across = _across(fused, found)
    if isinstance(across, Declined):
        return across
    widest = max(bits_of(dtype_of(access.buffer)) for access in found)
    size = min(TILE, device.lanes(widest))
    loops = [fused[across].axis, fused[-1].axis]
    if size == 1 or any(axis.static is not None and axis.static < size for axis in loops):
        return Declined("a loop is shorter than a tile")
    outer = [one.axis for position, one in enumerate(fused[:-1]) if position != across]
    turned: list[_Operand] = []
    element = ir.Var("element", "int64")

    def turn(load: ir.TensorLoad) -> Expr:
        if analyse([load], axes)[0].contiguous(fused[-1].inner):
            return load
        for operand in turned:
            if tvm_ffi.structural_equal(operand.load, load):
                return tirx.BufferLoad(operand.tile, [element])
        turned.append(_Operand(load, local("tile", size * size, dtype_of(load))))
        return tirx.BufferLoad(turned[-1].tile, [element])

    from_tiles = tirx.BufferStore(store.buffer, replace_loads(store.value, turn), store.indices)
    if any(dtype_of(operand.tile) == "bool" for operand in turned):
        return Declined("vectors of booleans cannot be shuffled")
    values = values_of(fused, axes)
    operands = [_Operand(substitute(views.value(operand.load), values), operand.tile) for operand in turned]
    plain, tiled = (substitute(views.store(one), values) for one in (store, from_tiles))
    return [_Turned(plain, tiled, element, operands, outer, loops[0], loops[1], size).emit(device.parallel)]


def _across(fused: Sequence[Fused], found: Sequence[Access]) -> int | Declined:
    """The position of the loop along which the operands are contiguous that are not contiguous along the innermost
    one."""
    if len(fused) < 2 or static_stride(found[0].strides[fused[-1].inner]) != 1:
        return Declined("its result is not contiguous along one of several loops")
    inner = fused[-1].inner
    others = [access for access in found if not access.contiguous(inner)]
    if not others:
        return Declined("no operand is read transposed")
    for position, one in enumerate(fused[:-1]):
        if all(
            static_stride(access.strides[one.inner]) == 1 and access.strides[inner] is not None for access in others
        ):
            return position
    return Declined("its operands are read with strides along all loops")


@dataclass(frozen=True)
class _Operand:
    """A load that is contiguous along the rows, and the tile that receives its elements, transposed, row-major."""

    load: Expr
    tile: Buffer


@dataclass(frozen=True)
class _Turned:
    """`store` over the loops `outer`, `rows` and `columns`. `tiled` is the same store with the operands read from their
    tiles, at `element`."""

    store: tirx.BufferStore
    tiled: tirx.BufferStore
    element: ir.Var
    operands: Sequence[_Operand]
    outer: Sequence[Axis]
    rows: Axis
    columns: Axis
    size: int

    def emit(self, parallel: bool) -> tirx.Stmt:
        size, rows = self.size, as_index(self.rows.extent)
        strip = Axis(ir.Var("strip", "int64"), tirx.floordiv(rows + (size - 1), const(size)))
        first = strip.var * size
        body = self.strip(first)
        if static(rows) is None or int(rows) % size:
            body = tirx.IfThenElse(first + size <= rows, body, self.singles(first, rows - first, const(0)))
        return nested([*self.outer, strip], body, parallel)

    def strip(self, row: Expr) -> tirx.Stmt:
        """`size` rows from `row` on, in tiles and single elements."""
        size, columns = self.size, as_index(self.columns.extent)
        whole = tirx.floordiv(columns, const(size))
        steps = [loop("tile", whole, lambda t: self.tile(row, t * size))]
        if static(columns) is None or int(columns) % size:
            steps.append(self.singles(row, const(size), whole * size))
        return sequence(steps)

    def singles(self, row: Expr, rows: Expr, column: Expr) -> tirx.Stmt:
        """`rows` rows from `row` on, for the columns from `column` on, one element at a time."""
        count = as_index(self.columns.extent) - column
        return loop("i", rows, lambda i: loop("j", count, lambda j: self.placed(self.store, row + i, column + j)))

    def tile(self, row: Expr, column: Expr) -> tirx.Stmt:
        size = self.size
        steps: list[tirx.Stmt] = []
        for operand in self.operands:
            steps.append(tirx.AllocBuffer(operand.tile))
            steps += [self.filled(operand, j, row, column) for j in range(size)]
            half = size // 2
            while half:
                steps += [_exchange(operand.tile, i, half, size) for i in range(size) if not i & half]
                half //= 2
        return sequence([*steps, *(self.stored(i, row, column) for i in range(size))])

    def filled(self, operand: _Operand, j: int, row: Expr, column: Expr) -> tirx.Stmt:
        def element(lane: Expr) -> tirx.Stmt:
            value = self.placed(operand.load, row + lane, column + j)
            return tirx.BufferStore(operand.tile, value, [lane + j * self.size])

        return vectorized(self.size, element)

    def stored(self, i: int, row: Expr, column: Expr) -> tirx.Stmt:
        def element(lane: Expr) -> tirx.Stmt:
            return substitute(self.placed(self.tiled, row + i, column + lane), {self.element: lane + i * self.size})

        return vectorized(self.size, element)

    def placed(self, node: Node, row: Expr, column: Expr) -> Node:
        at = {self.rows: row, self.columns: column}
        return substitute(node, {axis.var: index_of(axis, value) for axis, value in at.items()})


def _exchange(tile: Buffer, i: int, half: int, size: int) -> tirx.Stmt:
    """Exchange the off-diagonal blocks of `half` elements of rows `i` and `i + half`."""
    rows = [consecutive(const(row * size), size) for row in (i, i + half)]
    kept = [ir.Var(f"row{row}", f"{dtype_of(tile)}x{size}") for row in (i, i + half)]
    low = [lane if not lane & half else size + lane - half for lane in range(size)]
    steps: list[tirx.Stmt] = [tirx.Bind(var, tirx.BufferLoad(tile, [row])) for var, row in zip(kept, rows, strict=True)]
    for row, first in zip(rows, (0, half), strict=True):
        lanes: list[ir.Expr] = [tirx.IntImm("int32", lane + first) for lane in low]
        steps.append(tirx.BufferStore(tile, tirx.Shuffle([*kept], lanes), [row]))
    return sequence(steps)

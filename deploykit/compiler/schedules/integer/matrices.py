"""Products of 2 x 8 and 8 x 2 matrices of 8-bit integers, in one instruction that adds them to 2 x 2 int32 sums.

A register of left factors has eight terms of a row and those of the next row; one of right factors has eight terms of a
column and those of the next column. Panels are packed for dot products of four terms (`dot`), so that CPUs with and
without the instruction share weights: two registers of neighbouring groups, each with four terms of four columns, are
interleaved to two registers of eight terms of two columns. If the number of groups is odd, the last terms are zeros.

While sums are in registers, each pair of rows has a register for every two columns: both sums of the first row, then
those of the second one. `arrange` puts them into rows. In a tile with an odd number of rows the last row is computed
twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tvm import tirx

from deploykit.compiler.devices.cpu import Device
from deploykit.compiler.schedules.integer.dot import Dot
from deploykit.compiler.schedules.kernel.loops import local, loop
from deploykit.compiler.schedules.matmul.tile import Tile
from deploykit.compiler.tir.rewriting import Buffer, Expr, sequence
from deploykit.compiler.tir.values import consecutive, const, repeated, static

TERMS = 8
"""The terms that one instruction adds to a sum."""

_SUMS = 4
"""The sums of a register."""


def _smmla(sums: Expr, left: Expr, right: Expr) -> Expr:
    return tirx.call_llvm_pure_intrin("int32x4", "llvm.aarch64.neon.smmla", sums, left, right)


MATRICES: Mapping[str, Callable[[Expr, Expr, Expr], Expr]] = {"smmla": _smmla}
"""The instructions, for int8 factors."""


def multiplies(device: Device, dot: Dot) -> bool:
    """Whether the device has an instruction for products whose panels are packed for `dot`."""
    return device.matrices is not None and dot.left == "int8" and 2 * dot.group == TERMS


def tallest(device: Device, vectors: int) -> int:
    """The rows of a tile whose sums, with all right factors and the left ones of two rows, fit into the registers."""
    return max(2, (device.vector_registers - 2 * vectors - 5) // vectors // 2 * 2)


def paired(tile: Tile) -> Tile:
    """The tile with an even number of rows, which has the sums while they are in registers."""
    return replace(tile, rows=-(-tile.rows // 2) * 2)


@dataclass(frozen=True)
class Rows:
    """Left factors. Rows begin at multiples of `stride`, itself a multiple of `TERMS`; what follows their last factors
    may have any value."""

    factors: Buffer
    stride: int

    def terms(self, row: int, g: Expr) -> Expr:
        """The eight factors of a row from the group `g` on."""
        return tirx.BufferLoad(self.factors, [consecutive(g * (TERMS // 2) + row * self.stride, TERMS)])


def steps(
    device: Device,
    tile: Tile,
    sums: Buffer,
    groups: Expr,
    left: Rows,
    right: Callable[[Expr, int], Expr],
) -> tirx.Stmt:
    """Add `groups` groups of four products to every sum. `right(g, v)` gives the right factors of the group `g` in the
    columns of vector `v`."""
    assert device.matrices is not None
    multiply = MATRICES[device.matrices]
    nothing = repeated(tirx.const(0, "int32"), 4)

    def step(g: Expr, second: Callable[[int], Expr]) -> tirx.Stmt:
        factors = local("factors", 2 * tile.vectors * 2 * TERMS, "int8")
        rows = local("rows", 2 * TERMS, "int8")
        statements: list[tirx.Stmt] = [tirx.AllocBuffer(factors), tirx.AllocBuffer(rows)]
        for v in range(tile.vectors):
            both = [tirx.reinterpret("int32x4", right(g, v)), second(v)]
            for half, order in enumerate(([0, 4, 1, 5], [2, 6, 3, 7])):
                terms = tirx.reinterpret("int8x16", tirx.Shuffle(both, order))
                statements.append(tirx.BufferStore(factors, terms, [_register(2 * v + half, 2 * TERMS)]))
        for row in range(0, tile.rows, 2):
            pair = [left.terms(row, g), left.terms(min(row + 1, tile.rows - 1), g)]
            statements.append(tirx.BufferStore(rows, tirx.Shuffle(pair, list(range(2 * TERMS))), [_register(0, 16)]))
            for columns in range(2 * tile.vectors):
                at = _register(row * tile.vectors + columns, _SUMS)
                operands = (
                    tirx.BufferLoad(rows, [_register(0, 2 * TERMS)]),
                    tirx.BufferLoad(factors, [_register(columns, 2 * TERMS)]),
                )
                statements.append(tirx.BufferStore(sums, multiply(tirx.BufferLoad(sums, [at]), *operands), [at]))
        return sequence(statements)

    def two(index: Expr) -> tirx.Stmt:
        g = index * 2
        return step(g, lambda v: tirx.reinterpret("int32x4", right(g + 1, v)))

    known = static(groups)
    pairs = tirx.truncdiv(groups, const(2)) if known is None else const(known // 2)
    main = loop("g", pairs, two)
    if known is not None and known % 2 == 0:
        return main
    return sequence([main, loop("g", groups - pairs * 2, lambda _: step(pairs * 2, lambda _v: nothing))])


def arrange(tile: Tile, sums: Buffer, target: Buffer) -> tirx.Stmt:
    """Put the sums into `target`, row after row."""
    statements: list[tirx.Stmt] = []
    for row in range(tile.rows):
        order = [2, 3, 6, 7] if row % 2 else [0, 1, 4, 5]
        for v in range(tile.vectors):
            first = row // 2 * 2 * tile.vectors + 2 * v
            both = [tirx.BufferLoad(sums, [_register(first + half, _SUMS)]) for half in (0, 1)]
            statements.append(
                tirx.BufferStore(target, tirx.Shuffle(both, order), [_register(row * tile.vectors + v, _SUMS)])
            )
    return sequence(statements)


def _register(index: int, lanes: int) -> Expr:
    return consecutive(const(index * lanes), lanes)

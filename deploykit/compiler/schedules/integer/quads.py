"""Dot products of two 16-bit terms on panels that are packed for dot products of four 8-bit terms.

For WebAssembly, whose CPUs have one of both and share weights. A vector of right factors has four terms of four
columns. Its halves are widened, and multiplied with four terms of a row, twice in a vector:

    halves[0] += (a[0] b[0][0] + a[1] b[0][1], a[2] b[0][2] + a[3] b[0][3], the same of column 1)
    halves[1] += the same of columns 2 and 3

Neighbouring lanes are added up behind the last term.
"""

from __future__ import annotations

from collections.abc import Callable

from tvm import tirx

from deploykit.compiler.schedules.integer.dot import Dot
from deploykit.compiler.schedules.kernel.loops import local, loop
from deploykit.compiler.schedules.matmul.tile import Tile
from deploykit.compiler.tir.rewriting import Buffer, Expr, sequence
from deploykit.compiler.tir.values import consecutive, const, repeated

ROWS = 4
"""The rows whose sums stay in registers, two vectors for each."""

_LANES = 4


def steps(
    tile: Tile,
    dot: Dot,
    sums: Buffer,
    groups: Expr,
    left: Callable[[Expr, int], Expr],
    right: Callable[[Expr, int, int], Expr],
) -> tirx.Stmt:
    """Add `groups` groups of four products to every sum. `left(g, i)` gives four terms of row `i` as int16x4, `right(g,
    v, half)` those of two columns as int8x8."""
    blocks = [(v, first) for v in range(tile.vectors) for first in range(0, tile.rows, ROWS)]
    return sequence([_block(tile, dot, sums, groups, left, right, v, first) for v, first in blocks])


def _block(
    tile: Tile,
    dot: Dot,
    sums: Buffer,
    groups: Expr,
    left: Callable[[Expr, int], Expr],
    right: Callable[[Expr, int, int], Expr],
    v: int,
    first: int,
) -> tirx.Stmt:
    """Up to `ROWS` rows by one vector of columns."""
    rows = range(first, min(first + ROWS, tile.rows))
    halves = local("halves", 2 * len(rows) * _LANES, "int32")

    def at(row: int, half: int) -> list[Expr]:
        return [consecutive(const((2 * (row - first) + half) * _LANES), _LANES)]

    def step(g: Expr) -> tirx.Stmt:
        statements: list[tirx.Stmt] = []
        for row in rows:
            twice = tirx.reinterpret("int16x8", repeated(tirx.reinterpret("int64", left(g, row)), 2))
            for half in range(2):
                value = dot.apply(tirx.BufferLoad(halves, at(row, half)), twice, right(g, v, half), _LANES)
                statements.append(tirx.BufferStore(halves, value, at(row, half)))
        return sequence(statements)

    nothing = repeated(tirx.const(0, "int32"), _LANES)
    zeros = [tirx.BufferStore(halves, nothing, at(row, half)) for row in rows for half in range(2)]
    added: list[tirx.Stmt] = []
    for row in rows:
        place = [consecutive(const(row * tile.columns + v * _LANES), _LANES)]
        both = [tirx.BufferLoad(halves, at(row, half)) for half in range(2)]
        total = tirx.BufferLoad(sums, place) + tirx.Shuffle(both, [0, 2, 4, 6]) + tirx.Shuffle(both, [1, 3, 5, 7])
        added.append(tirx.BufferStore(sums, total, place))
    return sequence([tirx.AllocBuffer(halves), *zeros, loop("g", groups, step), *added])

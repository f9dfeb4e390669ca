"""How rows are cut into register tiles of a few heights.

Code for each height takes compile time and room in the instruction cache, so there is a *menu* of few heights: the
tallest tile, some shorter ones, and one for a single row. The last tile may reach beyond the last row and computes it
several times. The tallest tile of several vectors may not, because there are no registers for an address of each of its
rows.

Without vectors, every height is available, and no tile reaches beyond the last row.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from tvm import tirx

from deploykit.compiler.schedules.kernel.loops import Code
from deploykit.compiler.schedules.matmul.tile import CHAINS, Tile
from deploykit.compiler.tir.rewriting import Expr
from deploykit.compiler.tir.values import bits_of, const, static

STREAMED_BYTES = 22
"""Bytes of panels that the second-level cache delivers in a cycle."""

TILE_COST = 0.5
"""The cost of the beginning and the end of a tile, in cycles per step of the depth."""

SHARES = (Fraction(1), Fraction(11, 12), Fraction(2, 3), Fraction(1, 2), Fraction(1, 3))
"""The heights of tiles, relative to the tallest."""

_DIGIT_BITS = 2
"""The bits of an entry in the tables that give the number of tiles of one height."""


@dataclass(frozen=True)
class Heights:
    """The available heights of tiles, the largest first, and which of them may reach beyond the last row. A step of the
    depth takes one cycle per row, and at least `fewest` cycles."""

    menu: tuple[int, ...]
    beyond: frozenset[int]
    fewest: float

    @cached_property
    def _cuts(self) -> list[Counter[int]]:
        """The best cuts for every number of rows below twice the tallest height."""
        costs, cuts = [0.0], [Counter[int]()]
        for rows in range(1, 2 * self.menu[0]):
            taken = [height for height in self.menu if height in self.beyond or 1 < height <= rows]
            options = [1] if rows == 1 or not taken else taken
            total = {h: costs[max(0, rows - h)] + max(h, self.fewest) + TILE_COST for h in options}
            best = min(options, key=lambda height: total[height])
            costs.append(total[best])
            cuts.append(cuts[max(0, rows - best)] + Counter([best]))
        return cuts

    def cut(self, rows: int) -> Counter[int]:
        """The number of tiles of each height that `rows` rows are cut into."""
        tallest = self.menu[0]
        whole = max(0, rows // tallest - 1)
        return self._cuts[rows - whole * tallest] + Counter({tallest: whole})

    def counts(self, code: Code, rows: Expr, sizes: set[int] | None) -> list[tuple[int, Expr]]:
        """The heights, and how many tiles of each `rows` rows are cut into. `sizes` are the possible values of `rows`,
        if they are known."""
        if sizes is not None and len(sizes) == 1:
            return [(height, const(count)) for height, count in sorted(self.cut(*sizes).items(), reverse=True) if count]
        used = set().union(*(self.cut(size) for size in sizes)) if sizes is not None else self.menu
        tallest = self.menu[0]
        whole = code.let("whole", tirx.truncdiv(rows, const(tallest)))
        digit = code.let("digit", (rows - whole * tallest) * _DIGIT_BITS)
        found: list[tuple[int, Expr]] = []
        for height in sorted(used, reverse=True):
            more = 1 if height == tallest else 0
            few = _table([self._cuts[rest][height] + more for rest in range(tallest)])
            many = _table([self._cuts[tallest + rest][height] for rest in range(tallest)])
            entry = (tirx.Select(whole > 0, const(many), const(few)) >> digit) & const((1 << _DIGIT_BITS) - 1)
            found.append((height, code.let("tiles", whole - 1 + entry if more else entry)))
        return found


def heights_for(tile: Tile) -> Heights:
    """The heights of tiles like `tile`, which is the tallest one."""
    tallest = tile.rows
    if tile.lanes == 1:
        return Heights(tuple(range(tallest, 0, -1)), frozenset(), 1)
    least = min(tallest, -(-CHAINS // tile.vectors))
    some = {height for height in (int(tallest * share) for share in SHARES) if height >= least} | {least}
    streamed = tile.columns * bits_of(tile.dtype) / 8 / STREAMED_BYTES
    menu = (*sorted(some - {1}, reverse=True), 1)
    return Heights(menu, frozenset(menu) - {tallest, 1} | {least} - {1}, max(least, streamed))


def sizes_of(rows: Expr, blocks: Expr) -> set[int] | None:
    """The numbers of rows of `blocks` even blocks, if they are known."""
    count, parts = static(rows), static(blocks)
    return {count // parts, -(-count // parts)} if count is not None and parts else None


def _table(digits: list[int]) -> int:
    assert max(digits) < 1 << _DIGIT_BITS
    return sum(digit << _DIGIT_BITS * place for place, digit in enumerate(digits))

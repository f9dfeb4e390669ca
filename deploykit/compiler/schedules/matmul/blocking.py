"""How a matrix product is cut for the caches and for threads.

The depth is cut into *chunks* that a tile's rows stay in the first-level cache for. The result is cut into *units of
work*, rows by panels: the panels of a unit over one chunk take half of the second-level cache at most, and are read
once for all rows of the unit. Where that gives fewer than `UNITS` units, there are more blocks of rows, then more
stretches of panels, so that small products can be shared out as well.

A right operand that comes as it is, is packed within the unit, `panels` panels at a time, which stay in the
second-level cache while the tiles of all rows pass by; chunks are short enough for some panels.

Rows that lie a large power of two apart compete for few places of the cache; then, and where the distance is not
known, a tile's rows are *copied* for each chunk.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from tvm import tirx

from deploykit.compiler.devices.cpu import Device
from deploykit.compiler.schedules.kernel.loops import Code
from deploykit.compiler.schedules.matmul.tile import Tile
from deploykit.compiler.tir.rewriting import Expr
from deploykit.compiler.tir.values import as_index, bits_of, const, static

COPIED_SHARE, DIRECT_SHARE = 5 / 8, 5 / 4
"""What a tile's rows over one chunk take of the first-level cache: a copy has to stay in it with what passes by."""

UNITS = 12
"""Units of work that are enough to share out."""

FEWEST_ROWS, MOST_ROWS = 48, 384
"""Rows of a unit of work, where the result has as many."""

WIDEST = 256
"""Columns of a unit of work at most."""

FEWEST_COPIED = 4
"""Panels that make up for the copy of a tile's rows."""

FEWEST_PACKED_FOR = 256
"""Rows of a unit of work that packs panels, where the result has as many."""

PACKED_SHARE = 1 / 10
"""What the packed panels take of the second-level cache, at most."""

LINE, WAYS = 64, 8
"""Bytes of a line of the first-level cache, and lines that compete for the same places before one is lost."""


@dataclass(frozen=True)
class Blocking:
    """The depth of `total` steps is cut into `chunks` of `depth` steps, the columns into stretches of `panels` panels
    at most. With `pitch`, the rows of a tile are copied for each chunk, so many elements apart; `packs` says
    that the panels are packed on the way."""

    total: Expr
    depth: Expr
    chunks: Expr
    panels: int
    pitch: int
    packs: bool = False

    def length(self, chunk: Expr) -> Expr:
        """Steps of a chunk."""
        if static(self.chunks) == 1:
            return self.total
        total, depth = static(self.total), static(self.depth)
        if total is not None and depth is not None and total % depth == 0:
            return self.depth
        return tirx.min(self.depth, self.total - chunk * self.depth)

    def units(self, rows: Expr, panels: Expr, batched: bool) -> tuple[Expr, Expr]:
        """Blocks of rows and stretches of panels. A product of many is one unit, where the caches allow it."""
        wanted = const(1 if batched else UNITS)
        stretches = ceil_div(panels, const(self.panels))
        least = const(1) if self.packs else ceil_div(rows, const(MOST_ROWS))
        most = ceil_div(rows, const(FEWEST_PACKED_FOR if self.packs else FEWEST_ROWS))
        blocks = tirx.min(tirx.max(ceil_div(wanted, tirx.max(stretches, const(1))), least), most)
        most = ceil_div(panels, const(FEWEST_COPIED if self.pitch else 1))
        return blocks, tirx.max(stretches, tirx.min(most, ceil_div(wanted, tirx.max(blocks, const(1)))))


def blocking_for(device: Device, tile: Tile, total: Expr, columns: Expr, *, resumable: bool) -> Blocking:
    """The blocking of a product of so many columns and `total` steps with packed panels. `resumable`: sums may wait in
    the result between chunks."""
    total, width, size = as_index(total), static(columns), bits_of(tile.dtype) // 8
    widest = max(1, WIDEST // tile.columns)
    if tile.lanes == 1:
        return Blocking(total, total, const(1), widest, 0)
    copied = (width is None or width > 2 * tile.columns) and crowded(device, tile.rows, static(total), size)
    longest = _longest(device, tile, tile.rows, COPIED_SHARE if copied else DIRECT_SHARE)
    copied = copied and (resumable or (static(total) or longest + 1) <= longest)
    depth, chunks = _chunks(tile, total, longest) if resumable else (total, const(1))
    steps = static(depth) or longest
    panels = max(1, min(widest, device.l2_bytes // 2 // (tile.columns * size * steps)))
    return Blocking(total, depth, chunks, panels, _pitch(tile, steps) if copied else 0)


def packing(device: Device, tile: Tile, total: Expr, *, resumable: bool) -> Blocking | None:
    """The blocking of a product whose right operand comes as it is; `None` where a chunk is too long for the cache."""
    total, size = as_index(total), bits_of(tile.dtype) // 8
    room = int(device.l2_bytes * PACKED_SHARE) // (tile.columns * size)
    whole = (static(total) or room + 1) <= room
    if not resumable and not whole:
        return None
    copied = crowded(device, tile.rows, static(total), size)
    longest = _longest(device, tile, tile.rows, COPIED_SHARE if copied else DIRECT_SHARE)
    longest = room if not resumable else max(tile.lanes, min(longest, room // FEWEST_COPIED // tile.lanes * tile.lanes))
    depth, chunks = _chunks(tile, total, longest)
    steps = static(depth) or longest
    return Blocking(total, depth, chunks, max(1, room // steps), _pitch(tile, steps) if copied else 0, packs=True)


def _chunks(tile: Tile, total: Expr, longest: int) -> tuple[Expr, Expr]:
    """The steps of a chunk, `longest` at most, and how many chunks there are: one at least."""
    steps = static(total)
    if steps is None:
        return const(longest), tirx.max(const(1), ceil_div(total, const(longest)))
    if steps <= longest:
        return const(max(steps, 1)), const(1)
    even = -(-steps // -(-steps // longest))
    depth = const(min(longest, -(-even // tile.lanes) * tile.lanes))
    return depth, ceil_div(total, depth)


def _pitch(tile: Tile, steps: int) -> int:
    return (-(-steps // tile.lanes) + 1) * tile.lanes


def _longest(device: Device, tile: Tile, wide: int, share: float) -> int:
    """Steps over which `wide` elements a step take a share of the first-level cache: a multiple of the lanes."""
    steps = int(device.l1_bytes * share) // (wide * bits_of(tile.dtype) // 8)
    return max(1, steps // tile.lanes) * tile.lanes


def crowded(device: Device, rows: int, pitch: int | None, size: int) -> bool:
    """Whether `rows` rows, `pitch` elements of `size` bytes apart, compete for the same places of the cache."""
    if pitch is None:
        return True
    places = device.l1_bytes // LINE // WAYS
    crowd = Counter(row * pitch * size // LINE % places for row in range(rows))
    return max(crowd.values()) > WAYS // 2


def part(code: Code, name: str, extent: Expr, parts: Expr, index: Expr) -> tuple[Expr, Expr]:
    """The start and length of one of `parts` even parts of `range(extent)`."""
    if static(parts) == 1:
        return const(0), extent
    start = code.let(name, tirx.truncdiv(index * extent, parts))
    return start, code.let(f"{name}s", tirx.truncdiv((index + 1) * extent, parts) - start)


def ceil_div(value: Expr, by: Expr) -> Expr:
    """`value / by`, rounded up; neither is negative."""
    known, divisor = static(value), static(by)
    if known is not None and divisor is not None:
        return const(-(-known // divisor))
    return tirx.truncdiv(value + (by - 1), by)

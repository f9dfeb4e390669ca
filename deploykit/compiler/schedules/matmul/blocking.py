"""How a matrix product is divided for the caches and for threads.

The depth is cut into *chunks*, over which a tile's rows stay in the first-level cache. The result is cut into *units of
work*, rows by panels. The panels of a unit over one chunk take at most half of the second-level cache, and are read
once for all rows of the unit. If that gives fewer than `UNITS` units, there are more blocks of rows, then more
stretches of panels, so that small products can be distributed over threads, too.

If the right operand is not packed, it is packed within the unit, `panels` panels at a time. These stay in the
second-level cache while the tiles of all rows use them, so chunks are short enough for some panels.

Rows that are a large power of two apart compete for few sets of the cache. In this case, and if the distance is not
known, a tile's rows are *copied* for each chunk.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from tvm import tirx

from deploykit.compiler.devices.cpu import Device
from deploykit.compiler.schedules.kernel.loops import Code
from deploykit.compiler.schedules.matmul.tile import Tile
from deploykit.compiler.tir.prefetches import LINE
from deploykit.compiler.tir.rewriting import Expr
from deploykit.compiler.tir.values import as_index, bits_of, const, static

COPIED_SHARE, DIRECT_SHARE = 5 / 8, 5 / 4
"""The shares of the first-level cache that a tile's rows over one chunk may take. A copy must stay in the cache
together with the panels that are read."""

UNITS = 12
"""The number of units of work that is enough for threads."""

FEWEST_ROWS, MOST_ROWS = 48, 384
"""The least and the most rows of a unit of work, if the result has as many."""

WIDEST = 256
"""The most columns of a unit of work."""

FEWEST_COPIED = 4
"""The least number of panels for which copying a tile's rows pays."""

FEWEST_PACKED_FOR = 256
"""The least number of rows of a unit of work that packs panels, if the result has as many."""

PACKED_SHARE = 1 / 10
"""The largest share of the second-level cache that packed panels may take."""

WAYS = 8
"""The number of lines that a set of the first-level cache holds."""


@dataclass(frozen=True)
class Blocking:
    """The depth of `total` steps is cut into `chunks` of `depth` steps, and the columns into stretches of at most
    `panels` panels. If `pitch` is not 0, the rows of a tile are copied for each chunk, `pitch` elements apart. `packs`:
    the panels are packed within the unit of work."""

    total: Expr
    depth: Expr
    chunks: Expr
    panels: int
    pitch: int
    packs: bool = False

    def length(self, chunk: Expr) -> Expr:
        """The number of steps of a chunk."""
        if static(self.chunks) == 1:
            return self.total
        total, depth = static(self.total), static(self.depth)
        if total is not None and depth is not None and total % depth == 0:
            return self.depth
        return tirx.min(self.depth, self.total - chunk * self.depth)

    def until(self, end: Expr) -> Blocking:
        """The same chunks of a depth that ends earlier. There is at least one."""
        return replace(self, total=end, chunks=tirx.max(const(1), ceil_div(end, self.depth)))

    def units(self, rows: Expr, panels: Expr, batched: bool) -> tuple[Expr, Expr]:
        """The number of blocks of rows and of stretches of panels. A product in a batch of many is one unit if the
        caches allow it."""
        wanted = const(1 if batched else UNITS)
        stretches = ceil_div(panels, const(self.panels))
        least = const(1) if self.packs else ceil_div(rows, const(MOST_ROWS))
        most = ceil_div(rows, const(FEWEST_PACKED_FOR if self.packs else FEWEST_ROWS))
        blocks = tirx.min(tirx.max(ceil_div(wanted, tirx.max(stretches, const(1))), least), most)
        most = ceil_div(panels, const(FEWEST_COPIED if self.pitch else 1))
        return blocks, tirx.max(stretches, tirx.min(most, ceil_div(wanted, tirx.max(blocks, const(1)))))


def blocking_for(device: Device, tile: Tile, total: Expr, columns: Expr, *, resumable: bool) -> Blocking:
    """The blocking of a product with packed panels, with `columns` columns and `total` steps. `resumable`: sums may
    wait in the result between chunks."""
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


def packing(device: Device, tile: Tile, total: Expr, *, resumable: bool, copies: bool = False) -> Blocking | None:
    """The blocking of a product whose right operand is not packed; `None` if a chunk is too long for the cache.
    `copies`: rows are copied in any case."""
    total, size = as_index(total), bits_of(tile.dtype) // 8
    room = int(device.l2_bytes * PACKED_SHARE) // (tile.columns * size)
    whole = (static(total) or room + 1) <= room
    if not resumable and not whole:
        return None
    copied = copies or crowded(device, tile.rows, static(total), size)
    longest = _longest(device, tile, tile.rows, COPIED_SHARE if copied else DIRECT_SHARE)
    longest = room if not resumable else max(tile.lanes, min(longest, room // FEWEST_COPIED // tile.lanes * tile.lanes))
    depth, chunks = _chunks(tile, total, longest)
    steps = static(depth) or longest
    return Blocking(total, depth, chunks, max(1, room // steps), _pitch(tile, steps) if copied else 0, packs=True)


def _chunks(tile: Tile, total: Expr, longest: int) -> tuple[Expr, Expr]:
    """The number of steps of a chunk, at most `longest`, and the number of chunks, at least one."""
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
    """The steps over which `wide` elements per step take this share of the first-level cache: a multiple of the
    lanes."""
    steps = int(device.l1_bytes * share) // (wide * bits_of(tile.dtype) // 8)
    return max(1, steps // tile.lanes) * tile.lanes


def crowded(device: Device, rows: int, pitch: int | None, size: int) -> bool:
    """Whether `rows` rows, `pitch` elements of `size` bytes apart, compete for the same sets of the cache."""
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
    """`value / by`, rounded up. Neither may be negative."""
    known, divisor = static(value), static(by)
    if known is not None and divisor is not None:
        return const(-(-known // divisor))
    return tirx.truncdiv(value + (by - 1), by)

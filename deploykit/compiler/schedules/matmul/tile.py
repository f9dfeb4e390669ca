"""Register tiles: an outer product accumulated in registers, the core of matrix products and convolutions.

A tile holds `rows` x `vectors` vectors of `lanes` partial sums. Each step of the reduced loops adds, to every sum, the
product of one scalar per row and one element per column:

    acc[i, j] += left(i) * right(j)        for i < rows, j < vectors * lanes

All tile indices are constants in the emitted code, so that the sums stay in registers over all steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from tvm import tirx

from deploykit.compiler.devices.cpu import Device
from deploykit.compiler.schedules.kernel.loops import local, loop, main_and_tail, unrolled, vectorized
from deploykit.compiler.tir.rewriting import Buffer, Expr, sequence
from deploykit.compiler.tir.values import as_index, bits_of, const, dtype_of, static


@dataclass(frozen=True)
class Tile:
    """The shape of a register tile, and the dtype of its sums."""

    rows: int
    vectors: int
    lanes: int
    dtype: str

    @property
    def columns(self) -> int:
        return self.vectors * self.lanes

    def scratch(self) -> Buffer:
        """A local buffer with one element per sum, row-major."""
        return local("tile", self.rows * self.columns, self.dtype)


def tile_for(device: Device, dtype: str, vectors: int) -> Tile:
    """The tile with `vectors` vectors per row (or columns, on devices without vectors) that fills three quarters of the
    registers. A tile of one vector per row has at most `CHAINS` rows."""
    lanes = device.lanes(bits_of(dtype))
    rows = max(1, device.vector_registers * 3 // 4 // vectors)
    functions = device.row_functions
    if functions is not None and dtype == "float32" and functions.takes(vectors):
        rows = functions.float_rows
    if device.by_element or device.loads_first:
        rows = min(rows, tallest_with_factors(device, vectors))
    return Tile(min(rows, CHAINS) if vectors == 1 else rows, vectors, lanes, dtype)


def panel_width(device: Device, dtype: str, columns: Expr) -> int:
    """The columns of a packed panel: those of the tile with the fewest loads per product, or one vector if there are no
    more columns. Without vectors, few columns get the panels with the least padding."""
    lanes, count = device.lanes(bits_of(dtype)), static(columns)
    if device.row_functions is not None and dtype == "float32" and (width := device.row_functions.float_width(count)):
        return width
    if lanes == 1:
        return PORTABLE[0] if count is None else _portable_width(count)
    return lanes if count is not None and count <= lanes else lanes * _panel_vectors(device)


def _portable_width(columns: int) -> int:
    """The columns of a panel on a device without vectors."""
    if not 0 < columns <= FEW_COLUMNS:
        return PORTABLE[0]
    return min(columns, min(PORTABLE, key=lambda width: -columns % width))


def _panel_vectors(device: Device) -> int:
    """The vectors across a tile. Its operands must fit into the registers together with the sums, and it must not read
    panels faster than the second-level cache delivers them."""
    sums = device.vector_registers * 3 // 4

    def loads(vectors: int) -> float:
        rows = sums // vectors
        return (rows + vectors) / (rows * vectors)

    def fits(vectors: int) -> bool:
        read = device.vector_bits // 8 * PRODUCTS_A_CYCLE
        return sums + vectors + 2 <= device.vector_registers and read <= PANEL_BYTES_A_CYCLE * (sums // vectors)

    return min([vectors for vectors in (1, 2, 4) if fits(vectors)] or [1], key=loads)


PORTABLE, FEW_COLUMNS = (4, 5, 3), 16
"""The columns of a panel on devices without vectors, the best first. With so few columns, padding would be a large part
of the panels."""

CHAINS = 8
"""The vectors of sums that keep the multipliers busy: the latency of a multiplication times the number that begin in a
cycle."""

PRODUCTS_A_CYCLE, PANEL_BYTES_A_CYCLE = 2, 11
"""The most vectors that are multiplied, and the most bytes of panels that are read, in a cycle."""


def each_vector(tile: Tile, body: Callable[[Expr, Expr, Expr], tirx.Stmt]) -> tirx.Stmt:
    """`body(row, column, position in the sums)` for every sum, one vector at a time, unrolled.

    Without vectors, the rows are unrolled in a loop over the columns, which C compilers vectorise and unroll.
    """
    if tile.lanes == 1:
        return loop(
            "j",
            tile.columns,
            lambda j: sequence([body(const(i), j, i * tile.columns + j) for i in range(tile.rows)]),
        )

    def vector(row: Expr, v: Expr) -> tirx.Stmt:
        start = v * tile.lanes
        at = row * tile.columns + start
        return vectorized(tile.lanes, lambda lane: body(row, start + lane, at + lane))

    return unrolled("i", tile.rows, lambda i: unrolled("v", tile.vectors, lambda v: vector(i, v), False), False)


def zero(tile: Tile, sums: Buffer) -> tirx.Stmt:
    """Clear all sums."""
    nothing = tirx.const(0, tile.dtype)
    return each_vector(tile, lambda _row, _column, at: tirx.BufferStore(sums, nothing, [at]))


def cleared(buffer: Buffer, lanes: int) -> tirx.Stmt:
    """Set all elements of a local buffer, a whole number of vectors, to 0."""
    nothing = tirx.const(0, dtype_of(buffer))
    count = static(buffer.shape[0])
    assert count is not None
    return sequence(main_and_tail("i", count, lanes, lambda at: tirx.BufferStore(buffer, nothing, [at])))


def fill(tile: Tile, sums: Buffer, value: Callable[[Expr, Expr], Expr]) -> tirx.Stmt:
    """Set all sums to `value(row, column)`."""
    return each_vector(tile, lambda row, column, at: tirx.BufferStore(sums, value(row, column), [at]))


def step(tile: Tile, sums: Buffer, left: Callable[[Expr], Expr], right: Callable[[Expr], Expr]) -> tirx.Stmt:
    """Add one outer product: `left(row) * right(column)`."""
    return products(tile, sums, lambda row, column: left(row) * right(column))


def products(tile: Tile, sums: Buffer, product: Callable[[Expr, Expr], Expr]) -> tirx.Stmt:
    """Add `product(row, column)` to every sum."""

    def add(row: Expr, column: Expr, at: Expr) -> tirx.Stmt:
        return tirx.BufferStore(sums, tirx.BufferLoad(sums, [at]) + product(row, column), [at])

    return each_vector(tile, add)


def steps(
    tile: Tile,
    sums: Buffer,
    count: Expr | int,
    left: Callable[[Expr, Expr], Expr],
    right: Callable[[Expr, Expr], Expr],
    together: int,
    ahead: Callable[[Expr], Sequence[tirx.Stmt]] = lambda _: (),
) -> tirx.Stmt:
    """Add `count` outer products, `left(row, step) * right(step, column)`.

    `together` neighbouring left factors of a row are loaded as one vector, whose elements are then factors of all
    lanes. `ahead(step)` is done before each step."""

    def single(k: Expr) -> tirx.Stmt:
        return sequence([*ahead(k), step(tile, sums, lambda i: left(i, k), partial(right, k))])

    if together == 1:
        return loop("k", count, single)
    held = local("held", tile.rows * together, tile.dtype)

    def load(start: Expr, i: Expr) -> tirx.Stmt:
        return vectorized(together, lambda s: tirx.BufferStore(held, left(i, start + s), [i * together + s]))

    def several(index: Expr) -> tirx.Stmt:
        start = index * together
        added = [
            sequence(
                [
                    *ahead(start + s),
                    step(
                        tile,
                        sums,
                        lambda i, s=s: tirx.BufferLoad(held, [i * together + s]),  # type: ignore[misc]
                        partial(right, start + s),
                    ),
                ]
            )
            for s in range(together)
        ]
        return sequence([tirx.AllocBuffer(held), unrolled("i", tile.rows, partial(load, start), False), *added])

    known = static(count) if not isinstance(count, int) else count
    whole = tirx.truncdiv(as_index(count), const(together)) if known is None else const(known // together)
    main = loop("k", whole, several)
    if known is not None and known % together == 0:
        return main
    return sequence([main, loop("k", count - whole * together, lambda k: single(whole * together + k))])


def tallest_with_factors(device: Device, vectors: int) -> int:
    """The rows of a tile whose sums and left factors, a vector of them for each row, leave registers for the right
    factors of a step."""
    return max(1, (device.vector_registers - vectors) // (vectors + 1))


def together(device: Device, tile: Tile) -> int:
    """The left factors of a row that are loaded at once."""
    return tile.lanes if device.by_element else 1


def step_of_some(
    tile: Tile, sums: Buffer, left: Callable[[Expr], Expr], right: Callable[[Expr], Expr], taken: Callable[[Expr], Expr]
) -> tirx.Stmt:
    """Add one outer product to the sums of the rows for which `taken(row)` holds."""

    def add(row: Expr, column: Expr, at: Expr) -> tirx.Stmt:
        before = tirx.BufferLoad(sums, [at])
        return tirx.BufferStore(sums, tirx.Select(taken(row), before + left(row) * right(column), before), [at])

    return each_vector(tile, add)


def part_sums(tile: Tile) -> Tile:
    """The tile of partial sums for a tile of one row: one row per stretch of the depth. Other tiles stay as they
    are."""
    return replace(tile, rows=-(-CHAINS // tile.vectors)) if tile.rows == 1 < tile.lanes else tile


def gather(tile: Tile, sums: Buffer, parts: int) -> tirx.Stmt:
    """Add the partial sums of all parts to those of the first."""

    def add(_row: Expr, _column: Expr, at: Expr) -> tirx.Stmt:
        values: list[Expr] = [tirx.BufferLoad(sums, [at + part * tile.columns]) for part in range(parts)]
        while len(values) > 1:
            pairs = zip(values[::2], values[1::2], strict=False)
            values = [a + b for a, b in pairs] + values[len(values) // 2 * 2 :]
        return tirx.BufferStore(sums, values[0], [at])

    return each_vector(tile, add)


def copy(tile: Tile, sums: Buffer, target: Buffer) -> tirx.Stmt:
    """Copy all sums to a buffer that loops may index."""
    return each_vector(tile, lambda _row, _column, at: tirx.BufferStore(target, tirx.BufferLoad(sums, [at]), [at]))

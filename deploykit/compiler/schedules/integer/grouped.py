"""Products with weights in groups of few bits, by dot products of 8-bit integers.

Rows of the left operand are quantised to 16 bits in the same groups, with a scale for each, so that results are those
of float32 but for its rounding. An instruction for factors of 8 bits takes them in two parts, `256 * upper + lower`.
The sum of a group is exact in int32, then scaled. `narrow` products take 8 bits alone: they are up to twice as fast,
with errors of a hundredth. For one row, the kernel streams the weights; for several, the codes of a group are unpacked
once for all rows of a tile, and stay in registers.

Codes are unsigned. What their zero or their minimum adds needs no more than the sum of the group's left factors, whose
share is computed with the factors, once for all columns:

    sum((code - zero) * q) = sum(code * q) - zero * sum(q)
    sum((scale * code + minimum) * q) = scale * sum(code * q) + minimum * sum(q)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tvm import te, tirx

from deploykit.compiler.devices.cpu import Device
from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.operators.anchors.grouped import QUADS, GroupPacking
from deploykit.compiler.operators.building.imperative import Array, Code, imperative
from deploykit.compiler.operators.building.integers import expr
from deploykit.compiler.operators.quantized.groups import GROUP
from deploykit.compiler.schedules.integer.dot import DOTS
from deploykit.compiler.tir.prefetches import LINE, prefetch
from deploykit.compiler.tir.rewriting import Expr
from deploykit.compiler.tir.values import repeated

GREATEST = 127.0 * 256
"""The greatest magnitude of a number of the left operand: both of its parts have 8 bits."""

GREATEST_NARROW = 127.0

HEIGHTS = (8, 4, 2, 1)
"""Rows of a tile, besides the most for which there are registers."""

TALL_OF_PAIRS = 8
"""Rows of a tile with codes of 16 bits where registers are few: its codes are in memory then, so that more rows take no
more registers, and share the time of unpacking."""

AHEAD = 16
"""How many groups ahead of their use the codes are prefetched."""

LANES = 16
"""Elements of a row that are quantised together."""


@dataclass(frozen=True)
class GroupDot:
    """An instruction for products of codes with left factors, exact for codes with `most_bits`. `left` and
    `right` are the dtypes in which it takes them. With `pairs` it takes factors of 16 bits, so that a vector has the
    four codes of half of the columns, and each column two sums."""

    name: str
    left: str
    right: str
    most_bits: int
    pairs: bool = False

    def added(self, sums: Expr, codes: Expr, left: Expr, lanes: int) -> Expr:
        """The new sums of `lanes` columns. Codes take the operand of the instruction that has no sign."""
        unsigned = self.right == "uint8"
        return DOTS[self.name].apply(sums, *((codes, left) if unsigned else (left, codes)), lanes)


GROUP_DOTS = (
    GroupDot("vpdpbusd", "int8", "uint8", 8),
    GroupDot("sdot", "int8", "int8", 4),
    GroupDot("pmaddubsw", "int8", "uint8", 4),
    GroupDot("pmaddwd", "int16", "int16", 8, pairs=True),
    GroupDot("dot_i16x8", "int16", "int16", 8, pairs=True),
    GroupDot("paired", "int16", "int16", 8, pairs=True),
)
"""All of them, best first."""


def dot_for(device: Device, packing: GroupPacking) -> GroupDot | None:
    """The best instruction of a device for codes of this format; None if it has none."""
    fits = [dot for dot in GROUP_DOTS if dot.name in device.dots_of_groups and packing.format.bits <= dot.most_bits]
    return fits[0] if fits else None


def quantised(x: te.Tensor, dtype: str, zero: int | None, *, narrow: bool = False) -> list[te.Tensor]:
    """The rows of `x` (rows, depth) in groups: numbers, scales in float32 (rows, groups), and shares (rows, groups).
    The share of a group is what a `zero` of all codes adds, in int32; without one it is the group's sum in float32,
    for minima. The numbers are int16 (rows, depth), or for the dtype int8 their upper parts, then their lower parts
    (rows, 2 * depth), and `narrow` ones int8 (rows, depth). A group with an infinity or NaN has zeros, and that
    scale."""
    rows, depth = x.shape
    groups, parts = int(depth) // GROUP, 2 if dtype == "int8" and not narrow else 1

    def write(code: Code, source: Array, whole: Array, scales: Array, shares: Array) -> None:
        with code.shared("row", rows) as row, code.loop("group", groups) as group:
            values = [source.vector(LANES, row, group * GROUP + piece) for piece in range(0, GROUP, LANES)]
            bits = [tirx.reinterpret(f"int32x{LANES}", tirx.abs(value)) for value in values]
            greatest = tirx.reinterpret("float32", _across(code, bits, tirx.max))
            scale = code.cell("scale", greatest / _float(GREATEST_NARROW if narrow else GREATEST)).value
            usable = tirx.all(scale > _float(LEAST), scale < _float(float("inf")))
            inverse = code.cell("inverse", tirx.Select(usable, _float(1) / scale, _float(0))).value
            rounded = []
            for place, value in enumerate(values):
                known = tirx.Select(repeated(usable, LANES), value, repeated(_float(0), LANES))
                number = code.room(f"number{place}", LANES, "int32")
                scaled = tirx.nearbyint(known * repeated(inverse, LANES))
                number.put(scaled.astype(f"int32x{LANES}"), LANES, 0)
                rounded.append(number.vector(LANES, 0))
                at = group * GROUP + place * LANES
                if parts == 1:
                    whole.put(rounded[-1].astype(f"{dtype}x{LANES}"), LANES, row, at)
                    continue
                upper = (rounded[-1] + repeated(_int(128), LANES)) >> repeated(_int(8), LANES)
                lower = rounded[-1] - upper * repeated(_int(256), LANES)
                whole.put(upper.astype(f"int8x{LANES}"), LANES, row, at)
                whole.put(lower.astype(f"int8x{LANES}"), LANES, row, at + depth)
            scales[row, group] = scale
            total = _across(code, rounded, tirx.Add)
            shares[row, group] = total.astype("float32") * scale if zero is None else total * _int(-zero)

    share = "float32" if zero is None else "int32"
    outputs = [((rows, parts * depth), dtype), ((rows, groups), "float32"), ((rows, groups), share)]
    return imperative("quantise_groups", [x], outputs, write)


LEAST = 1e-37
"""A scale that is smaller has no inverse: the numbers of its group count as zeros."""


def _int(value: int) -> Expr:
    return tirx.const(value, "int32")


def _float(value: float) -> Expr:
    return tirx.const(value, "float32")


def _across(code: Code, vectors: Sequence[Expr], combine: Callable[[Expr, Expr], Expr]) -> Expr:
    """All elements of int32 vectors, combined in halves."""
    room = code.room("halves", LANES, "int32")
    total = vectors[0]
    for vector in vectors[1:]:
        total = combine(total, vector)
    room.put(total, LANES, 0)
    count = LANES // 2
    while count:
        room.put(combine(room.vector(count, 0), room.vector(count, count)), count, 0)
        count //= 2
    return room[0]


def product(
    *tensors: te.Tensor, packing: GroupPacking, dot: GroupDot, device: Device, narrow: bool = False
) -> te.Tensor:
    """The product (rows, packing.rows) of quantised rows with a packed matrix. `tensors` are those of `quantised`, then
    the packed codes, scales and minima."""
    rows = tensors[0].shape[0]
    emitter = _Emitter(packing, dot, device, narrow=narrow)

    def write(code: Code, *arrays: Array) -> None:
        left, left_scales, shares, codes, scales, *minima, result = arrays
        operands = _Operands(left, left_scales, shares, codes, scales, result, *minima)
        emitter.write(code, rows, operands)

    (result,) = imperative("grouped_matmul", tensors, [((rows, packing.rows), "float32")], write)
    return result


@dataclass(frozen=True)
class _Operands:
    left: Array
    left_scales: Array
    shares: Array
    codes: Array
    scales: Array
    result: Array
    minima: Array | None = None


class _Emitter:
    def __init__(self, packing: GroupPacking, dot: GroupDot, device: Device, *, narrow: bool) -> None:
        self.packing, self.dot, self.lanes, self.narrow = packing, dot, device.lanes(32), narrow
        self.vectors = packing.width // self.lanes
        spare = 8 if device.vector_registers > 16 else 4
        self.tallest = max(1, (device.vector_registers - QUADS * self.vectors - spare) // self.vectors)
        spilled = dot.pairs and device.vector_registers <= 2 * QUADS
        self.tallest = max(self.tallest, TALL_OF_PAIRS if spilled else 4)

    def write(self, code: Code, rows: IntExpr, given: _Operands) -> None:
        with code.shared("panel", self.packing.panels) as panel:
            row: Expr = tirx.IntImm("int64", 0)
            left: Expr = expr(rows)
            for height in (self.tallest, *(height for height in HEIGHTS if height < self.tallest)):
                tiles = code.cell("tiles", tirx.truncdiv(left, expr(height))).value
                with code.loop("tile", tiles) as tile:
                    self.tile(code, given, panel, row + tile * height, height)
                row, left = row + tiles * height, left - tiles * height

    def tile(self, code: Code, given: _Operands, panel: Expr, first: Expr, height: int) -> None:
        packing, lanes, width = self.packing, self.lanes, self.packing.width
        sums = code.room("sums", height * width, "float32")
        zero = repeated(tirx.const(0, "float32"), lanes)
        for at in range(0, height * width, lanes):
            sums.put(zero, lanes, at)
        with code.loop("group", packing.groups) as group:
            block = panel * packing.groups + group
            self.ahead(code, given, block + AHEAD)
            for v in range(self.vectors):
                self.group(code, given, (block, group, first), height, v, sums)
        for i in range(height):
            for v in range(self.vectors):
                self.stored(code, given, panel, first + i, v, sums.vector(lanes, i * width + v * lanes))

    def ahead(self, code: Code, given: _Operands, block: Expr) -> None:
        """Prefetch the codes of a group that comes later, and its scales and minima."""
        packing = self.packing
        for at in range(0, packing.group_bytes, LINE):
            code.append(prefetch(given.codes[block * packing.group_bytes + at]))
        for floats in (given.scales, given.minima):
            if floats is not None:
                code.append(prefetch(floats[block * packing.width]))

    def group(
        self, code: Code, given: _Operands, at: tuple[Expr, Expr, Expr], height: int, v: int, sums: Array
    ) -> None:
        """Add the products of a group to the sums of the columns of a vector."""
        packing, lanes, width = self.packing, self.lanes, self.packing.width
        block, group, first = at
        codes = self.unpacked(code, given.codes, block * packing.group_bytes + v * lanes * 4)
        scale = self.floats(code, "scale", given.scales, block * width + v * lanes)
        least = None if given.minima is None else self.floats(code, "least", given.minima, block * width + v * lanes)
        for i in range(height):
            row = first + i
            share = repeated(given.shares[row, group], lanes)
            total = self.total(code, given.left, codes, row, group, share if least is None else None)
            place = i * width + v * lanes
            factor = repeated(given.left_scales[row, group], lanes)
            added = sums.vector(lanes, place) + total.astype(f"float32x{lanes}") * scale * factor
            sums.put(added if least is None else added + share * least, lanes, place)

    def total(self, code: Code, left: Array, codes: Array, row: Expr, group: Expr, share: Expr | None) -> Expr:
        """The exact products of a row with the codes of a group, for the columns of a vector, and the `share`."""
        start, none = group * GROUP, repeated(_int(0), self.lanes)
        first = none if share is None else share
        if self.dot.pairs:
            sums = self.products(code, left, codes, row, start, none)
            pairs = sums.strided(self.lanes, 2, 0) + sums.strided(self.lanes, 2, 1)
            return pairs if share is None else pairs + share
        if self.narrow:
            return self.products(code, left, codes, row, start, first).vector(self.lanes, 0)
        upper = self.products(code, left, codes, row, start, none).vector(self.lanes, 0)
        lower = self.products(code, left, codes, row, start + self.packing.depth, first).vector(self.lanes, 0)
        return upper * repeated(_int(256), self.lanes) + lower

    def products(self, code: Code, left: Array, codes: Array, row: Expr, start: Expr, first: Expr) -> Array:
        """Sums, which begin with `first`, of products of codes with the factors of a row from `start` on."""
        lanes, dot = self.lanes, self.dot
        halves = 2 if dot.pairs else 1
        sums = code.room("total", halves * lanes, "int32")
        for half in range(halves):
            sums.put(first, lanes, half * lanes)
        word, count = ("int64", lanes // 2) if dot.pairs else ("int32", lanes)
        for quad in range(QUADS):
            four = tirx.reinterpret(word, left.vector(4, row, start + quad * 4))
            factors = tirx.reinterpret(f"{dot.left}x{4 * count}", repeated(four, count))
            for half in range(halves):
                taken = codes.vector(4 * count, (quad * halves + half) * 4 * count)
                value = dot.added(sums.vector(lanes, half * lanes), taken, factors, lanes)
                sums.put(value, lanes, half * lanes)
        return sums

    def unpacked(self, code: Code, codes: Array, start: Expr) -> Array:
        """The codes of a group for the columns of a vector, quad by quad."""
        count = 4 * self.lanes
        room = code.room("codes", QUADS * count, self.dot.right)
        for stored in range(self.packing.stored_quads):
            loaded = codes.vector(count, start + stored * self.packing.width * 4)
            if self.packing.stored_quads == QUADS:
                room.put(self.as_right(loaded, count), count, stored * count)
                continue
            low = loaded & repeated(tirx.const(15, "uint8"), count)
            high = loaded >> repeated(tirx.const(4, "uint8"), count)
            room.put(self.as_right(low, count), count, stored * count)
            room.put(self.as_right(high, count), count, (stored + self.packing.stored_quads) * count)
        return room

    def as_right(self, value: Expr, count: int) -> Expr:
        if self.dot.pairs:
            return value.astype(f"int16x{count}")
        return value if self.dot.right == "uint8" else tirx.reinterpret(f"int8x{count}", value)

    def floats(self, code: Code, name: str, source: Array, at: Expr) -> Expr:
        """Numbers of float16 as float32, kept for the rows of a tile."""
        room = code.room(name, self.lanes, "float32")
        room.put(source.vector(self.lanes, at).astype(f"float32x{self.lanes}"), self.lanes, 0)
        return room.vector(self.lanes, 0)

    def stored(self, code: Code, given: _Operands, panel: Expr, row: Expr, v: int, value: Expr) -> None:
        """Store the columns of a vector that exist."""
        column = panel * self.packing.width + v * self.lanes
        if self.packing.rows % self.packing.width == 0:
            given.result.put(value, self.lanes, row, column)
            return
        with code.when(column + self.lanes <= self.packing.rows):
            given.result.put(value, self.lanes, row, column)
        with code.when(column + self.lanes > self.packing.rows):
            spilled = code.room("spilled", self.lanes, "float32")
            spilled.put(value, self.lanes, 0)
            with code.loop("lane", tirx.max(self.packing.rows - column, expr(0))) as lane:
                given.result[row, column + lane] = spilled[lane]

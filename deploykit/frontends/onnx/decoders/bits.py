"""Weights of MatMulNBits and GatherBlockQuantized that keep their bits (`operators.quantized.groups`).

Blocks of several times 32 numbers are several groups with the same scale. Weights of 4 bits with zero points have
minima. Scales become float16, as in the formats of GGUF.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from deploykit.compiler.operators.grouped import GroupedWeight, grouped_look_up, grouped_product
from deploykit.compiler.operators.quantized.groups import FORMATS, GROUP, Grouped
from deploykit.frontends.onnx.ops.microsoft.blockwise import constant_of, unpacked
from deploykit.frontends.onnx.standard import Standard

if TYPE_CHECKING:
    from deploykit.compiler.operators.building.context import Context
    from deploykit.compiler.operators.building.value import Value
    from deploykit.frontends.onnx.node import Node


@dataclass
class Bits:
    """The weights of a model that keep their bits. A table that is also the weight of a product is kept once."""

    counts: Counter[str] = field(default_factory=Counter)
    nbytes: int = 0
    floats: int = 0
    """How many weights have no such format."""
    _known: dict[tuple[bytes, int, int], GroupedWeight | None] = field(default_factory=dict)

    def product(self, ctx: Context, node: Node, inputs: Sequence[Value | None]) -> Value | None:
        """MatMulNBits; None if its weight has no format here."""
        x, codes, scales, zeros, order, bias = [*inputs, *([None] * 6)][:6]
        if x is None or codes is None or scales is None or order is not None or node.int("weight_prepacked", 0):
            return None
        rows, depth, bits = node.int("N"), node.int("K"), node.int("bits", 4)
        weight = self._weight(codes, scales, zeros, (rows, depth), bits, node.int("block_size"))
        if weight is None:
            return None
        y = ctx.cast(grouped_product(ctx, x, weight), x.dtype)
        return y if bias is None else Standard(ctx, node)("Add", y, bias)

    def rows(self, ctx: Context, node: Node, inputs: Sequence[Value | None]) -> Value | None:
        """GatherBlockQuantized of a matrix; None if it has no format here."""
        table, indices, scales, zeros = [*inputs, None][:4]
        if table is None or indices is None or scales is None:
            return None
        if table.rank != 2 or table.dtype != "uint8" or node.axis(2, 0, "gather_axis") != 0:
            return None
        bits = node.int("bits", 4)
        count, depth = int(table.shape[0]), int(table.shape[1]) * 8 // bits
        weight = self._weight(table, scales, zeros, (count, depth), bits, node.int("block_size", 128))
        if weight is None:
            return None
        return ctx.cast(grouped_look_up(ctx, weight, indices), scales.dtype)

    def _weight(
        self, codes: Value, scales: Value, zeros: Value | None, shape: tuple[int, int], bits: int, block: int
    ) -> GroupedWeight | None:
        digest = hashlib.blake2b(digest_size=16)
        for part in (codes, scales, *([] if zeros is None else [zeros])):
            digest.update(np.ascontiguousarray(constant_of(part)).data)
        key = (digest.digest(), *shape)
        if key not in self._known:
            found = grouped_blocks(codes, scales, zeros, shape, bits=bits, block=block)
            self._known[key] = None if found is None else GroupedWeight.of(found)
            self.floats += found is None
            if found is not None:
                self.counts[found.format.name] += 1
                self.nbytes += found.nbytes
        return self._known[key]

    def notes(self) -> list[str]:
        if not self.counts:
            return []
        kept = ", ".join(f"{count} {name}" for name, count in sorted(self.counts.items()))
        size = f"{self.nbytes / 1e6:,.1f} MB"
        return [f"weights keep their bits, with scales and minima rounded to float16: {kept}, {size}"]


def grouped_blocks(
    codes: Value, scales: Value, zeros: Value | None, shape: tuple[int, int], *, bits: int, block: int
) -> Grouped | None:
    """A matrix (rows, depth) that is stored in blocks, in a format of groups; None if there is none for it."""
    rows, depth = shape
    if bits not in (4, 8) or block % GROUP or depth % GROUP:
        return None
    blocks = -(-depth // block)
    stored, scale = constant_of(codes), constant_of(scales)
    if stored.size != rows * blocks * block * bits // 8 or scale.size != rows * blocks:
        return None
    numbers = unpacked(stored.reshape(rows, -1), bits)[:, :depth]
    wide = scale.reshape(rows, blocks).astype(np.float32)
    with np.errstate(over="ignore"):
        halves = wide.astype(np.float16)
    middle = 1 << bits - 1
    zero = np.full((rows, blocks), middle, np.float32)
    if zeros is not None:
        given = constant_of(zeros)
        given = unpacked(given.reshape(rows, -1), bits)[:, :blocks] if zeros.dtype == "uint8" else given
        if given.size != rows * blocks:
            return None
        zero = given.reshape(rows, blocks).astype(np.float32)
    format_ = FORMATS["q8" if bits == 8 else "q4" if (zero == middle).all() else "q4_1"]
    if bits == 8 and (zero != middle).any():
        return None
    minima = None if format_.zero is not None else (-wide * zero).astype(np.float16)
    if not _near(halves, wide) or (minima is not None and not _near(minima, -wide * zero)):
        return None

    def spread(parts: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(np.repeat(parts, block // GROUP, axis=1)[:, : depth // GROUP])

    return Grouped(format_, np.ascontiguousarray(numbers), spread(halves), None if minima is None else spread(minima))


def _near(halves: np.ndarray, wide: np.ndarray) -> bool:
    """Whether no number is further from the exact one than half a step of float16 next to the greatest."""
    error = np.abs(halves.astype(np.float32) - wide).max(initial=0)
    return bool(np.isfinite(halves).all() and error <= np.abs(wide).max(initial=0) * np.float32(2**-11))

"""Weights in groups of few bits as kernels read them, and products with them as sums that any device can compute.

A matrix (rows, depth) is packed in panels of `width` neighbouring rows. For each group of a panel, the codes of four
neighbouring numbers of a row are next to each other, and rows follow each other: `[panel, group, quad, row, 4]`. Two
codes of four bits share a byte: those of quad `q` are the lower bits, those of quad `q + 4` the upper ones. Scales and
minima are `[panel, group, row]`. Rows that fill the last panel are zeros.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import te, tirx

from deploykit.compiler.operators.anchors.annotation import ANCHOR
from deploykit.compiler.operators.quantized.groups import FORMATS, GROUP, Format

GROUPED = "grouped"
"""The anchor of a product. Its annotations also say how its weight is packed."""

QUADS = GROUP // 4
"""Groups of four numbers in a group."""


@dataclass(frozen=True)
class GroupPacking:
    """A matrix (rows, depth) of a format in panels of `width` rows."""

    format: Format
    rows: int
    depth: int
    width: int

    @property
    def notes(self) -> dict[str, Any]:
        """The annotations of a product."""
        return {ANCHOR: GROUPED, "format": self.format.name, "panel": self.width}

    @classmethod
    def of_notes(cls, notes: Mapping[str, Any], rows: int, depth: int) -> GroupPacking:
        """The packing of a matrix that annotations describe."""
        return cls(FORMATS[str(notes["format"])], rows, depth, int(notes["panel"]))

    @property
    def panels(self) -> int:
        return -(-self.rows // self.width)

    @property
    def groups(self) -> int:
        return self.depth // GROUP

    @property
    def stored_quads(self) -> int:
        """Quads of bytes of a group."""
        return QUADS * self.format.bits // 8

    @property
    def group_bytes(self) -> int:
        """Bytes of the codes of a group of a panel."""
        return self.stored_quads * self.width * 4

    def codes(self, codes: np.ndarray) -> np.ndarray:
        """The codes (rows, depth), packed: bytes in one row."""
        filled = np.zeros((self.panels * self.width, self.depth), np.uint8)
        filled[: self.rows] = codes
        split = filled.reshape(self.panels, self.width, self.groups, QUADS, 4).transpose(0, 2, 3, 1, 4)
        if self.format.bits == 4:
            half = QUADS // 2
            return np.ascontiguousarray(split[:, :, :half] | split[:, :, half:] << np.uint8(4)).reshape(-1)
        return np.ascontiguousarray(split).reshape(-1)

    def scales(self, scales: np.ndarray) -> np.ndarray:
        """Scales or minima (rows, groups), packed."""
        filled = np.zeros((self.panels * self.width, self.groups), scales.dtype)
        filled[: self.rows] = scales
        return np.ascontiguousarray(filled.reshape(self.panels, self.width, self.groups).transpose(0, 2, 1)).reshape(-1)

    def number(self, row: Any, column: Any, codes: te.Tensor, scales: te.Tensor, *minima: te.Tensor) -> Any:
        """A number of the matrix in float32, from its packed form."""
        panel, lane = tirx.floordiv(row, _int(self.width)), tirx.floormod(row, _int(self.width))
        group, inner = tirx.floordiv(column, _int(GROUP)), tirx.floormod(column, _int(GROUP))
        quad, part = tirx.floordiv(inner, _int(4)), tirx.floormod(inner, _int(4))
        block = panel * self.groups + group
        stored = tirx.floormod(quad, _int(self.stored_quads))
        code = codes(block * self.group_bytes + (stored * self.width + lane) * 4 + part).astype("int32")
        if self.stored_quads < QUADS:
            code = tirx.Select(quad >= self.stored_quads, code >> 4, code & 15)
        place = block * self.width + lane
        scale = scales(place).astype("float32")
        if minima:
            return code.astype("float32") * scale + minima[0](place).astype("float32")
        return (code - (self.format.zero or 0)).astype("float32") * scale


def grouped_matmul(x: te.Tensor, *weight: te.Tensor, packing: GroupPacking) -> te.Tensor:
    """`x` (..., M, depth) times the transpose of a packed matrix, as sums in float32."""
    depth = te.reduce_axis((0, packing.depth), name="k")

    def element(*index: Any) -> Any:
        *lead, row, column = index
        return te.sum(x(*lead, row, depth) * packing.number(column, depth, *weight), axis=depth)

    return te.compute((*x.shape[:-1], packing.rows), element, name="grouped_matmul", attrs=packing.notes)


def grouped_rows(indices: te.Tensor, *weight: te.Tensor, packing: GroupPacking) -> te.Tensor:
    """The rows of a packed matrix at indices, which count from the end if they are negative."""

    def element(*index: Any) -> Any:
        row = indices(*index[:-1]).astype("int64")
        row = tirx.Select(row < 0, row + packing.rows, row)
        return packing.number(tirx.max(tirx.min(row, packing.rows - 1), 0), index[-1], *weight)

    return te.compute((*indices.shape, packing.depth), element, name="grouped_rows")


def _int(value: int) -> Any:
    return tirx.IntImm("int64", value)

"""Weights in few bits, in groups: a format, and arrays of it.

`GROUP` neighbouring numbers along the inputs of a product share a scale, and in some formats a minimum, each a float16:

    number = scale * (code - zero)          symmetric formats; `zero` is the middle of the codes
    number = scale * code + minimum         others

A matrix (rows, depth) has a row for each output. Its codes are bytes (rows, depth), its scales and minima (rows,
groups).
(Source: the formats Q4_0, Q4_1 and Q8_0 of GGUF.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from deploykit.basics.mapped import PIECE, pieces

GROUP = 32
"""Numbers that share a scale."""


@dataclass(frozen=True)
class Format:
    """A format by its `bits`. `zero` is the code of 0; None: groups have a minimum instead. A symmetric format whose
    codes have one more negative number than positive ones uses it for the greatest magnitude if it is `whole`."""

    name: str
    bits: int
    zero: int | None
    whole: bool = False

    @property
    def codes(self) -> int:
        return 1 << self.bits


FORMATS: Mapping[str, Format] = {
    format_.name: format_ for format_ in (Format("q4", 4, 8, whole=True), Format("q4_1", 4, None), Format("q8", 8, 128))
}
"""By name; those with fewer bits first."""


@dataclass(frozen=True)
class Grouped:
    """A matrix in a format."""

    format: Format
    codes: np.ndarray
    scales: np.ndarray
    minima: np.ndarray | None

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        return (self.codes, self.scales, *(() if self.minima is None else (self.minima,)))

    @property
    def nbytes(self) -> int:
        """As it is stored in an artifact."""
        return self.codes.size * self.format.bits // 8 + sum(part.nbytes for part in self.arrays[1:])

    def rows(self, place: slice) -> Grouped:
        """Some rows."""
        minima = None if self.minima is None else self.minima[place]
        return Grouped(self.format, self.codes[place], self.scales[place], minima)

    def floats(self) -> np.ndarray:
        """The numbers (rows, depth) in float32."""
        codes = self.codes.reshape(len(self.codes), -1, GROUP).astype(np.float32)
        scales = self.scales.astype(np.float32)[..., None]
        if self.minima is None:
            numbers = (codes - np.float32(self.format.zero or 0)) * scales
        else:
            numbers = codes * scales + self.minima.astype(np.float32)[..., None]
        return np.asarray(numbers.reshape(self.codes.shape))


def grouped(matrix: np.ndarray, format_: Format) -> Grouped | None:
    """A matrix (rows, depth) of float32 in a format, each group rounded to the nearest numbers. None if its rows are no
    whole groups, or if it has numbers that the format has not."""
    rows, depth = matrix.shape
    if depth % GROUP or not depth:
        return None
    codes = np.empty((rows, depth), np.uint8)
    scales = np.empty((rows, depth // GROUP), np.float16)
    minima = None if format_.zero is not None else np.empty_like(scales)
    for place, piece in pieces(matrix):
        numbers = np.asarray(piece, np.float32).reshape(len(piece), -1, GROUP)
        if not np.isfinite(numbers).all():
            return None
        least = None if minima is None else numbers.min(axis=2)
        with np.errstate(over="ignore"):
            found = _scales(numbers, format_).astype(np.float16)
            scales[place] = found
            if minima is not None and least is not None:
                minima[place] = least
        if not np.isfinite(found).all() or (minima is not None and not np.isfinite(minima[place]).all()):
            return None
        step = found.astype(np.float32)[..., None]
        step = np.where(step == 0, np.float32(1), step)
        start = -(format_.zero or 0) * step if minima is None else minima[place].astype(np.float32)[..., None]
        exact = np.rint((numbers - start) / step)
        codes[place] = np.clip(exact, 0, format_.codes - 1).reshape(len(piece), depth).astype(np.uint8)
        flat = found == 0
        if flat.any():
            codes[place].reshape(len(piece), -1, GROUP)[flat] = format_.zero or 0
    return Grouped(format_, codes, scales, minima)


def _scales(numbers: np.ndarray, format_: Format) -> np.ndarray:
    """The scale of each group (rows, groups, GROUP)."""
    if format_.zero is None:
        return np.asarray((numbers.max(axis=2) - numbers.min(axis=2)) / np.float32(format_.codes - 1))
    at = np.abs(numbers).argmax(axis=2)[..., None]
    greatest = np.take_along_axis(numbers, at, 2)[..., 0]
    if format_.whole:
        return np.asarray(greatest / np.float32(-format_.zero))
    return np.asarray(np.abs(greatest) / np.float32(format_.zero - 1))


def regrouped(given: Grouped, format_: Format) -> Grouped | None:
    """A matrix in another format, each group rounded to the nearest numbers; None if it has numbers that the format has
    not. Few of its numbers are floats at a time."""
    depth = given.codes.shape[1]
    step = max(1, PIECE // (4 * depth))
    parts = []
    for start in range(0, len(given.codes), step):
        part = grouped(given.rows(slice(start, start + step)).floats(), format_)
        if part is None:
            return None
        parts.append(part)
    codes, scales, *minima = (np.concatenate(arrays) for arrays in zip(*(part.arrays for part in parts), strict=True))
    return Grouped(format_, codes, scales, minima[0] if minima else None)

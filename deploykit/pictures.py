"""Pictures as models take them: resized, cropped, rescaled and normalised, with NumPy alone.

`resized` gives the bits that Pillow gives. A result is a weighted mean of the points under a filter that is as wide as
a point of the result, if that is larger than one of the source (antialiasing). There is one pass along each row and one
along each column; both are of 8-bit integers, with weights of 22 fractional bits. Columns come first if the picture
loses more than twice as many rows as columns, as in Pillow 13; older versions always begin with the rows.

(Source: Pillow, `Image.resize`.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from deploykit.errors import UsageError

Pixels: TypeAlias = "np.ndarray"
"""A picture (height, width, channels) of 8-bit integers."""

Filter: TypeAlias = Literal["bilinear", "bicubic"]

FRACTION = 22
"""Fractional bits of a weight: 32, less 8 of a point, less 2 for weights that are negative or add up to more than 1."""


def _triangle(x: np.ndarray) -> np.ndarray:
    return np.asarray(np.maximum(1.0 - np.abs(x), 0.0))


def _cubic(x: np.ndarray, a: float = -0.5) -> np.ndarray:
    x = np.abs(x)
    near = ((a + 2.0) * x - (a + 3.0)) * x * x + 1
    far = (((x - 5) * x + 8) * x - 4) * a
    return np.where(x < 1.0, near, np.where(x < 2.0, far, 0.0))


FILTERS: Mapping[Filter, tuple[Callable[[np.ndarray], np.ndarray], float]] = {
    "bilinear": (_triangle, 1.0),
    "bicubic": (_cubic, 2.0),
}
"""Each filter as a function of the distance from its centre, and the distance where it ends."""


@dataclass(frozen=True)
class Edges:
    """A size that keeps the aspect ratio: the shorter edge becomes `shortest`, but the longer one at most `longest`."""

    shortest: int
    longest: int | None = None

    def of(self, height: int, width: int) -> tuple[int, int]:
        """The new height and width."""
        low, high = min(height, width), max(height, width)
        short: float = self.shortest
        if self.longest is not None and high / low * short > self.longest:
            short = self.longest * low / high
        new = round(short)
        long = int(short * high / low)
        if new == low:
            long = high
        return (new, long) if height <= width else (long, new)


@dataclass(frozen=True)
class Picture:
    """What is done with a picture, in this order; None leaves a step out. `size` is a height and width, or follows from
    the picture. The centre of the size `crop` is cut out. Then points are multiplied by `scale`, and `mean` and
    `deviation` of each channel make them normal. With `bgr`, the channels of the result are blue, green and red."""

    size: tuple[int, int] | Edges | None = None
    filter: Filter = "bilinear"
    crop: tuple[int, int] | None = None
    scale: float | None = None
    mean: tuple[float, ...] | None = None
    deviation: tuple[float, ...] | None = None
    bgr: bool = False

    def prepared(self, picture: object) -> np.ndarray:
        """The picture as float32 (3, height, width). Raises `UsageError` for what is no picture of 8-bit integers."""
        pixels = rgb(picture)
        if self.size is not None:
            size = self.size.of(*pixels.shape[:2]) if isinstance(self.size, Edges) else self.size
            pixels = resized(pixels, size, self.filter)
        if self.crop is not None:
            pixels = centre(pixels, self.crop)
        planes = [values[pixels[:, :, channel]] for channel, values in enumerate(self.values())]
        return np.stack(planes[::-1] if self.bgr else planes)

    def values(self) -> np.ndarray:
        """What each of the 256 points becomes in each channel: float32 (3, 256)."""
        values = np.repeat(np.arange(256, dtype=np.float64)[None], 3, axis=0)
        values = (values if self.scale is None else values * self.scale).astype(np.float32)
        if self.mean is not None and self.deviation is not None:
            mean, deviation = np.array(self.mean, np.float32), np.array(self.deviation, np.float32)
            values = (values - mean[:, None]) / deviation[:, None]
        return np.asarray(values)


def rgb(picture: object) -> Pixels:
    """The picture with three channels: grey is each of them, and what is transparent is white. Raises `UsageError` for
    what is no picture of 8-bit integers."""
    pixels = np.asarray(picture)
    pixels = pixels[:, :, None] if pixels.ndim == 2 else pixels
    if pixels.ndim != 3 or pixels.shape[2] not in (1, 3, 4) or 0 in pixels.shape:
        raise UsageError(f"a picture is (height, width, 3 or 4), and not empty; this one is {list(pixels.shape)}")
    if pixels.dtype != np.uint8:
        raise UsageError(
            f"a picture has 8-bit integers (uint8); this one has {pixels.dtype}: scale it to 0..255 and convert it"
        )
    if pixels.shape[2] == 4:
        alpha = pixels[:, :, 3:] / 255
        return np.asarray(np.round(alpha * pixels[:, :, :3] + (1 - alpha) * 255), np.uint8)
    return np.repeat(pixels, 3, axis=2) if pixels.shape[2] == 1 else pixels


def resized(pixels: Pixels, size: tuple[int, int], by: Filter) -> Pixels:
    """The picture at another height and width. Raises `UsageError` for a size without points."""
    height, width = pixels.shape[:2]
    if min(size) < 1:
        raise UsageError(f"a picture of {height}x{width} points cannot become one of {size[0]}x{size[1]}")
    lost = height - size[0]
    for axis in (0, 1) if lost > max(0, 2 * (width - size[1])) else (1, 0):
        if size[axis] != pixels.shape[axis]:
            pixels = _resampled(pixels, axis, size[axis], by)
    return pixels


def centre(pixels: Pixels, size: tuple[int, int]) -> Pixels:
    """The centre of a picture. What is missing of this size is black."""
    for axis, length in enumerate(size):
        have = pixels.shape[axis]
        if have < length:
            before = (length - have + 1) // 2
            room = [(0, 0)] * 3
            room[axis] = (before, length - have - before)
            pixels = np.pad(pixels, room)
        start = (pixels.shape[axis] - length) // 2
        pixels = pixels[start : start + length] if axis == 0 else pixels[:, start : start + length]
    return pixels


def _resampled(pixels: Pixels, axis: int, length: int, by: Filter) -> Pixels:
    """One pass: the weighted sums of the points under each filter along an axis."""
    first, weights = _weights(pixels.shape[axis], length, by)
    shape = list(pixels.shape)
    shape[axis] = length
    sums = np.full(shape, 1 << (FRACTION - 1), np.int32)
    column = [1, 1, 1]
    column[axis] = length
    for tap in range(weights.shape[1]):
        taken = np.take(pixels, np.minimum(first + tap, pixels.shape[axis] - 1), axis)
        sums += taken * weights[:, tap].reshape(column)
    return np.asarray(np.clip(sums >> FRACTION, 0, 255), np.uint8)


def _weights(source: int, length: int, by: Filter) -> tuple[np.ndarray, np.ndarray]:
    """The first point under each filter, and the weights (length, taps) of the points from there on."""
    function, support = FILTERS[by]
    scale = source / length
    wide = max(scale, 1.0)
    centres = (np.arange(length) + 0.5) * scale
    first = np.maximum(np.trunc(centres - support * wide + 0.5), 0).astype(np.int64)
    end = np.minimum(np.trunc(centres + support * wide + 0.5), source).astype(np.int64)
    points = first[:, None] + np.arange(int((end - first).max()))
    weights = np.where(points < end[:, None], function((points - centres[:, None] + 0.5) * (1.0 / wide)), 0.0)
    weights = weights / np.cumsum(weights, axis=1)[:, -1:] * (1 << FRACTION)
    return first, np.trunc(weights + np.where(weights < 0, -0.5, 0.5)).astype(np.int32)

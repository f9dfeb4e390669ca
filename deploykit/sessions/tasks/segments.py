"""Segmentation: which class each point of a picture belongs to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

ROWS_AT_ONCE = 32
"""Rows of a picture whose scores are computed together, so that large pictures take little memory."""


@dataclass(frozen=True, eq=False)
class Segments:
    """`classes` (height, width) has the number of the class of each point, `labels` the names of all classes."""

    classes: np.ndarray
    labels: tuple[str, ...]

    @property
    def shares(self) -> dict[str, float]:
        """How much of the picture belongs to each class that occurs, the largest first."""
        counts = np.bincount(self.classes.reshape(-1), minlength=len(self.labels))
        order = np.argsort(-counts, kind="stable")
        return {self.labels[index]: float(counts[index] / self.classes.size) for index in order if counts[index]}


def best_classes(scores: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """The class with the best score at each point of a picture of this size, from scores (classes, height, width) that
    are resized bilinearly, as PyTorch's `interpolate` does it."""
    height, width = size
    wide = _between(scores, 2, *_places(scores.shape[2], width))
    before, after, share = _places(scores.shape[1], height)
    found = np.empty(size, np.uint8 if len(scores) <= 256 else np.uint16)
    for start in range(0, height, ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        found[rows] = _between(wide, 1, before[rows], after[rows], share[rows]).argmax(axis=0)
    return found


def _places(source: int, length: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The two points that each new point lies between, and how far it is on the way to the second one."""
    place = np.maximum((np.arange(length, dtype=np.float32) + 0.5) * np.float32(source / length) - 0.5, 0)
    before = np.minimum(place.astype(np.int64), source - 1)
    return before, np.minimum(before + 1, source - 1), (place - before).astype(np.float32)


def _between(x: np.ndarray, axis: int, before: np.ndarray, after: np.ndarray, share: np.ndarray) -> np.ndarray:
    weight = share.reshape([-1 if index == axis else 1 for index in range(3)])
    return np.asarray(np.take(x, before, axis) * (1 - weight) + np.take(x, after, axis) * weight)

"""Boxes of objects in pictures: their formats, their overlap, and non-maximum suppression.

Boxes are arrays (boxes, 4) in one of these formats:

    corners   left, top, right, bottom
    centred   x and y of the centre, width, height
    sized     left, top, width, height
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np

from deploykit.errors import UsageError

Format: TypeAlias = Literal["corners", "centred", "sized"]


def converted(boxes: np.ndarray, given: Format, wanted: Format) -> np.ndarray:
    """Boxes in another format."""
    first, second = boxes[..., :2], boxes[..., 2:]
    match given:
        case "corners":
            start, size = first, second - first
        case "centred":
            start, size = first - second / 2, second
        case "sized":
            start, size = first, second
    match wanted:
        case "corners":
            parts = (start, second if given == "corners" else start + size)
        case "centred":
            parts = (first if given == "centred" else start + size / 2, size)
        case "sized":
            parts = (start, size)
    return np.concatenate(parts, axis=-1)


def overlaps(some: np.ndarray, others: np.ndarray) -> np.ndarray:
    """The area that two boxes share, as a part of the area that they cover together, for each pair of corners: (some,
    others). It is 0 where a box has no area."""
    first = np.maximum(some[:, None, :2], others[None, :, :2])
    last = np.minimum(some[:, None, 2:], others[None, :, 2:])
    shared = np.maximum(last - first, 0).prod(axis=2)
    together = _areas(some)[:, None] + _areas(others)[None] - shared
    return np.asarray(np.divide(shared, together, out=np.zeros_like(shared), where=together > 0))


def suppressed(boxes: np.ndarray, scores: np.ndarray, most: float, classes: np.ndarray | None = None) -> np.ndarray:
    """Non-maximum suppression: the indices of boxes (corners) that remain, the best first. A box is dropped if it
    overlaps one with a better score, that remains, by more than `most`. With `classes`, numbers, only boxes of one
    class drop each other.

    Raises `UsageError` if `most` is not in 0..1, or arrays differ in length."""
    if not 0 <= most <= 1:
        raise UsageError(f"boxes overlap by a part of 0 to 1; found {most}")
    if boxes.shape != (len(scores), 4) or (classes is not None and len(classes) != len(scores)):
        raise UsageError(f"there are {len(scores)} scores, so boxes must be [{len(scores)}, 4]: found {boxes.shape}")
    left, kept = np.argsort(-scores, kind="stable"), []
    while left.size:
        best, left = left[0], left[1:]
        kept.append(best)
        drops = overlaps(boxes[best][None], boxes[left])[0] > most
        if classes is not None:
            drops &= classes[left] == classes[best]
        left = left[~drops]
    return np.array(kept, np.int64)


def _areas(boxes: np.ndarray) -> np.ndarray:
    return np.asarray(np.maximum(boxes[:, 2:] - boxes[:, :2], 0).prod(axis=1))

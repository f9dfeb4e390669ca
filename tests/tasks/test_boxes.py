"""Boxes: formats, and non-maximum suppression as its definition says."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from deploykit.errors import UsageError
from deploykit.sessions.tasks.boxes import Format, converted, overlaps, suppressed

FORMATS: tuple[Format, ...] = ("corners", "centred", "sized")


def boxes(count: int, seed: int) -> np.ndarray:
    """Boxes whose corners are integers, so that some are equal and some have no area."""
    corners = np.random.default_rng(seed).integers(0, 9, (count, 2, 2))
    return np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=1).astype(np.float32)


def by_counting(some: np.ndarray, others: np.ndarray) -> float:
    """The overlap of two boxes, by the unit squares that they hold."""
    places = [
        {(x, y) for x in range(int(b[0]), int(b[2])) for y in range(int(b[1]), int(b[3]))} for b in (some, others)
    ]
    return len(places[0] & places[1]) / max(1, len(places[0] | places[1]))


def by_definition(corners: np.ndarray, scores: np.ndarray, most: float, classes: np.ndarray) -> list[int]:
    """Each box in turn, the best first, is kept unless it overlaps one of its class that is kept."""
    kept: list[int] = []
    for index in sorted(range(len(scores)), key=lambda index: -scores[index]):
        rivals = [other for other in kept if classes[other] == classes[index]]
        if all(by_counting(corners[index], corners[other]) <= most for other in rivals):
            kept.append(index)
    return kept


@pytest.mark.parametrize(("given", "wanted"), [*itertools.product(FORMATS, FORMATS)])
def test_formats(given: Format, wanted: Format) -> None:
    corners = boxes(20, 0)
    left, top, right, bottom = corners.T
    expected = {
        "corners": corners,
        "centred": np.stack([(left + right) / 2, (top + bottom) / 2, right - left, bottom - top], axis=1),
        "sized": np.stack([left, top, right - left, bottom - top], axis=1),
    }
    np.testing.assert_array_equal(converted(expected[given], given, wanted), expected[wanted])


def test_overlaps() -> None:
    some, others = boxes(15, 1), boxes(12, 2)
    expected = [[by_counting(a, b) for b in others] for a in some]
    np.testing.assert_allclose(overlaps(some, others), expected, rtol=1e-6)


@pytest.mark.parametrize("seed", range(30))
def test_suppression(seed: int) -> None:
    random = np.random.default_rng(seed)
    count, most = int(random.integers(0, 25)), float(random.choice([0, 0.2, 0.5, 0.8, 1]))
    corners, classes = boxes(count, seed), random.integers(0, 3, count)
    scores = random.integers(0, 12, count) / 8
    assert suppressed(corners, scores, most, classes).tolist() == by_definition(corners, scores, most, classes)
    alone = by_definition(corners, scores, most, np.zeros(count))
    assert suppressed(corners, scores, most).tolist() == alone


def test_calls_that_make_no_sense() -> None:
    with pytest.raises(UsageError, match="a part of 0 to 1; found 50"):
        suppressed(boxes(2, 0), np.ones(2), 50)
    with pytest.raises(UsageError, match=r"there are 3 scores, so boxes must be \[3, 4\]"):
        suppressed(boxes(2, 0), np.ones(3), 0.5)

"""The cases of `tests.zoo.estimators`, and the data sets that they are fitted to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

ROWS, COLUMNS = 48, 4
GIVEN = 6
"""The number of rows that are stored as inputs. They are not among the rows that a case is fitted to."""

WORDS = ("cat", "dog", "Käfer")
COLORS, SIZES = ("red", "green", "blue", "grün"), ("S", "M", "XL")
SENTENCES = (
    "a good movie with a good end",
    "a bad film",
    "the movie was great, the end was not",
    "not good, not bad",
    "great film! great end!",
    "über alles: a film",
)

Maker: TypeAlias = Callable[[], Any]


@dataclass(frozen=True)
class Case:
    """An estimator, the data that it is fitted to, and its target. The option `options` of the converter."""

    make: Maker
    data: str = "numbers"
    target: str | None = None
    options: Mapping[str, Any] | None = None
    opset: int = 22
    """By default the newest one that the converter knows."""


def table(name: str, rows: int, seed: int) -> dict[str, np.ndarray]:
    """The columns of a data set by the name of an input; there is one input unless the columns differ in type."""
    rng = np.random.default_rng(seed)
    numbers = rng.standard_normal((rows, COLUMNS)).astype(np.float32)
    colors, sizes = (rng.choice(words, (rows, 1)).astype(object) for words in (COLORS, SIZES))
    made: dict[str, Callable[[], dict[str, np.ndarray]]] = {
        "numbers": lambda: {"x": numbers},
        "doubles": lambda: {"x": numbers.astype(np.float64)},
        "positive": lambda: {"x": np.abs(numbers)},
        "counts": lambda: {"x": rng.integers(0, 5, (rows, COLUMNS)).astype(np.float32)},
        "integers": lambda: {"x": rng.integers(0, 4, (rows, 2))},
        "distances": lambda: {"x": numbers @ np.random.default_rng(0).random((COLUMNS, ROWS), np.float32)},
        "gaps": lambda: {"x": np.where(rng.random(numbers.shape) < 0.2, np.float32(np.nan), numbers)},
        "words": lambda: {"x": np.concatenate([colors, sizes], axis=1)},
        "labels": lambda: {"x": rng.integers(0, 4, rows)},
        "label": lambda: {"x": colors[:, 0]},
        "texts": lambda: {"x": np.resize(np.array(SENTENCES, object), (rows, 1))},
        "columns": lambda: {"age": numbers[:, :1] * 9 + 40, "income": numbers[:, 1:2], "color": colors, "size": sizes},
    }
    return made[name]()


def target(name: str, data: Mapping[str, np.ndarray]) -> np.ndarray:
    """What is learned of each row: it depends on the first numbers, or on the lengths of strings."""
    first = next(iter(data.values()))
    if first.dtype == object:
        score = np.vectorize(len)(first)[:, 0] + 0.0
    else:
        numbers = np.nan_to_num(first)
        score = numbers[:, 0] + (numbers[:, -1] - 0.5) ** 2
    order = np.argsort(np.argsort(score + np.linspace(0, 1e-3, len(score))))
    match name:
        case "values":
            return score / np.abs(score).max()
        case "pairs":
            return np.stack([score, first[:, 1]], axis=1)
        case "amounts":
            return np.abs(score) + 0.1
        case "columns of classes":
            return np.stack([order * 3 // len(order), order % 3], axis=1)
        case "several labels":
            return np.stack([order * 2 // len(order), order % 2], axis=1)
        case "two":
            return order * 2 // len(order)
        case "three":
            return order * 3 // len(order)
        case "two words":
            return np.array(WORDS)[order * 2 // len(order)]
        case "three words":
            return np.array(WORDS)[order * 3 // len(order)]
    raise ValueError(name)

"""Classes of texts, pictures and sound, and how their scores follow from the numbers of a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Label:
    """A class. `score` is its probability, or the number itself where the model gives one number."""

    name: str
    score: float


def labelled(logits: np.ndarray, names: Sequence[str], way: str) -> list[Label]:
    """All classes of one thing, the most probable one first. `way` is one of `deploykit.artifact.tasks.Scores`."""
    scores = scored(logits, way)
    return [Label(names[index], float(scores[index])) for index in np.argsort(-scores, kind="stable")]


def scored(logits: np.ndarray, way: str) -> np.ndarray:
    """The scores of classes."""
    if way == "softmax":
        return softmax(logits)
    return np.asarray(1 / (1 + np.exp(-logits))) if way == "sigmoid" else logits


def softmax(x: np.ndarray) -> np.ndarray:
    """The softmax along the last axis."""
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))

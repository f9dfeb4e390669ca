"""Pictures in, answers out: what a session does for a model whose artifact says how pictures are prepared.

Pictures run one after another, each in its own size, so that none is padded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from deploykit.sessions.tasks.boxes import converted, suppressed
from deploykit.sessions.tasks.kinds import Run, require
from deploykit.sessions.tasks.labels import Label, labelled, softmax
from deploykit.sessions.tasks.picture_sources import pixels_of
from deploykit.sessions.tasks.segments import Segments, best_classes

if TYPE_CHECKING:
    from deploykit.artifact.manifest import PortEntry
    from deploykit.artifact.tasks import PictureEntry

Size: TypeAlias = tuple[int, int]
"""A height and a width."""


@dataclass(frozen=True)
class Detection:
    """An object in a picture. Its box is in pixels of the picture, and may reach beyond its edges."""

    label: str
    score: float
    left: float
    top: float
    right: float
    bottom: float


class Pictures:
    """What a session does with pictures. `run` runs the model."""

    def __init__(self, outputs: Sequence[PortEntry], task: PictureEntry, run: Run) -> None:
        self.task, self.run = task, run
        self._shapes = {port.name: port.shape for port in outputs}

    def embed(self, pictures: Sequence[object]) -> np.ndarray:
        """A vector for each picture, (pictures, width)."""
        require(self.task, "embed")
        (output,) = self.task.outputs
        width = prod(extent for extent in self._shapes[output][1:] if isinstance(extent, int))
        found = [results[output].reshape(width) for _, results in self._runs(pictures)]
        return np.stack(found) if found else np.zeros((0, width), np.float32)

    def classify(self, pictures: Sequence[object]) -> list[list[Label]]:
        """The classes of each picture, the most probable one first."""
        require(self.task, "classify")
        (output,), task = self.task.outputs, self.task
        return [labelled(results[output][0], task.labels, task.scores) for _, results in self._runs(pictures)]

    def detect(
        self, pictures: Sequence[object], least: float = 0.5, overlap: float | None = None
    ) -> list[list[Detection]]:
        """The objects in each picture with a score above `least`, the most probable one first. With `overlap`, an
        object is dropped if its box overlaps that of a more probable one of its class by more than this part."""
        require(self.task, "detect")
        logits, places = self.task.outputs
        return [
            self._detections(results[logits][0], results[places][0], size, least, overlap)
            for size, results in self._runs(pictures)
        ]

    def segment(self, pictures: Sequence[object]) -> list[Segments]:
        """The class of each point of each picture."""
        require(self.task, "segment")
        (output,) = self.task.outputs
        return [
            Segments(best_classes(results[output][0], size), self.task.labels) for size, results in self._runs(pictures)
        ]

    def _detections(
        self, logits: np.ndarray, places: np.ndarray, size: Size, least: float, overlap: float | None
    ) -> list[Detection]:
        """The last class is "no object"; places are centres and sizes, as parts of the picture."""
        scores = softmax(logits)[:, :-1]
        classes, best = scores.argmax(axis=1), scores.max(axis=1)
        height, width = size
        boxes = converted(places, "centred", "corners") * np.array([width, height, width, height], np.float32)
        order = np.argsort(-best, kind="stable") if overlap is None else suppressed(boxes, best, overlap, classes)
        return [
            Detection(self.task.labels[classes[index]], float(best[index]), *map(float, boxes[index]))
            for index in order
            if best[index] > least
        ]

    def _runs(self, pictures: Sequence[object]) -> Iterator[tuple[Size, Mapping[str, Any]]]:
        """The size of each picture and the results for it."""
        for picture in pictures:
            pixels = pixels_of(picture)
            height, width = pixels.shape[:2]
            yield (height, width), self.run({self.task.pixels: self.task.picture.prepared(pixels)[None]})

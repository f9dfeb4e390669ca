"""Pictures in, answers out: what a session does for a model whose artifact says how pictures are prepared.

Pictures run one after another, each in its own size, so that none is padded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from deploykit.errors import UsageError
from deploykit.labels import Label, labelled
from deploykit.picture_sources import pixels_of

if TYPE_CHECKING:
    from deploykit.artifact.manifest import Manifest
    from deploykit.artifact.tasks import PictureEntry

Run: TypeAlias = Callable[[Mapping[str, Any]], Mapping[str, Any]]

Size: TypeAlias = tuple[int, int]
"""A height and a width."""


class Pictures:
    """What a session does with pictures. `run` runs the model."""

    def __init__(self, manifest: Manifest, task: PictureEntry, run: Run) -> None:
        self.task, self.run = task, run
        self._shapes = {port.name: port.shape for port in manifest.outputs}

    def embed(self, pictures: Sequence[object]) -> np.ndarray:
        """A vector for each picture, (pictures, width)."""
        self._require("embed")
        (output,) = self.task.outputs
        width = prod(extent for extent in self._shapes[output][1:] if isinstance(extent, int))
        found = [results[output].reshape(width) for _, results in self._runs(pictures)]
        return np.stack(found) if found else np.zeros((0, width), np.float32)

    def classify(self, pictures: Sequence[object]) -> list[list[Label]]:
        """The classes of each picture, the most probable one first."""
        self._require("classify")
        (output,), task = self.task.outputs, self.task
        return [labelled(results[output][0], task.labels, task.scores) for _, results in self._runs(pictures)]

    def _require(self, kind: str) -> None:
        if self.task.kind != kind:
            raise UsageError(f"this model does not {kind}: its session has the method '{self.task.kind}'")

    def _runs(self, pictures: Sequence[object]) -> Iterator[tuple[Size, Mapping[str, Any]]]:
        """The size of each picture and the results for it."""
        for picture in pictures:
            pixels = pixels_of(picture)
            height, width = pixels.shape[:2]
            yield (height, width), self.run({self.task.pixels: self.task.picture.prepared(pixels)[None]})

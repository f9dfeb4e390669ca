"""Pictures and texts in, how well they fit out: what a session does for models such as CLIP and SigLIP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from deploykit.errors import UsageError
from deploykit.sessions.tasks.kinds import Run
from deploykit.sessions.tasks.labels import Label, labelled
from deploykit.sessions.tasks.picture_sources import pixels_of
from deploykit.sessions.tasks.texts import padded

if TYPE_CHECKING:
    from deploykit.artifact.tasks import PairEntry
    from deploykit.text import Tokenizer


class Pairs:
    """What a session does with pictures and texts. `run` runs the model."""

    def __init__(self, task: PairEntry, tokenizer: Tokenizer, run: Run) -> None:
        self.task, self.tokenizer, self.run = task, tokenizer, run

    def match(self, pictures: Sequence[object], texts: Sequence[str]) -> list[list[Label]]:
        """For each picture the texts with their scores, the best first."""
        if isinstance(texts, str) or not texts:
            raise UsageError("give a list of texts that may fit the picture")
        inputs, task = self._tokens(texts), self.task
        (output,) = task.outputs
        found = []
        for picture in pictures:
            pixels = task.picture.prepared(pixels_of(picture))[None]
            found.append(labelled(self.run({task.pixels: pixels, **inputs})[output][0], texts, task.scores))
        return found

    def _tokens(self, texts: Sequence[str]) -> dict[str, Any]:
        """The inputs for texts, padded to the longest one, or to the most tokens if padding counts."""
        task = self.task
        rows = [self.tokenizer.encode(text, most=task.most_tokens or 0).ids for text in texts]
        length = None if task.padding is None else task.most_tokens
        found = {task.ids: padded(rows, length, task.padding or 0)}
        if task.mask is not None:
            found[task.mask] = padded([np.ones(len(row), np.int64) for row in rows], length)
        return found

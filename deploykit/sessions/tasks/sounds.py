"""Sound in, answers out: what a session does for a model whose artifact says how sound is prepared.

Sounds run one after another, each in its own length. A transcript is the most probable letter at each time, where equal
neighbours are one, without blanks. (Source: Graves et al., "Connectionist Temporal Classification", 2006.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from deploykit.sessions.tasks.kinds import Run, require
from deploykit.sessions.tasks.labels import Label, labelled
from deploykit.sessions.tasks.sound_sources import samples_of

if TYPE_CHECKING:
    from deploykit.artifact.tasks import SoundEntry

LEAST_VARIANCE = 1e-7
"""What is added to the variance, so that silence stays silence."""


class Sounds:
    """What a session does with sound. `run` runs the model."""

    def __init__(self, task: SoundEntry, run: Run) -> None:
        self.task, self.run = task, run

    def transcribe(self, sounds: Sequence[object], rate: int | None = None) -> list[str]:
        """What is said in each sound. `rate` is that of all arrays, in samples per second."""
        return [self._text(logits) for logits in self._runs("transcribe", sounds, rate)]

    def classify(self, sounds: Sequence[object], rate: int | None = None) -> list[list[Label]]:
        """The classes of each sound, the most probable one first."""
        task = self.task
        return [labelled(logits, task.labels, task.scores) for logits in self._runs("classify", sounds, rate)]

    def _runs(self, kind: str, sounds: Sequence[object], rate: int | None) -> Iterator[np.ndarray]:
        """The results for each sound."""
        require(self.task, kind)
        (output,) = self.task.outputs
        for sound in sounds:
            samples = samples_of(sound, rate, self.task.rate)
            if self.task.normal:
                samples = (samples - samples.mean()) / np.sqrt(samples.var() + LEAST_VARIANCE)
            yield self.run({self.task.samples: samples[None].astype(np.float32)})[output][0]

    def _text(self, logits: np.ndarray) -> str:
        """The transcript, from the scores of letters (times, letters)."""
        letters = (self.task.letters[number] for number in logits.argmax(axis=1))
        text = "".join(letter for letter, _ in groupby(letters) if letter != self.task.blank)
        text = text.strip()
        return text.lower() if self.task.lower else text

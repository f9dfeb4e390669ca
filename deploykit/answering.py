"""What a session says in the user's terms: the methods for models of texts, pictures and sound from Hugging Face
folders.

Each takes one thing or a list of them; one thing alone gives one result instead of a list. Each raises `UsageError` if
the model is not for that. A picture is an array of 8-bit integers (height, width, 3), a picture of Pillow, or the path
of a file. A sound is an array of samples (samples,) or (channels, samples), or the path of a wave file.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from deploykit.errors import UsageError
from deploykit.hearing import Sounds
from deploykit.texts import Span, Texts
from deploykit.vision import Pictures

if TYPE_CHECKING:
    from deploykit.artifact.manifest import Manifest


class Answering(ABC):
    """The methods, for a class that runs the model."""

    manifest: Manifest
    folder: Path

    @abstractmethod
    def run(self, inputs: Mapping[str, Any], /) -> dict[str, Any]: ...

    def embed(self, given: Any) -> np.ndarray:
        """A vector (width,) for a text or a picture, or (number, width) for several. Long texts are cut off."""
        found = self._texts_or_pictures.embed(given if _several(given) else [given])
        return found if _several(given) else np.asarray(found[0])

    def classify(self, given: Any, rate: int | None = None) -> Any:
        """The classes of a text, a picture or a sound, a list of `Label`, the most probable one first; for several, a
        list of lists. A sound that is no file needs its `rate`, in samples per second."""
        several = given if _several(given) else [given]
        if self.manifest.task is not None and self.manifest.task.takes == "sound":
            found = self.sounds.classify(several, rate)
        else:
            found = self._texts_or_pictures.classify(several)
        return found if _several(given) else found[0]

    def transcribe(self, given: Any, rate: int | None = None) -> Any:
        """What is said in a sound, as text; for several, a list of texts. A sound that is no file needs its `rate`, in
        samples per second."""
        found = self.sounds.transcribe(given if _several(given) else [given], rate)
        return found if _several(given) else found[0]

    def detect(self, pictures: Any, least: float = 0.5, overlap: float | None = None) -> Any:
        """The objects in a picture with a score above `least`, a list of `Detection`, the most probable one first; for
        several pictures, a list of lists. With `overlap`, an object is dropped if its box overlaps that of a more
        probable one of its class by more than this part (non-maximum suppression)."""
        found = self.pictures.detect(pictures if _several(pictures) else [pictures], least, overlap)
        return found if _several(pictures) else found[0]

    def segment(self, pictures: Any) -> Any:
        """The class of each point of a picture, as `Segments`; for several pictures, a list of them."""
        found = self.pictures.segment(pictures if _several(pictures) else [pictures])
        return found if _several(pictures) else found[0]

    def tokens(self, texts: str | Sequence[str]) -> Any:
        """The class of each token of a text, a list of `Span`; for several texts, a list of lists."""
        found = self.texts.tokens([texts] if isinstance(texts, str) else texts)
        return found[0] if isinstance(texts, str) else found

    def answer(self, question: str, context: str) -> Span:
        """The part of `context` that answers `question`. A long context is cut off."""
        return self.texts.answer(question, context)

    @property
    def _texts_or_pictures(self) -> Texts | Pictures:
        task = self.manifest.task
        return self.texts if task is None or task.takes == "texts" else self.pictures

    @cached_property
    def texts(self) -> Texts:
        """What the model does with texts. Raises `UsageError` if it has no tokenizer."""
        task = self.manifest.task
        if task is None or task.takes != "texts":
            raise self._no("texts", "with a tokenizer")
        from deploykit.text import Tokenizer

        (file,) = task.files
        return Texts(self.manifest, task, Tokenizer((self.folder / file).read_bytes()), self.run)

    @cached_property
    def pictures(self) -> Pictures:
        """What the model does with pictures. Raises `UsageError` if it does not say how pictures are prepared."""
        task = self.manifest.task
        if task is None or task.takes != "pictures":
            raise self._no("pictures", "with preprocessor_config.json")
        return Pictures(self.manifest.outputs, task, self.run)

    @cached_property
    def sounds(self) -> Sounds:
        """What the model does with sound. Raises `UsageError` if it does not say how sound is prepared."""
        task = self.manifest.task
        if task is None or task.takes != "sound":
            raise self._no("sound", "with preprocessor_config.json")
        return Sounds(task, self.run)

    def _no(self, things: str, folder: str) -> UsageError:
        name, task = self.manifest.name, self.manifest.task
        if task is not None:
            return UsageError(f"'{name}' takes {task.takes}, not {things}: its session has the method '{task.kind}'")
        return UsageError(f"'{name}' takes tensors: it was not built from a folder {folder}")


def _several(given: object) -> bool:
    return isinstance(given, Sequence) and not isinstance(given, str)

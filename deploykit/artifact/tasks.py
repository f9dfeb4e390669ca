"""What a model is for, in the user's terms: the entry `task` of a manifest.

`takes` says what goes in, and `kind` is the method of a session that gives the answer.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from deploykit.artifact.entries import Entry
from deploykit.pictures import Picture

TENSORS_ONLY = "the model takes tensors only: "
"""How the note of a model from a folder begins that has no task; then follows why."""

Scores: TypeAlias = Literal["softmax", "sigmoid", "as_is"]

TextKind: TypeAlias = Literal["embed", "classify", "tokens", "answer"]
PictureKind: TypeAlias = Literal["embed", "classify", "detect", "segment"]
SoundKind: TypeAlias = Literal["transcribe", "classify"]


class _Task(Entry):
    """`outputs` are the tensors that hold the answer, `labels` the names of classes by their numbers, and `scores` says
    how a class gets its score from an output. `files` are the names of the files of the artifact that are needed."""

    outputs: tuple[str, ...]
    labels: tuple[str, ...] = ()
    scores: Scores = "softmax"
    files: tuple[str, ...] = ()


class TextEntry(_Task):
    """A model of texts. `ids` and `types` are its inputs of tokens and of their types. A text has at most `most_tokens`
    tokens, and a longer one is cut off; None if there is no limit. With `alone`, each text is a run of its own, because
    padding would change its results."""

    takes: Literal["texts"] = "texts"
    kind: TextKind
    ids: str
    types: str | None
    most_tokens: int | None = None
    alone: bool = False


class PictureEntry(_Task):
    """A model of pictures. `pixels` is its input, which `picture` prepares."""

    takes: Literal["pictures"] = "pictures"
    kind: PictureKind
    pixels: str
    picture: Picture


class SoundEntry(_Task):
    """A model of sound. `samples` is its input, one channel at `rate` samples per second; if `normal`, their mean is
    made 0 and their variance 1. A transcript consists of `letters`, by their numbers: equal neighbours are joined, then
    those that are `blank` dropped; it is in lower case if `lower`."""

    takes: Literal["sound"] = "sound"
    kind: SoundKind
    samples: str
    rate: int
    normal: bool
    letters: tuple[str, ...] = ()
    blank: str = ""
    lower: bool = False


TaskEntry: TypeAlias = Annotated[TextEntry | PictureEntry | SoundEntry, Field(discriminator="takes")]

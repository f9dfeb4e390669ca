"""What a model is for, in the user's terms: the entry `task` of a manifest.

`takes` says what goes in, and `kind` is the method of a session that gives the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from deploykit.artifact.entries import Entry
from deploykit.pictures import Picture

TENSORS_ONLY = "the model takes tensors only: "
"""How the note of a model from a folder begins that has no task; then follows why."""

STEP = ("tokens", "positions", "sequences", "pages", "rows")
"""The inputs of a language model's step (`frontends.stepping`)."""

Scores: TypeAlias = Literal["softmax", "sigmoid", "as_is"]

TextKind: TypeAlias = Literal["embed", "classify", "tokens", "answer", "fill"]
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
    padding would change its results. `mask` stands in a text for a token that the model finds, and has the number
    `mask_id`."""

    takes: Literal["texts"] = "texts"
    kind: TextKind
    ids: str
    types: str | None
    most_tokens: int | None = None
    alone: bool = False
    mask: str = ""
    mask_id: int = -1


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


class PairEntry(_Task):
    """A model that says how well pictures and texts fit. `pixels` is its input of pictures, which `picture` prepares;
    `ids` and `mask` are those of tokens. A text has at most `most_tokens` tokens. With `padding`, the number of a
    token, every text is padded to so many; without it, only as far as texts differ in length."""

    takes: Literal["pairs"] = "pairs"
    kind: Literal["match"]
    pixels: str
    picture: Picture
    ids: str
    mask: str | None = None
    most_tokens: int | None = None
    padding: int | None = None


class LanguageEntry(_Task):
    """A model that continues texts. A sequence has at most `context` tokens; their keys and values are in pages of
    `page` tokens. What is more than `window` tokens back is not read again; None: all is. With `whole`, a page
    also has a state that goes on from token to token: a sequence is cut where a page ends. There are `words` tokens,
    and one of `stops` ends an answer. Conversations become texts by `template`, in the language Jinja, which knows the
    `special` tokens by their names; without one, there is none. `program` is what it became for runtimes without that
    language, in base64; empty if it has no program. `lacks` is what the template says that the program refuses.
    `build` tells what a model remembers from what other models do: a checksum of its graph and weights, which is the
    same for any target."""

    takes: Literal["messages"] = "messages"
    kind: Literal["generate"] = "generate"
    context: int
    page: int
    words: int
    window: int | None = None
    whole: bool = False
    stops: tuple[int, ...] = ()
    template: str = ""
    special: Mapping[str, str] = {}
    program: str = ""
    lacks: tuple[str, ...] = ()
    build: str = ""


TaskEntry: TypeAlias = Annotated[
    TextEntry | PictureEntry | SoundEntry | PairEntry | LanguageEntry, Field(discriminator="takes")
]

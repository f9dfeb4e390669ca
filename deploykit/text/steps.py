"""The steps of a tokenizer from characters to pieces, as the runtime carries them out (`runtime/text/tables.h`).

Adjacent mappings become one, as none of them looks at more than a character.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from deploykit.text.characters import Runes, Set
from deploykit.text.regex import Pattern

SELF = 0xFFFFFFFF
"""Stands for the character itself in the result of a mapping."""

BEHAVIORS = ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous")
"""What becomes of the matches of a split, by the numbers of the runtime."""


@dataclass(frozen=True)
class Map:
    """Each character becomes the characters that `results` says, or stays."""

    results: Mapping[int, Runes]


@dataclass(frozen=True)
class Compose:
    """A normal form: decomposition by the mapping of this name, then composition if `compose`."""

    decompositions: str
    compose: bool


@dataclass(frozen=True)
class Split:
    """Pieces are split at matches. With `invert`, what lies between matches counts as a match."""

    pattern: Pattern
    behavior: str
    invert: bool = False


@dataclass(frozen=True)
class Replace:
    """Each match becomes `content`."""

    pattern: Pattern
    content: Runes


@dataclass(frozen=True)
class Prepend:
    """`content` is put in front of each piece that does not begin with `unless`; with `at_start`, only of one at the
    start of the text."""

    content: Runes
    unless: int | None = None
    at_start: bool = False


@dataclass(frozen=True)
class Strip:
    """White characters at the ends of pieces are left out."""

    left: bool
    right: bool


@dataclass(frozen=True)
class Added:
    """A token that is found in the text before the model sees it. `text` is what is searched for."""

    id: int
    text: str
    single_word: bool = False
    left: bool = False
    right: bool = False


@dataclass(frozen=True)
class Tokens:
    """Added tokens become tokens."""

    added: tuple[Added, ...]


@dataclass(frozen=True)
class Charsmap:
    """SentencePiece's mapping: each cluster of characters becomes what the shortest entry that it begins with says."""

    entries: Mapping[bytes, str]
    clusters: Pattern
    alone: Set
    """Characters that are no cluster with each other, and have no entry."""


@dataclass(frozen=True)
class Bytes:
    """Each byte becomes the character that stands for it (`bytelevel.py`)."""


Step = Bytes | Charsmap | Map | Compose | Split | Replace | Prepend | Strip | Tokens


def chained(first: Map, second: Map) -> Map:
    """The mapping that is `first` and then `second`."""

    def after(point: int) -> Runes:
        return second.results.get(point, (point,))

    results = {point: tuple(r for p in result for r in after(p)) for point, result in first.results.items()}
    return Map({**{p: r for p, r in second.results.items() if p not in first.results}, **results})


def joined(steps: Iterable[Step]) -> list[Step]:
    """The steps with adjacent mappings as one."""
    found: list[Step] = []
    for step in steps:
        if found and isinstance(step, Map) and isinstance(found[-1], Map):
            found[-1] = chained(found[-1], step)
        else:
            found.append(step)
    return found


def runes_of(text: str) -> Runes:
    return tuple(map(ord, text))


def removal(points: Set) -> Map:
    return Map({int(point): () for point in points.nonzero()[0]})

"""The models of `tokenizer.json`: vocabularies, and how they cover a piece."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from deploykit.text.reading import Part, refuse
from deploykit.text.tries import EMPTY, Trie, Words

WORDPIECE, BPE, UNIGRAM = range(3)
BYTES, FALLBACK, FUSE, WHOLE = 1, 2, 4, 8
"""Bits of the options of a model, as the runtime numbers them (`runtime/text/tables.h`)."""

MOST_TOKENS = 1 << 24


@dataclass(frozen=True)
class Model:
    kind: int
    vocabulary: Mapping[str, int]
    unknown: int = EMPTY
    prefix: str = ""
    """What tokens that continue a word begin with."""
    most_chars: int = 0
    options: int = 0
    bytes: Words = field(default_factory=lambda: np.full(256, EMPTY, np.uint32))

    def fill(self, trie: Trie) -> None:
        """Put the vocabulary into a trie, under the root `model`."""
        trie.add("model", ((token.encode(), number) for token, number in self.vocabulary.items()))
        trie.add("model", [(self.prefix.encode(), -1)])


def model_of(part: Part) -> Model:
    """The model. Raises `UnsupportedModelError` for one that is not supported, or whose vocabulary is damaged."""
    read = _READERS.get(part.get("type", str, "BPE" if "merges" in part.fields else "WordPiece"))
    if read is None:
        part.unknown()
    model = read(part)
    part.end()
    return model


def vocabulary_of(part: Part) -> dict[str, int]:
    found: dict[str, int] = part.get("vocab", dict)
    ids = set()
    for token, number in found.items():
        if not isinstance(number, int) or not 0 <= number < MOST_TOKENS:
            refuse(part.where, f"the token {token!r:.40} has the id {number!r:.20}")
        ids.add(number)
    if len(ids) != len(found):
        refuse(part.where, "two tokens have the same id")
    if not found:
        refuse(part.where, "the vocabulary is empty")
    return found


def _wordpiece(part: Part) -> Model:
    vocabulary = vocabulary_of(part)
    unknown = part.get("unk_token", str, "[UNK]")
    if unknown not in vocabulary:
        refuse(part.where, f"the unknown token '{unknown}' is not in the vocabulary")
    prefix = part.get("continuing_subword_prefix", str, "##")
    most_chars = part.get("max_input_chars_per_word", int, 100)
    return Model(WORDPIECE, vocabulary, vocabulary[unknown], prefix, most_chars)


_READERS: Mapping[str, Callable[[Part], Model]] = {"WordPiece": _wordpiece}

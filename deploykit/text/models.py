"""The models of `tokenizer.json`: vocabularies, and how they cover a piece."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from deploykit.text.bytelevel import alphabet, bytes_of
from deploykit.text.merging import merges_of, reached
from deploykit.text.reading import MOST_TOKENS, Part, is_id, refuse
from deploykit.text.tries import EMPTY, Trie, Words

WORDPIECE, BPE, UNIGRAM = range(3)
BYTES, FALLBACK, FUSE, WHOLE = 1, 2, 4, 8
"""Bits of the options of a model, as the runtime numbers them (`runtime/text/tables.h`)."""

_UNKNOWN_PENALTY = 10.0
"""How far the score of an unknown character is below the least score (SentencePiece)."""


@dataclass(frozen=True)
class Model:
    kind: int
    vocabulary: Mapping[str, int]
    unknown: int = EMPTY
    prefix: str = ""
    """What tokens that continue a word begin with."""
    suffix: str = ""
    """What the token that ends a word ends with."""
    most_chars: int = 0
    options: int = 0
    single_bytes: Words = field(default_factory=lambda: np.full(256, EMPTY, np.uint32))
    """The tokens of single bytes."""
    merges: Mapping[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    """The rank and the result of pairs of tokens."""
    scores: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))

    @property
    def on_single_bytes(self) -> bool:
        """Whether there may be a token for each byte."""
        return self.options & (BYTES | FALLBACK) != 0

    def keys(self) -> Iterator[tuple[bytes, int]]:
        """What the runtime reads for each token. A token that no text leads to is left out."""
        for token, number in self.vocabulary.items():
            key = bytes_of(token) if self.options & BYTES else token.encode("utf-8", "surrogatepass")
            if key:
                yield key, number

    def fill(self, trie: Trie) -> None:
        """Put the vocabulary into a trie, under the root `model`."""
        trie.add("model", self.keys())
        trie.add("model", [(self.prefix.encode(), -1)])

    def on_bytes(self) -> Model:
        """The same model for bytes that are not written in the alphabet of bytes."""
        single = [self.vocabulary.get(chr(char), EMPTY) for char in alphabet()]
        return replace(self, options=self.options | BYTES, single_bytes=np.array(single, np.uint32))

    def merged(self) -> set[int]:
        """The tokens that merging the text of a token leads to."""
        if self.kind != BPE:
            return set()
        found = set()
        for token, number in self.vocabulary.items():
            text = token[: len(token) - len(self.suffix)]
            if not text or token != text + self.suffix:
                continue
            symbols = [self.vocabulary.get(char, -1) for char in text]
            if self.suffix:
                symbols[-1] = self.vocabulary.get(text[-1] + self.suffix, -1)
            if -1 not in symbols and reached(symbols, number, self.merges):
                found.add(number)
        return found


def model_of(part: Part) -> Model:
    """The model. Raises `UnsupportedModelError` for one that is not supported, or whose vocabulary is damaged."""
    if part.optional("type", str) is None:
        part = replace(part, fields={**part.fields, "type": "BPE" if "merges" in part.fields else "WordPiece"})
    return part.read_by(_READERS)


def vocabulary_of(part: Part) -> dict[str, int]:
    found: dict[str, int] = part.get("vocab", dict)
    ids = set()
    for token, number in found.items():
        if not is_id(number):
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
    if not 0 <= most_chars < MOST_TOKENS:
        refuse(part.where, f"'max_input_chars_per_word' is {most_chars}")
    return Model(WORDPIECE, vocabulary, vocabulary[unknown], prefix, most_chars=most_chars)


def _bpe(part: Part) -> Model:
    part.must_be("dropout", None, 0, 0.0)
    part.must_be("continuing_subword_prefix", None, "")
    vocabulary = vocabulary_of(part)
    options = FALLBACK * part.get("byte_fallback", bool, False) | FUSE * part.get("fuse_unk", bool, False)
    options |= WHOLE * part.get("ignore_merges", bool, False)
    suffix = part.get("end_of_word_suffix", str, "")
    if suffix and options & FALLBACK:
        refuse(part.where, "'end_of_word_suffix' together with 'byte_fallback' is not supported")
    unknown = part.get("unk_token", str, "")
    complete = all(chr(char) in vocabulary for char in alphabet())
    if unknown and unknown not in vocabulary and not complete:
        refuse(part.where, f"the unknown token '{unknown}' is not in the vocabulary")
    return Model(
        BPE,
        vocabulary,
        vocabulary.get(unknown, EMPTY),
        suffix=suffix,
        options=options,
        single_bytes=_byte_tokens(vocabulary),
        merges=merges_of(part, vocabulary),
    )


def _unigram(part: Part) -> Model:
    part.must_be("alpha", None, 0, 0.0)
    part.must_be("nbest_size", None)
    entries: list[object] = part.get("vocab", list)
    tokens: list[str] = []
    scores: list[float] = []
    for entry in entries:
        match entry:
            case [str(token), int() | float() as score]:
                tokens.append(token)
                scores.append(float(score))
            case other:
                refuse(part.where, f"the entry {other!r:.60} of the vocabulary is not a text and a score")
    unknown = part.get("unk_id", int, -1)
    if not 0 <= unknown < len(tokens):
        refuse(part.where, f"'unk_id' is {part.fields.get('unk_id')}, and the vocabulary has {len(tokens)} tokens")
    vocabulary = {token: number for number, token in enumerate(tokens)}
    return Model(
        UNIGRAM,
        vocabulary,
        unknown,
        options=FALLBACK * part.get("byte_fallback", bool, False),
        single_bytes=_byte_tokens(vocabulary),
        scores=np.array([*scores, min(scores) - _UNKNOWN_PENALTY]),
    )


def _byte_tokens(vocabulary: Mapping[str, int]) -> Words:
    return np.array([vocabulary.get(f"<0x{byte:02X}>", EMPTY) for byte in range(256)], np.uint32)


_READERS: Mapping[str, Callable[[Part], Model]] = {"WordPiece": _wordpiece, "BPE": _bpe, "Unigram": _unigram}

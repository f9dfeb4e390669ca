"""The pre-tokenizers of `tokenizer.json` as steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from deploykit.text.characters import named, only
from deploykit.text.patterns import pattern_of
from deploykit.text.reading import Part, refuse
from deploykit.text.regex import one_of, runs_of
from deploykit.text.steps import BEHAVIORS, Split, Step


def pretokenizer_steps(part: Part | None) -> list[Step]:
    """The steps of a pre-tokenizer. Raises `UnsupportedModelError` for a part that is not supported."""
    if part is None:
        return []
    read = _READERS.get(part.kind)
    if read is None:
        part.unknown()
    steps = read(part)
    part.end()
    return steps


def _sequence(part: Part) -> list[Step]:
    return [step for inner in part.parts("pretokenizers") for step in pretokenizer_steps(inner)]


def _behavior(part: Part, name: str, default: str | None = None) -> str:
    behavior = part.get(name, str, default)
    if behavior not in BEHAVIORS:
        refuse(part.where, f"the behavior '{behavior}' is not supported")
    return behavior


def _split(part: Part) -> list[Step]:
    return [Split(pattern_of(part, "pattern"), _behavior(part, "behavior"), part.get("invert", bool, False))]


def _bert(_part: Part) -> list[Step]:
    return [Split(one_of(named("white")), "Removed"), Split(one_of(named("punctuation")), "Isolated")]


def _whitespace(_part: Part) -> list[Step]:
    word = named("word")
    return [Split(runs_of(word, ~(word | named("white"))), "Removed", invert=True)]


def _digits(part: Part) -> list[Step]:
    alone = part.get("individual_digits", bool, False)
    return [Split(one_of(named("numeric")), "Isolated" if alone else "Contiguous")]


def _delimiter(part: Part) -> list[Step]:
    delimiter: str = part.get("delimiter", str)
    if len(delimiter) != 1:
        refuse(part.where, f"the delimiter '{delimiter}' is not one character")
    return [Split(one_of(only(ord(delimiter))), "Removed")]


_READERS: Mapping[str, Callable[[Part], list[Step]]] = {
    "Sequence": _sequence,
    "BertPreTokenizer": _bert,
    "Whitespace": _whitespace,
    "WhitespaceSplit": lambda _part: [Split(one_of(named("white")), "Removed")],
    "Punctuation": lambda part: [Split(one_of(named("punctuation")), _behavior(part, "behavior", "Isolated"))],
    "Digits": _digits,
    "CharDelimiterSplit": _delimiter,
    "Split": _split,
}

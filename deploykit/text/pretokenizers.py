"""The pre-tokenizers of `tokenizer.json` as steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from deploykit.text.bytelevel import GPT2
from deploykit.text.characters import named, only
from deploykit.text.patterns import pattern_of
from deploykit.text.reading import Part, refuse
from deploykit.text.regex import one_of, read_pattern, runs_of
from deploykit.text.steps import BEHAVIORS, Bytes, Map, Prepend, Split, Step


def pretokenizer_steps(part: Part | None) -> list[Step]:
    """The steps of a pre-tokenizer. Raises `UnsupportedModelError` for a part that is not supported."""
    return [] if part is None else part.read_by(_READERS)


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


def _byte_level(part: Part) -> list[Step]:
    steps: list[Step] = []
    if part.get("add_prefix_space", bool, True):
        steps.append(Prepend((ord(" "),), unless=ord(" ")))
    if part.get("use_regex", bool, True):
        steps.append(Split(read_pattern(GPT2), "Isolated"))
    part.get("trim_offsets", bool, True)
    return [*steps, Bytes()]


def _metaspace(part: Part) -> list[Step]:
    part.read.add("str_rep")
    mark = part.get("replacement", str)
    if len(mark) != 1:
        refuse(part.where, f"the replacement '{mark}' is not one character")
    scheme = part.get("prepend_scheme", str, "always")
    if part.get("add_prefix_space", bool, True) is False:
        scheme = "never"
    if scheme not in {"always", "first", "never"}:
        refuse(part.where, f"the prepend_scheme '{scheme}' is not supported")
    steps: list[Step] = [Map({ord(" "): (ord(mark),)})]
    if scheme != "never":
        steps.append(Prepend((ord(mark),), unless=ord(mark), at_start=scheme == "first"))
    if part.get("split", bool, True):
        steps.append(Split(one_of(only(ord(mark))), "MergedWithNext"))
    return steps


_READERS: Mapping[str, Callable[[Part], list[Step]]] = {
    "Sequence": _sequence,
    "ByteLevel": _byte_level,
    "Metaspace": _metaspace,
    "BertPreTokenizer": _bert,
    "Whitespace": _whitespace,
    "WhitespaceSplit": lambda _part: [Split(one_of(named("white")), "Removed")],
    "Punctuation": lambda part: [Split(one_of(named("punctuation")), _behavior(part, "behavior", "Isolated"))],
    "Digits": _digits,
    "CharDelimiterSplit": _delimiter,
    "Split": _split,
}

"""The normalizers of `tokenizer.json` as steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from deploykit.text.characters import Runes, between, mapping, named
from deploykit.text.charsmap import charsmap_of
from deploykit.text.patterns import pattern_of
from deploykit.text.reading import Part
from deploykit.text.regex import Take
from deploykit.text.steps import SELF, Bytes, Compose, Map, Prepend, Replace, Step, Strip, removal

_SPACE = ord(" ")
_FEW = 1000
"""Characters that may be replaced one by one."""
_IDEOGRAPHS = (
    *((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F)),
    *((0x2B740, 0x2B81F), (0x2B920, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)),
)


def normalizer_steps(part: Part | None) -> list[Step]:
    """The steps of a normalizer. Raises `UnsupportedModelError` for a part that is not supported."""
    return [] if part is None else part.read_by(_READERS)


def _sequence(part: Part) -> list[Step]:
    return [step for inner in part.parts("normalizers") for step in normalizer_steps(inner)]


def _clean() -> Map:
    """Control characters are left out, and white ones become spaces."""
    gone = named("control").copy()
    gone[[0, 0xFFFD]] = True
    white = {int(point): (_SPACE,) for point in (named("white") & ~gone).nonzero()[0] if point != _SPACE}
    return Map({**white, **removal(gone).results})


def _bert(part: Part) -> list[Step]:
    steps: list[Step] = []
    if part.get("clean_text", bool, True):
        steps.append(_clean())
    if part.get("handle_chinese_chars", bool, True):
        points = (int(p) for first, last in _IDEOGRAPHS for p in between(first, last).nonzero()[0])
        steps.append(Map(dict.fromkeys(points, (_SPACE, SELF, _SPACE))))
    lowercase = part.get("lowercase", bool, True)
    strip = part.optional("strip_accents", bool)
    if lowercase if strip is None else strip:
        steps += [Compose("canonical", compose=False), removal(named("nonspacing"))]
    if lowercase:
        steps.append(Map(mapping("lowercase")))
    return steps


def _replace(part: Part) -> list[Step]:
    content: Runes = tuple(map(ord, part.get("content", str)))
    pattern = pattern_of(part, "pattern")
    first = pattern.program[0]
    if len(pattern.program) == 2 and isinstance(first, Take) and first.chars.sum() < _FEW:
        return [Map({int(point): content for point in first.chars.nonzero()[0]})]
    return [Replace(pattern, content)]


def _prepend(part: Part) -> list[Step]:
    return [Prepend(tuple(map(ord, part.get("prepend", str))))]


def _strip(part: Part) -> list[Step]:
    return [Strip(part.get("strip_left", bool), part.get("strip_right", bool))]


def _nmt(_part: Part) -> list[Step]:
    gone = [*range(1, 9), 0xB, *range(0xE, 0x20), 0x7F, 0x8F, 0x9F]
    white = [9, 0xA, 0xC, 0xD, 0x1680, *range(0x200B, 0x2010), 0x2028, 0x2029, 0x2581, 0xFEFF, 0xFFFD]
    return [Map({**dict.fromkeys(gone, ()), **dict.fromkeys(white, (_SPACE,))})]


_READERS: Mapping[str, Callable[[Part], list[Step]]] = {
    "Sequence": _sequence,
    "ByteLevel": lambda _part: [Bytes()],
    "Precompiled": lambda part: [charsmap_of(part)],
    "BertNormalizer": _bert,
    "NFC": lambda _part: [Compose("canonical", compose=True)],
    "NFD": lambda _part: [Compose("canonical", compose=False)],
    "NFKC": lambda _part: [Compose("compatible", compose=True)],
    "NFKD": lambda _part: [Compose("compatible", compose=False)],
    "Lowercase": lambda _part: [Map(mapping("lowercase"))],
    "StripAccents": lambda _part: [removal(named("combining"))],
    "Strip": _strip,
    "Replace": _replace,
    "Prepend": _prepend,
    "Nmt": _nmt,
}

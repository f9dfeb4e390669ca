"""How many characters a text may have while steps change it, for each byte that it had."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from deploykit.text.characters import HANGUL, Runes, mapping
from deploykit.text.spelling import decomposed
from deploykit.text.steps import SELF, Bytes, Charsmap, Compose, Map, Prepend, Replace, Split, Step, Tokens

_REPLACEMENT = 0xFFFD


def growth(steps: Sequence[Step]) -> Fraction:
    """A bound of characters per byte. Bytes that are no UTF-8 become a character each."""
    single = [step for step in steps if isinstance(step, Map | Compose)]
    points = {_REPLACEMENT, *HANGUL[:2], *(point for step in single for point in _samples(step))}
    found = Fraction(1)
    for point in points:
        found = max(found, Fraction(_longest(point, single), 1 if point == _REPLACEMENT else len(chr(point).encode())))
    if any(isinstance(step, Compose) for step in steps):
        # Marks are sorted in free room of the same size.
        found = max(found * Fraction(3, 2), Fraction(2))
    for step in steps:
        if isinstance(step, Charsmap):
            found *= max([Fraction(1), *(Fraction(len(text), len(key)) for key, text in step.entries.items())])
        elif isinstance(step, Bytes):
            found *= 4 if len(steps) > 1 else 1
    shortest, pieces = 0, False
    for step in steps:
        if isinstance(step, Replace):
            found *= max(Fraction(1), Fraction(len(step.content), step.pattern.shortest))
        elif isinstance(step, Prepend):
            share = Fraction(1) if pieces else Fraction(1, 1 + shortest) if shortest else Fraction(0)
            found *= 1 + len(step.content) * share
        elif isinstance(step, Tokens):
            shortest = min(len(token.text.encode()) for token in step.added)
        pieces = pieces or isinstance(step, Split)
    return found


def _samples(step: Map | Compose) -> Iterable[int]:
    """Characters of which no other one grows more: those with the same result are the same, if as long in UTF-8."""
    if isinstance(step, Compose):
        return mapping(step.decompositions)
    return {(result, len(chr(point).encode())): point for point, result in step.results.items()}.values()


def _longest(point: int, steps: Sequence[Map | Compose]) -> int:
    runes: Runes = (point,)
    longest = 1
    for step in steps:
        if isinstance(step, Map):
            runes = tuple(c if r == SELF else r for c in runes for r in step.results.get(c, (c,)))
        else:
            runes = tuple(r for c in runes for r in decomposed(c, step.decompositions))
        longest = max(longest, len(runes))
    return longest

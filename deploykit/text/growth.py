"""How long a text may become while steps change it, for each byte that it had: in characters, or in bytes of UTF-8."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from deploykit.text.characters import HANGUL, Runes, mapping
from deploykit.text.spelling import decomposed
from deploykit.text.steps import SELF, Bytes, Charsmap, Compose, Map, Prepend, Replace, Split, Step, Tokens

_REPLACEMENT = 0xFFFD


def growth(steps: Sequence[Step], *, in_bytes: bool) -> Fraction:
    """A bound of characters, or bytes, per byte. A byte that is no UTF-8 becomes U+FFFD."""
    single = [step for step in steps if isinstance(step, Map | Compose)]
    points = {_REPLACEMENT, *HANGUL[:2], *(point for step in single for point in _samples(step))}
    found = Fraction(1)
    for point in points:
        before = 1 if point == _REPLACEMENT else _length((point,), in_bytes=True)
        found = max(found, Fraction(_longest(point, single, in_bytes=in_bytes), before))
    if any(isinstance(step, Compose) for step in single):
        # Marks are sorted in free room of the same size.
        found = max(found * Fraction(3, 2), Fraction(2))
    shortest, pieces = 0, False
    for step in steps:
        if isinstance(step, Prepend):
            # Without pieces there is one of them beside each added token, and the first one counts as spare.
            share = Fraction(1) if pieces else Fraction(1, 1 + shortest) if shortest else Fraction(0)
            found += sum(_longest(c, single, in_bytes=in_bytes) for c in step.content) * share
        elif isinstance(step, Tokens):
            shortest = min(len(token.text.encode()) for token in step.added)
        pieces = pieces or isinstance(step, Split)
        found *= _factor(step, in_bytes=in_bytes)
    return found


def _factor(step: Step, *, in_bytes: bool) -> Fraction:
    """How much longer a step that looks at several characters makes them."""
    if isinstance(step, Replace):
        return max(Fraction(1), Fraction(_length(step.content, in_bytes=in_bytes), step.pattern.shortest))
    if isinstance(step, Charsmap):
        lengths = ((len(text.encode()) if in_bytes else len(text), key) for key, text in step.entries.items())
        return max([Fraction(1), *(Fraction(length, len(key)) for length, key in lengths)])
    if isinstance(step, Bytes):
        return Fraction(2 if in_bytes else 4)
    return Fraction(1)


def _samples(step: Map | Compose) -> Iterable[int]:
    """Characters of which no other one grows more: those with the same result are the same, if as long in UTF-8."""
    if isinstance(step, Compose):
        return mapping(step.decompositions)
    return {(result, len(chr(point).encode())): point for point, result in step.results.items()}.values()


def _length(runes: Runes, *, in_bytes: bool) -> int:
    return len("".join(map(chr, runes)).encode("utf-8", "surrogatepass")) if in_bytes else len(runes)


def _longest(point: int, steps: Sequence[Map | Compose], *, in_bytes: bool) -> int:
    runes: Runes = (point,)
    longest = _length(runes, in_bytes=in_bytes)
    for step in steps:
        if isinstance(step, Map):
            runes = tuple(c if r == SELF else r for c in runes for r in step.results.get(c, (c,)))
        else:
            runes = tuple(r for c in runes for r in decomposed(c, step.decompositions))
        longest = max(longest, _length(runes, in_bytes=in_bytes))
    return longest

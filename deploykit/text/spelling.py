"""What steps make of a text, computed here: for the texts of added tokens, which are searched for in that form."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from deploykit.text.bytelevel import alphabet
from deploykit.text.characters import HANGUL, Runes, combining_classes, compositions, mapping, named
from deploykit.text.reading import refuse
from deploykit.text.regex import Ahead, Divide, Found, Pattern, Take
from deploykit.text.steps import SELF, Bytes, Charsmap, Compose, Map, Prepend, Replace, Step, Strip


def spelled(text: str, steps: Iterable[Step]) -> str:
    """The text after steps that do not split."""
    runes: Runes = tuple(map(ord, text))
    for step in steps:
        runes = _after(step, runes)
    return "".join(map(chr, runes))


def _after(step: Step, runes: Runes) -> Runes:
    if isinstance(step, Map):
        return tuple(c if r == SELF else r for c in runes for r in step.results.get(c, (c,)))
    if isinstance(step, Compose):
        return composed(runes, step)
    if isinstance(step, Replace):
        return _replaced(step, runes)
    if isinstance(step, Prepend):
        return (*step.content, *runes) if runes and runes[0] != step.unless else runes
    if isinstance(step, Strip):
        white = named("white")
        inner = [index for index, c in enumerate(runes) if not white[c]] or [len(runes)]
        return runes[inner[0] if step.left else 0 : inner[-1] + 1 if step.right else len(runes)]
    if isinstance(step, Bytes):
        return tuple(alphabet()[byte] for c in runes for byte in chr(c).encode())
    if isinstance(step, Charsmap):
        return _mapped(step, runes)
    raise TypeError(step)


def _mapped(step: Charsmap, runes: Runes) -> Runes:
    """For texts without clusters of several characters; others are refused."""
    found: list[int] = []
    for c in runes:
        if c >= 0x80 or c in b"\r\n":
            refuse(
                "added_tokens",
                f"the token '{''.join(map(chr, runes))}' is not in ASCII, and the normalizer maps clusters",
            )
        entry = step.entries.get(bytes([c]))
        found += [c] if entry is None else map(ord, entry)
    return tuple(found)


def decomposed(point: int, name: str) -> Runes:
    """The decomposition of a character by the mapping `name`, in canonical order."""
    if point in HANGUL:
        first, rest = divmod(point - HANGUL.start, 21 * 28)
        last = rest % 28
        return (0x1100 + first, 0x1161 + rest // 28, *((0x11A7 + last,) if last else ()))
    return mapping(name).get(point, (point,))


def composed(runes: Runes, step: Compose) -> Runes:
    """A normal form."""
    classes = combining_classes()
    parts = [c for point in runes for c in decomposed(point, step.decompositions)]
    ordered = [
        c
        for marks, run in groupby(parts, lambda c: bool(classes[c]))
        for c in (sorted(run, key=lambda c: int(classes[c])) if marks else run)
    ]
    if not step.compose:
        return tuple(ordered)
    pairs = {(a, b): c for a, b, c in compositions()}
    found: list[int] = []
    base, last = -1, 0
    for c in ordered:
        kind = int(classes[c])
        pair = _pair(found[base], c, pairs) if base >= 0 and (last == 0 or last < kind) else None
        if pair is not None:
            found[base] = pair
            continue
        if kind == 0:
            base = len(found)
        last = kind
        found.append(c)
    return tuple(found)


def _pair(a: int, b: int, pairs: dict[tuple[int, int], int]) -> int | None:
    if 0x1100 <= a < 0x1113 and 0x1161 <= b < 0x1176:
        return HANGUL.start + ((a - 0x1100) * 21 + b - 0x1161) * 28
    if a in HANGUL and (a - HANGUL.start) % 28 == 0 and 0x11A8 <= b < 0x11C3:
        return a + b - 0x11A7
    return pairs.get((a, b))


def _replaced(step: Replace, runes: Runes) -> Runes:
    found: list[int] = []
    at = 0
    while at < len(runes):
        end = _match(step.pattern, runes, at)
        found += [runes[at]] if end is None else step.content
        at = at + 1 if end is None else end
    return tuple(found)


def _match(pattern: Pattern, runes: Runes, at: int, place: int = 0) -> int | None:
    """Where the match that begins here ends, for a thread at an instruction."""
    instruction = pattern.program[place]
    if isinstance(instruction, Found):
        return at
    if isinstance(instruction, Divide):
        first = _match(pattern, runes, at, instruction.first)
        return _match(pattern, runes, at, instruction.second) if first is None else first
    if isinstance(instruction, Take):
        passes = at < len(runes) and bool(instruction.chars[runes[at]])
        return _match(pattern, runes, at + 1, place + 1) if passes else None
    assert isinstance(instruction, Ahead)
    passes = bool(instruction.chars[runes[at]]) if at < len(runes) else instruction.at_end
    return _match(pattern, runes, at, place + 1) if passes else None

r"""Compiles regular expressions in RE2's syntax to tables of a deterministic automaton over the bytes of UTF-8.

        literals, \t \n \x41 \x{1F600} \. \Q...\E      characters that match themselves
        .  [a-z]  [^a-z]  \d \w \s \D \W \S  [[:alpha:]]    classes of characters; the named ones are ASCII
        (x)  (?:x)  (?P<name>x)  x|y  x* x+ x? x{2,5}      groups, alternatives, repetitions (lazy ones match the same)
        ^  $  \A  \z  \b  \B                               the ends of the text, and of ASCII words
        (?i)  (?s)                                         only at the front: ignore case; `.` also matches a line feed

Anything else is refused by name. A state of the automaton is a set of places in the expression, and whether the byte
before it belongs to a word. States that no text tells apart are merged.
(Source: https://github.com/google/re2/wiki/Syntax.)
"""

from __future__ import annotations

import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from deploykit.compiler.operators.building.errors import Unsupported

LAST = 0x10FFFF
MOST_STATES = 10_000
"""The most states of the automaton; an expression that needs more is refused."""
MOST_REPETITIONS = 1000

AROUND = {"before": "^wn", "after": "$wn"}
"""What comes before and after a match: the end of the text, a byte of a word, or another byte."""

Ranges = tuple[tuple[int, int], ...]

_DIGITS: Ranges = ((48, 57),)
_WORD: Ranges = ((48, 57), (65, 90), (95, 95), (97, 122))
_SPACE: Ranges = ((9, 10), (12, 13), (32, 32))
_ESCAPED = {"d": _DIGITS, "w": _WORD, "s": _SPACE}
_CONTROL = {"t": 9, "n": 10, "r": 13, "f": 12, "v": 11, "a": 7}
_NAMED = {
    "alpha": string.ascii_letters,
    "digit": string.digits,
    "alnum": string.ascii_letters + string.digits,
    "upper": string.ascii_uppercase,
    "lower": string.ascii_lowercase,
    "space": " \t\n\r\f\v",
    "punct": string.punctuation,
    "xdigit": string.hexdigits,
    "word": string.ascii_letters + string.digits + "_",
}
_ASSERTIONS = {"A": "^", "z": "$", "b": "b", "B": "B"}


@dataclass(frozen=True)
class Automaton:
    """An automaton. `classes` is the class of each byte, `table` the next state for [state, class], and `ends` whether
    a match may end in a state, for [state, what comes next]. What comes next, or before, is `AROUND`. `starts` has the
    first state by what comes before; that at the begin of the text is 0."""

    classes: np.ndarray
    table: np.ndarray
    ends: np.ndarray
    starts: np.ndarray

    @property
    def accepts(self) -> np.ndarray:
        """Whether a text may end in a state."""
        return self.ends[:, 0]

    @property
    def alive(self) -> np.ndarray:
        """Whether a match may end in a state, or in a later one."""
        found: np.ndarray = np.any(self.ends, axis=1)
        while True:
            more = found | np.any(found[self.table], axis=1)
            if (more == found).all():
                return found
            found = more

    @property
    def looks_around(self) -> bool:
        """Whether it matters what comes before and after a match."""
        return bool((self.starts != self.starts[0]).any() or (self.ends != self.ends[:, :1]).any())


def compiled(pattern: str) -> Automaton:
    """The automaton of a pattern, for whole texts and for matches within a text.

    Raises `Unsupported` for an invalid expression, and for syntax that is not listed above."""
    graph = _Graph()
    parser = _Parser(pattern, graph)
    start = graph.place()
    end = parser.alternatives(start)
    if not parser.at_end:
        raise parser.refused("an unmatched ')'")
    return _determined(graph, start, end)


@dataclass
class _Graph:
    """The places of an expression and the edges between them: an edge needs nothing, an assertion, or a range of
    bytes."""

    free: list[list[int]] = field(default_factory=list)
    asserted: list[list[tuple[str, int]]] = field(default_factory=list)
    bytes: list[list[tuple[int, int, int]]] = field(default_factory=list)

    def place(self) -> int:
        for edges in (self.free, self.asserted, self.bytes):
            edges.append([])
        return len(self.free) - 1

    def characters(self, start: int, ranges: Ranges) -> int:
        """A place that is reached by any character of `ranges`."""
        end = self.place()
        for first, last in ranges:
            for sequence in _encoded(first, last):
                at = start
                for low, high in sequence[:-1]:
                    after = self.place()
                    self.bytes[at].append((low, high, after))
                    at = after
                low, high = sequence[-1]
                self.bytes[at].append((low, high, end))
        return end


class _Parser:
    """A recursive descent parser. Each method adds what it reads to the graph, from a place on, and returns the next
    place."""

    def __init__(self, text: str, graph: _Graph) -> None:
        self.text, self.graph, self.at = text, graph, 0
        self.either_case = self.dot_is_all = False
        while self.text.startswith("(?", self.at) and self.text[self.at + 2 : self.at + 3] in ("i", "s"):
            closing = self.text.index(")", self.at) if ")" in self.text[self.at :] else len(self.text)
            flags = self.text[self.at + 2 : closing]
            if not set(flags) <= {"i", "s"}:
                break
            self.either_case |= "i" in flags
            self.dot_is_all |= "s" in flags
            self.at = closing + 1

    @property
    def at_end(self) -> bool:
        return self.at >= len(self.text)

    def refused(self, what: str) -> Unsupported:
        return Unsupported(f"the regular expression {self.text!r} has {what} at character {self.at}")

    def peek(self, text: str) -> bool:
        return self.text.startswith(text, self.at)

    def take(self, text: str) -> bool:
        if not self.peek(text):
            return False
        self.at += len(text)
        return True

    def next(self) -> str:
        if self.at_end:
            raise self.refused("an end that comes too early")
        self.at += 1
        return self.text[self.at - 1]

    def alternatives(self, start: int) -> int:
        end = self.graph.place()
        while True:
            self.graph.free[self.sequence(start)].append(end)
            if not self.take("|"):
                return end

    def sequence(self, start: int) -> int:
        while not self.at_end and not self.peek("|") and not self.peek(")"):
            start = self.repeated(start)
        return start

    def repeated(self, start: int) -> int:
        first = self.at
        end = self.single(start)
        while True:
            bounds = self.bounds()
            if bounds is None:
                return end
            self.take("?")
            after, piece = self.at, self.text[first : self.at]
            if any(limit is not None and limit > MOST_REPETITIONS for limit in bounds):
                raise self.refused(f"more than {MOST_REPETITIONS} repetitions")
            end = self.copies(start, first, bounds)
            self.at = after
            if self.bounds() is not None:
                raise self.refused(f"a repetition of the repetition {piece!r}")

    def bounds(self) -> tuple[int, int | None] | None:
        for sign, found in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self.take(sign):
                return found
        closing = self.text.find("}", self.at)
        low, comma, high = self.text[self.at + 1 : closing].partition(",")
        if not self.peek("{") or closing < 0 or not low.isdigit() or not (high.isdigit() or not high):
            return None
        self.at = closing + 1
        return int(low), (int(high) if high else None) if comma else int(low)

    def copies(self, start: int, first: int, bounds: tuple[int, int | None]) -> int:
        """The piece at `first`, parsed again for each copy."""

        def copy(begin: int) -> int:
            self.at = first
            return self.single(begin)

        low, high = bounds
        begin = self.graph.place()
        self.graph.free[start].append(begin)
        for _ in range(low):
            begin = copy(begin)
        end = self.graph.place()
        if high is None:
            loop = self.graph.place()
            self.graph.free[begin].append(loop)
            self.graph.free[copy(loop)].append(loop)
            self.graph.free[loop].append(end)
            return end
        for _ in range(high - low):
            self.graph.free[begin].append(end)
            begin = copy(begin)
        self.graph.free[begin].append(end)
        return end

    def single(self, start: int) -> int:
        sign = self.next()
        if sign == "(":
            return self.group(start)
        if sign == "[":
            return self.graph.characters(start, self.cased(self.bracket()))
        if sign == ".":
            return self.graph.characters(start, ((0, LAST),) if self.dot_is_all else _without(((10, 10),)))
        if sign in "^$":
            return self.asserted(start, sign)
        if sign in "*+?":
            raise self.refused(f"{sign!r} behind nothing")
        if sign != "\\":
            return self.graph.characters(start, self.cased(((ord(sign), ord(sign)),)))
        if self.peek("Q"):
            quoted, _, rest = self.text[self.at + 1 :].partition("\\E")
            self.at = len(self.text) - len(rest)
            for character in quoted:
                start = self.graph.characters(start, self.cased(((ord(character), ord(character)),)))
            return start
        if self.text[self.at : self.at + 1] in _ASSERTIONS:
            return self.asserted(start, _ASSERTIONS[self.next()])
        return self.graph.characters(start, self.cased(self.escaped()))

    def group(self, start: int) -> int:
        if self.take("?P<") or (self.peek("?<") and not self.peek("?<=") and not self.peek("?<!") and self.take("?<")):
            while self.next() != ">":
                pass
        elif self.peek("?") and not self.take("?:"):
            raise self.refused(f"'({self.text[self.at : self.at + 3]}'")
        end = self.alternatives(start)
        if not self.take(")"):
            raise self.refused("a '(' without ')'")
        return end

    def asserted(self, start: int, what: str) -> int:
        end = self.graph.place()
        self.graph.asserted[start].append((what, end))
        return end

    def escaped(self) -> Ranges:
        """The characters that an escape stands for; the backslash has been read."""
        sign = self.next()
        if sign.lower() in _ESCAPED:
            ranges = _ESCAPED[sign.lower()]
            return _without(ranges) if sign.isupper() else ranges
        if sign in _CONTROL:
            return ((_CONTROL[sign], _CONTROL[sign]),)
        if sign == "x":
            digits = self.text[self.at : self.at + 2]
            if self.take("{"):
                digits, _, _ = self.text[self.at :].partition("}")
                self.at += 1
            self.at += len(digits)
            if not digits or not set(digits) <= set(string.hexdigits) or int(digits, 16) > LAST:
                raise self.refused(f"no character '\\x{digits}'")
            return ((int(digits, 16), int(digits, 16)),)
        if sign.isalnum():
            raise self.refused(f"'\\{sign}'")
        return ((ord(sign), ord(sign)),)

    def bracket(self) -> Ranges:
        negated = self.take("^")
        found: list[tuple[int, int]] = []
        while not found or not self.take("]"):
            if self.take("[:"):
                name, _, _ = self.text[self.at :].partition(":]")
                if name.removeprefix("^") not in _NAMED:
                    raise self.refused(f"no class '[:{name}:]'")
                self.at += len(name) + 2
                members: Ranges = tuple((ord(c), ord(c)) for c in _NAMED[name.removeprefix("^")])
                found += _without(members) if name.startswith("^") else members
                continue
            low = self.member()
            if self.peek("-") and not self.peek("-]") and len(low) == 1 and low[0][0] == low[0][1]:
                self.take("-")
                high = self.member()
                if high[0][1] < low[0][0]:
                    raise self.refused("a range that ends before it begins")
                found.append((low[0][0], high[0][1]))
            else:
                found += low
        return _without(self.cased(tuple(found))) if negated else tuple(found)

    def member(self) -> Ranges:
        sign = self.next()
        return self.escaped() if sign == "\\" else ((ord(sign), ord(sign)),)

    def cased(self, ranges: Ranges) -> Ranges:
        """`ranges` with the other case of each letter, if case is ignored."""
        if not self.either_case or ranges == ((0, LAST),):
            return ranges
        others = [
            ord(other)
            for first, last in ranges
            for c in range(first, min(last, 0x1FFFF) + 1)
            for other in {chr(c).lower(), chr(c).upper()}
            if len(other) == 1 and ord(other) != c
        ]
        return ranges + tuple((c, c) for c in others)


def _without(ranges: Ranges) -> Ranges:
    """All characters except those of `ranges`."""
    result, after = [], 0
    for first, last in sorted(ranges):
        if first > after:
            result.append((after, first - 1))
        after = max(after, last + 1)
    return (*result, *(((after, LAST),) if after <= LAST else ()))


def _encoded(first: int, last: int) -> Iterator[list[tuple[int, int]]]:
    """Sequences of byte ranges that together are the UTF-8 of the characters `first` to `last`."""
    for end in (0x7F, 0x7FF, 0xFFFF):
        if first <= end < last:
            yield from _encoded(first, end)
            yield from _encoded(end + 1, last)
            return
    low, high = (_utf8(c) for c in (first, last))
    for place in range(1, len(low)):
        mask = (1 << 6 * place) - 1
        if first & ~mask != last & ~mask:
            if first & mask:
                yield from _encoded(first, first | mask)
                yield from _encoded((first | mask) + 1, last)
                return
            if last & mask != mask:
                yield from _encoded(first, (last & ~mask) - 1)
                yield from _encoded(last & ~mask, last)
                return
    yield list(zip(low, high, strict=True))


def _utf8(character: int) -> bytes:
    return chr(character).encode("utf-8", "surrogatepass")


def _determined(graph: _Graph, start: int, end: int) -> Automaton:
    """The deterministic automaton. Its states are sets of places."""
    looks_back = any(what != "$" for edges in graph.asserted for what, _ in edges)
    classes, samples = _byte_classes(graph)
    states: dict[tuple[frozenset[int], str], int] = {}
    starts = [states.setdefault((frozenset([start]), c if looks_back else "^"), len(states)) for c in AROUND["before"]]
    rows: list[list[int]] = []
    ends: list[list[bool]] = []
    for key in _growing(states):
        places, before = key
        ends.append([end in _closure(graph, places, before, after) for after in AROUND["after"]])
        row = []
        closures = {after: _closure(graph, places, before, after) for after in "wn"}
        for byte in samples:
            after = "w" if _is_word(byte) else "n"
            found = frozenset(
                target for place in closures[after] for low, high, target in graph.bytes[place] if low <= byte <= high
            )
            state = (found, after if looks_back and found else "n")
            row.append(states.setdefault(state, len(states)))
        if len(states) > MOST_STATES:
            raise Unsupported(f"a regular expression whose automaton has more than {MOST_STATES} states")
        rows.append(row)
    return Automaton(classes, np.array(rows, np.int32), np.array(ends), np.array(starts, np.int32))


def _growing(states: dict[tuple[frozenset[int], str], int]) -> Iterator[tuple[frozenset[int], str]]:
    """The keys of a dict, including those that are added during the iteration."""
    at = 0
    while at < len(states):
        yield from list(states)[at : (at := len(states))]


def _byte_classes(graph: _Graph) -> tuple[np.ndarray, list[int]]:
    """The class of each byte, and one byte of each class. Bytes of one class are in the same ranges."""
    cuts = {0, 256}
    for edges in graph.bytes:
        for low, high, _ in edges:
            cuts |= {low, high + 1}
    for low, high in _WORD:
        cuts |= {low, high + 1}
    samples = sorted(cuts)[:-1]
    classes = np.searchsorted(samples, np.arange(256), side="right") - 1
    return classes.astype(np.uint8), samples


def _is_word(byte: int) -> bool:
    return any(low <= byte <= high for low, high in _WORD)


_HOLDS: dict[str, Callable[[str, str], bool]] = {
    "^": lambda before, _: before == "^",
    "$": lambda _, after: after == "$",
    "b": lambda before, after: (before == "w") != (after == "w"),
    "B": lambda before, after: (before == "w") == (after == "w"),
}


def _closure(graph: _Graph, places: frozenset[int], before: str, after: str) -> set[int]:
    """The places that are reached without a byte. `before` and `after` are the neighbouring bytes: `w` for a byte of a
    word, `n` for another, `^` and `$` for the ends of the text."""
    reached, agenda = set(places), list(places)
    while agenda:
        place = agenda.pop()
        held = [target for what, target in graph.asserted[place] if _HOLDS[what](before, after)]
        for target in (*graph.free[place], *held):
            if target not in reached:
                reached.add(target)
                agenda.append(target)
    return reached

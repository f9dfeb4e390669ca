r"""Regular expressions as tokenizers use them, read into a program for an automaton.

What is read: characters, escapes, `.`, classes with ranges, negation and classes within, `\p{...}`, alternatives,
groups, which may ignore case, the quantifiers `? * + {m,n}` with their lazy forms, possessive forms where they change
nothing, and `(?=x)` and `(?!x)` for one character x. The syntax is Oniguruma's. Anything else is refused.

A program is a list of instructions, which threads run through; where a thread divides, the first way is preferred.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from deploykit.text.characters import POINTS, Set, between, folded, is_named, named, only

_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v", "a": "\a", "e": "\x1b"}
_MOST = 10000
"""Instructions of a program."""


class Refused(Exception):
    """The expression has a part that is not supported; the message says which."""


@dataclass(frozen=True)
class Take:
    """Read a character that is in `chars`."""

    chars: Set


@dataclass(frozen=True)
class Divide:
    """Go on at either place, preferably at the first one."""

    first: int
    second: int


@dataclass(frozen=True)
class Ahead:
    """Go on only if the next character is in `chars`, or if there is none and `at_end`."""

    chars: Set
    at_end: bool


@dataclass(frozen=True)
class Found:
    """A match ends here."""


Instruction = Take | Divide | Ahead | Found


@dataclass(frozen=True)
class Pattern:
    """A program whose instructions go on at the next one, unless they say otherwise."""

    program: tuple[Instruction, ...]
    shortest: int
    """The least number of characters of a match."""


# The syntax tree: each node knows how to write itself behind the instructions before it.


@dataclass(frozen=True)
class _One:
    chars: Set

    def write(self, to: list[Instruction]) -> None:
        to.append(Take(self.chars))

    def shortest(self) -> int:
        return 1


@dataclass(frozen=True)
class _Look:
    chars: Set
    at_end: bool

    def write(self, to: list[Instruction]) -> None:
        to.append(Ahead(self.chars, self.at_end))

    def shortest(self) -> int:
        return 0


@dataclass(frozen=True)
class _Row:
    parts: list[_Node]

    def write(self, to: list[Instruction]) -> None:
        for part in self.parts:
            part.write(to)

    def shortest(self) -> int:
        return sum(part.shortest() for part in self.parts)


@dataclass(frozen=True)
class _Any:
    ways: list[_Node]

    def write(self, to: list[Instruction]) -> None:
        jumps = []
        for way in self.ways[:-1]:
            divide = len(to)
            to.append(Found())
            way.write(to)
            jumps.append(len(to))
            to.append(Found())
            to[divide] = Divide(divide + 1, len(to))
        self.ways[-1].write(to)
        for jump in jumps:
            to[jump] = Divide(len(to), len(to))

    def shortest(self) -> int:
        return min(way.shortest() for way in self.ways)


@dataclass(frozen=True)
class _Repeat:
    part: _Node
    least: int
    most: int | None
    lazy: bool
    possessive: bool

    def write(self, to: list[Instruction]) -> None:
        for _ in range(self.least):
            self.part.write(to)
        divides = []
        for _ in range(1 if self.most is None else self.most - self.least):
            divides.append(len(to))
            to.append(Found())
            self.part.write(to)
        if self.most is None:
            to.append(Divide(divides[0], divides[0]))
        for divide in divides:
            ways = (divide + 1, len(to))
            to[divide] = Divide(*(reversed(ways) if self.lazy else ways))
        if len(to) > _MOST:
            raise Refused("it is too long")

    def shortest(self) -> int:
        return self.least * self.part.shortest()


_Node = _One | _Look | _Row | _Any | _Repeat


@dataclass
class _Reader:
    text: str
    classes: Mapping[str, Set]
    """Classes that are written as `<name>`."""
    at: int = 0
    ignore_case: bool = False
    depth: int = field(default=0)

    def peek(self, text: str) -> bool:
        return self.text.startswith(text, self.at)

    def skip(self, text: str) -> bool:
        found = self.peek(text)
        self.at += len(text) if found else 0
        return found

    def next(self) -> str:
        if self.at >= len(self.text):
            raise Refused("it ends too early")
        self.at += 1
        return self.text[self.at - 1]

    def ways(self) -> _Node:
        self.depth += 1
        if self.depth > 50:
            raise Refused("its groups are nested too deeply")
        ways = [self.row()]
        while self.skip("|"):
            ways.append(self.row())
        self.depth -= 1
        return ways[0] if len(ways) == 1 else _Any(ways)

    def row(self) -> _Node:
        parts: list[_Node] = []
        while self.at < len(self.text) and not self.peek("|") and not self.peek(")"):
            parts.append(self.repeated(self.atom()))
        parts = self.checked(parts)
        return parts[0] if len(parts) == 1 else _Row(parts)

    def repeated(self, part: _Node) -> _Node:
        while True:
            bounds = self.bounds()
            if bounds is None:
                return part
            if isinstance(part, _Look):
                raise Refused("it repeats a look ahead")
            lazy = self.skip("?")
            possessive = not lazy and self.text[self.at - 1] != "}" and self.skip("+")
            part = _Repeat(part, *bounds, lazy, possessive)
            if bounds[1] is None and not part.part.shortest():
                raise Refused("it repeats what may be empty")

    def checked(self, parts: list[_Node]) -> list[_Node]:
        """Raise `Refused` for possessive repetitions in a row, unless plain ones do the same: because what follows
        cannot begin with what is repeated, or because nothing must follow."""
        for place, part in enumerate(parts):
            if not isinstance(part, _Repeat) or not part.possessive:
                continue
            rest = parts[place + 1 :]
            first = rest[0] if rest else None
            first = first.part if isinstance(first, _Repeat) and first.least > 0 else first
            apart = (
                isinstance(first, _One) and isinstance(part.part, _One) and not (first.chars & part.part.chars).any()
            )
            free = self.depth == 1 and not any(other.shortest() or isinstance(other, _Look) for other in rest)
            if not apart and not (free and isinstance(part.part, _One)):
                raise Refused(f"it has a possessive quantifier before character {self.at}")
        return parts

    def bounds(self) -> tuple[int, int | None] | None:
        for mark, found in (("?", (0, 1)), ("*", (0, None)), ("+", (1, None))):
            if self.skip(mark):
                return found
        end = self.text.find("}", self.at)
        numbers = self.text[self.at + 1 : end].split(",") if self.peek("{") and end > 0 else []
        if not 0 < len(numbers) < 3 or not all(n.isdecimal() or n == "" for n in numbers) or numbers == [""]:
            return None
        self.at = end + 1
        least = int(numbers[0] or 0)
        most = int(numbers[-1]) if numbers[-1] else None
        if most is not None and (most < least or most > 1000):
            raise Refused(f"it repeats {least} to {most} times")
        return least, most

    def atom(self) -> _Node:
        char = self.next()
        if char == "(":
            return self.group()
        if char == "[":
            return _One(self.char_class())
        if char == ".":
            return _One(~only(ord("\n")))
        if char == "\\":
            return _One(self.escape())
        if char == "<" and self.class_name() is not None:
            return _One(self.named_class())
        if char in "^$*+?":
            raise Refused(f"it has '{char}' at character {self.at - 1}")
        return _One(self.literal(char))

    def literal(self, char: str) -> Set:
        if not self.ignore_case:
            return only(ord(char))
        if char.isascii():
            return only(*folded(char)) if char.isalpha() else only(ord(char))
        if char.lower() != char or char.upper() != char:
            raise Refused(f"it ignores the case of '{char}'")
        return only(ord(char))

    def group(self) -> _Node:
        before = self.ignore_case
        if self.skip("?=") or self.skip("?!"):
            negated = self.text[self.at - 1] == "!"
            inner = self.ways()
            if not isinstance(inner, _One):
                raise Refused("it looks ahead for more than one character")
            node: _Node = _Look(~inner.chars if negated else inner.chars, negated)
        elif self.skip("?i:") or self.skip("?i)"):
            self.ignore_case = True
            rest_of_group = self.text[self.at - 1] == ")"
            node = self.ways()
            if rest_of_group:
                self.at -= 1 if self.peek(")") else 0
                self.ignore_case = before if self.depth > 1 else True
                return node
        else:
            if self.peek("?") and not self.skip("?:"):
                raise Refused(f"it has the group '({self.text[self.at : self.at + 3]}'")
            node = self.ways()
        if not self.skip(")"):
            raise Refused("a group does not end")
        self.ignore_case = before
        return node

    def escape(self) -> Set:
        char = self.next()
        if char in "swdSWD":
            found = named("\\" + char.lower())
            return found if char.islower() else ~found
        if char in "pP":
            return self.category(negated=char == "P")
        if char in _ESCAPES:
            return only(ord(_ESCAPES[char]))
        if char in {"x", "u"}:
            return self.literal(chr(self.number(2 if char == "x" else 4)))
        if char.isalnum():
            raise Refused(f"it has '\\{char}'")
        return only(ord(char))

    def number(self, digits: int) -> int:
        end = self.text.find("}", self.at) if self.peek("{") else self.at + digits
        text = self.text[self.at : end].lstrip("{")
        self.at = end + (1 if self.text[end : end + 1] == "}" and self.peek("{") else 0)
        try:
            return int(text, 16)
        except ValueError:
            raise Refused(f"it has the number '{text}'") from None

    def category(self, *, negated: bool) -> Set:
        end = self.text.find("}", self.at)
        if not self.peek("{") or end < 0:
            raise Refused("it has \\p without braces")
        name = self.text[self.at + 1 : end]
        self.at = end + 1
        if name.startswith("^"):
            name, negated = name[1:], not negated
        found = _category(name)
        return ~found if negated else found

    def char_class(self) -> Set:
        negated = self.skip("^")
        found = np.zeros(POINTS, np.bool_)
        first = True
        while first or not self.peek("]"):
            first = False
            if self.peek("[:") or self.peek("&&"):
                raise Refused(f"it has '{self.text[self.at : self.at + 2]}' in a class")
            if self.skip("["):
                found |= self.char_class()
                continue
            low = self.class_member()
            if self.peek("-") and not self.peek("-]") and low.sum() == 1:
                self.at += 1
                high = self.class_member()
                if high.sum() != 1:
                    raise Refused("a range ends with a class")
                low = between(int(low.argmax()), int(high.argmax()))
            found |= low
        self.at += 1
        if self.ignore_case:
            for letter in "abcdefghijklmnopqrstuvwxyz":
                if found[list(folded(letter))].any():
                    found = found | only(*folded(letter))
        return ~found if negated else found

    def class_member(self) -> Set:
        char = self.next()
        if char == "<" and self.class_name() is not None:
            return self.named_class()
        return self.escape() if char == "\\" else only(ord(char))

    def class_name(self) -> str | None:
        """The name of a class that is written here, behind its `<`."""
        name = self.text[self.at : self.text.find(">", self.at)]
        return name if name in self.classes else None

    def named_class(self) -> Set:
        name = self.class_name() or ""
        self.at += len(name) + 1
        return self.classes[name]


def _category(name: str) -> Set:
    if is_named(name) and name[:1] not in {"\\", "g"} and name[:1].isupper():
        return named(name)
    parts = [part for part in _TWO_LETTERS if part.startswith(name)] if len(name) == 1 else []
    if not parts:
        raise Refused(f"it has the property '{name}'")
    found = np.zeros(POINTS, np.bool_)
    for part in parts:
        found |= named(part)
    return found


_TWO_LETTERS = (
    *("Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po"),
    *("Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Co", "Cn"),
)


def _finished(node: _Node) -> Pattern:
    program: list[Instruction] = []
    node.write(program)
    if node.shortest() == 0:
        raise Refused("it matches the empty text")
    return Pattern((*program, Found()), node.shortest())


def read_pattern(text: str, classes: Mapping[str, Set] | None = None) -> Pattern:
    """The program of a regular expression, in which `<name>` is one of `classes`. Raises `Refused` for what is not
    supported."""
    reader = _Reader(text, classes or {})
    node = reader.ways()
    if reader.at < len(text):
        raise Refused(f"it has ')' at character {reader.at}")
    return _finished(node)


def literal_pattern(text: str) -> Pattern:
    """The program that matches a text."""
    return _finished(_Row([_One(only(ord(char))) for char in text]))


def one_of(chars: Set) -> Pattern:
    """The program that matches one character of a set."""
    return Pattern((Take(chars), Found()), 1)


def runs_of(*sets: Set) -> Pattern:
    """The program that matches as many characters of one of the sets as there are."""
    runs: list[_Node] = [_Repeat(_One(chars), 1, None, lazy=False, possessive=False) for chars in sets]
    return _finished(_Any(runs))

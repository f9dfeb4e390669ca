"""C identifiers and strings for the names of a model, which may hold any text.

Characters that C does not allow become `_`; a name that is taken, or means something in C or C++, gets a number.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

_WORDS = (
    "alignas alignof and asm auto bool break case catch char class const continue decltype default delete do double "
    "else enum explicit export extern false float for friend goto if inline int long mutable namespace new noexcept "
    "not nullptr operator or private protected public register restrict return short signed sizeof static struct "
    "switch template this throw true try typedef typeid typename union unsigned using virtual void volatile "
    "while xor errno near far linux unix i386 NULL main"
)

KEYWORDS = frozenset(_WORDS.split())
"""Words of C99 and C++, and macros that compilers and systems are known to define in lower case."""


def identifier(text: str) -> str:
    """`text` as a C identifier: letters, digits and single `_`, starting with a letter. `x.1` becomes `x_1`."""
    word = re.sub(r"_+", "_", re.sub(r"[^0-9A-Za-z]", "_", text)).strip("_")
    return word if word[:1].isalpha() else f"v{word}"


def c_string(text: str) -> str:
    """A C string literal. Anything but printable ASCII is written as octal escapes of its UTF-8 bytes."""
    if text.isascii() and text.isprintable():
        return json.dumps(text).replace("??", '?""?')
    pieces = (chr(b) if 32 <= b < 127 and b not in b'"\\?' else f"\\{b:03o}" for b in text.encode())
    return f'"{"".join(pieces)}"'


class Names:
    """One C scope: gives each thing an identifier that no other thing there has."""

    def __init__(self, reserved: Iterable[str] = ()) -> None:
        self._taken = {*KEYWORDS, *reserved}

    def take(self, text: str) -> str:
        """An identifier close to `text` that is not taken, now taken."""
        word = identifier(text)
        candidate, number = word, 1
        while candidate in self._taken:
            number += 1
            candidate = f"{word}_{number}"
        self._taken.add(candidate)
        return candidate

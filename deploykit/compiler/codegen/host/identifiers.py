"""C identifiers and strings for the names of a model, which may hold any text.

A character that C does not allow becomes `_`. A name that is taken, or that means something in C or C++, gets a number.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from zlib import crc32

_C = (
    "auto break case char const continue default do double else enum extern float for goto if inline int long register "
    "restrict return short signed sizeof static struct switch typedef union unsigned void volatile while alignas "
    "alignof bool constexpr false nullptr static_assert thread_local true typeof typeof_unqual asm"
)
"""Keywords of C99, C11 and C23."""

_CPP = (
    "and and_eq bitand bitor catch class compl concept consteval constinit const_cast co_await co_return co_yield "
    "decltype delete dynamic_cast explicit export friend mutable namespace new noexcept not not_eq operator or or_eq "
    "private protected public reinterpret_cast requires static_cast template this throw try typeid typename using "
    "virtual xor xor_eq"
)
"""The other keywords of C++."""

_MACROS = (
    "EOF NULL NAN INFINITY HUGE_VAL HUGE_VALF HUGE_VALL I NDEBUG BUFSIZ RAND_MAX EXIT_SUCCESS EXIT_FAILURE CHAR_BIT "
    "MB_LEN_MAX FOPEN_MAX FILENAME_MAX TMP_MAX L_tmpnam PATH_MAX IOV_MAX NAME_MAX "
    "assert complex errno imaginary offsetof signbit stderr stdin stdout va_arg va_copy va_end va_list va_start "
    "EACCES EAGAIN EBUSY EDOM EEXIST EILSEQ EINTR EINVAL EIO ENOENT ENOMEM EPERM ERANGE "
    "isfinite isinf isnan isnormal fpclassify setjmp i386 linux unix near far major minor min max "
    "IN OUT OPTIONAL ERROR BOOL TRUE FALSE DELETE CONST VOID interface small hyper main"
)
"""Macros of the headers of C, and of headers of systems that programs include beside a model's; and `main`."""

KEYWORDS = frozenset(f"{_C} {_CPP} {_MACROS}".split())

_PATTERNS = re.compile(
    r"dk_\w*|DK_\w*"  # the core and its headers
    r"|[a-z]\w*_t"  # types of <stdint.h> and <stddef.h>, and of POSIX
    r"|(U?INT(_LEAST|_FAST)?\d*|U?INT(PTR|MAX)|[SU]?CHAR|U?SHRT|U?L?LONG|S?SIZE|PTRDIFF|W(CHAR|INT))_(MIN|MAX|C|WIDTH)"
    r"|(FLT|DBL|LDBL|FP|LC|M|MATH|ATOMIC|SEEK|SIG)_[A-Z0-9_]+|(PRI|SCN)[dioux]\w+|SIG[A-Z]{3,5}"
)
"""Other words of the same kinds."""

_LONGEST = 120
"""Characters of an identifier. File names are made of identifiers, and have 255 characters at most."""


def means_something(word: str) -> bool:
    """Whether a word is a keyword of C or C++, a type, or a macro of a header that may be included beside a model's."""
    return word in KEYWORDS or _PATTERNS.fullmatch(word) is not None


def apart(word: str, start: str | None = None) -> str:
    """`word`, or one close to it that becomes free when a number is put behind it. Some words mean something whatever
    follows their start, and so does `start`: the result begins with neither."""
    while means_something(f"{word}_2") or (start is not None and word.startswith(start)):
        word = f"n{word}"
    return word


def identifier(text: str) -> str:
    """`text` as a C identifier: letters, digits and single `_`, starting with a letter. `x.1` becomes `x_1`. A checksum
    replaces the end of a long one."""
    word = re.sub(r"_+", "_", re.sub(r"[^0-9A-Za-z]", "_", text)).strip("_")
    word = word if word[:1].isalpha() else f"v{word}"
    return word if len(word) <= _LONGEST else f"{word[: _LONGEST - 9]}_{crc32(text.encode()):08x}"


_GUARDS = "deploykit driver cpu threads weights kernels"
_LIBRARIES = "c m rt dl pthread gcc util resolv log android"
_GOALS = "all clean example help install package preinstall run test"

_TAKEN_PREFIXES = frozenset(f"{_GUARDS} {_LIBRARIES} {_GOALS}".split())
"""Guards of headers, libraries that programs link, and goals of make and CMake."""


def prefix(text: str) -> str:
    """What the symbols and files of a model of that name start with."""
    word = identifier(text)
    taken = word.lower() in _TAKEN_PREFIXES or re.match(r"dk(_|$)", word, re.IGNORECASE) or means_something(word)
    return f"model_{word}" if taken else word


def c_string(text: str) -> str:
    """A C string literal. Text that is not printable ASCII is written as its UTF-8 bytes, as octal escapes."""
    if text.isascii() and text.isprintable():
        return json.dumps(text).replace("??", '?""?')
    pieces = (chr(b) if 32 <= b < 127 and b not in b'"\\?' else f"\\{b:03o}" for b in text.encode())
    return f'"{"".join(pieces)}"'


def constants(names: Iterable[str]) -> tuple[str, ...]:
    """A word in capitals for each name, as the end of a constant's name. No two words are equal, and none is another
    one followed by `_BYTES`."""
    found: dict[str, None] = {}
    for name in names:
        word = identifier(name).upper()
        candidate, number = word, 1
        while {candidate, f"{candidate}_BYTES", candidate.removesuffix("_BYTES")} & found.keys():
            number += 1
            candidate = f"{word}_{number}"
        found[candidate] = None
    return tuple(found)


class Names:
    """One C scope. It gives each thing an identifier that nothing else in the scope has."""

    def __init__(self, reserved: Iterable[str] = (), start: str | None = None) -> None:
        """Things outside of the scope have the names `reserved`, and names that begin with `start`."""
        self._taken = set(reserved)
        self._start = start

    def take(self, text: str) -> str:
        """An identifier close to `text` that is not taken, now taken."""
        word = apart(identifier(text), self._start)
        candidate, number = word, 1
        while candidate in self._taken or means_something(candidate):
            number += 1
            candidate = f"{word}_{number}"
        self._taken.add(candidate)
        return candidate

"""The compiled character mappings of SentencePiece, in the normalizer `Precompiled`.

The mapping is a trie as a double array, and texts that end with a zero byte; a unit of the array has 32 bits. A text
becomes another one by clusters of characters that users see as one, if they have fewer than 6 bytes in UTF-8, else by
characters. Of the entries that are a prefix of a cluster, the shortest counts, and it stands for the whole cluster.
"""

from __future__ import annotations

import base64

import numpy as np

from deploykit.text.characters import HANGUL, POINTS, Set, named, only
from deploykit.text.reading import Part, refuse
from deploykit.text.regex import Pattern, read_pattern
from deploykit.text.steps import Charsmap

_LABEL = np.uint32(0x800000FF)
_LONG_CLUSTER = 6
"""Bytes of a cluster whose characters are mapped one by one."""
_NAMES = (
    *("CR", "LF", "Control", "Extend", "ZWJ", "Regional_Indicator", "Prepend", "L", "V", "T", "Joined", "Pictographic"),
    *("InCB Consonant", "InCB Linker", "InCB Extend"),
)


def charsmap_of(part: Part) -> Charsmap:
    """The mapping of the normalizer. Raises `UnsupportedModelError` if it is damaged."""
    try:
        data = base64.b64decode(part.get("precompiled_charsmap", str), validate=True)
        size = int.from_bytes(data[:4], "little")
        found = _entries(np.frombuffer(data, "<u4", size // 4, 4), data[4 + size :])
    except (ValueError, IndexError) as error:
        refuse(part.where, f"the character mapping is damaged: {error}")
    return Charsmap(found, graphemes(), _alone(found))


def _entries(units: np.ndarray, texts: bytes) -> dict[bytes, str]:
    """The keys that can match, level by level, and their texts: keys that are shorter than a long cluster, and do not
    begin with another key."""
    found: dict[bytes, str] = {}
    labels = np.arange(1, 256, dtype=np.uint32)
    offsets = (units >> np.uint32(10)) << ((units & np.uint32(1 << 9)) >> np.uint32(6))
    nodes, keys = offsets[:1], [b""]
    for _ in range(_LONG_CLUSTER - 1):
        places = nodes[:, None] ^ labels[None, :]
        inside = places < len(units)
        units_there = units[np.where(inside, places, 0)]
        rows, columns = np.nonzero(inside & ((units_there & _LABEL) == labels[None, :]))
        there = places[rows, columns]
        below = there ^ offsets[there]
        keys = [keys[row] + bytes([column + 1]) for row, column in zip(rows.tolist(), columns.tolist(), strict=True)]
        ends = ((units[there] >> np.uint32(8)) & np.uint32(1)).astype(np.bool_)
        for index in np.flatnonzero(ends).tolist():
            place = int(units[below[index]] & np.uint32(0x7FFFFFFF))
            found[keys[index]] = texts[place : texts.index(b"\0", place)].decode("utf-8")
        nodes, keys = below[~ends], [key for key, end in zip(keys, ends.tolist(), strict=True) if not end]
    return found


def _syllables(*, closed: bool) -> Set:
    """The syllables of Hangul that end with a consonant, or those that do not."""
    return only(*(point for point in HANGUL if ((point - HANGUL.start) % 28 != 0) == closed))


def _classes() -> dict[str, Set]:
    return {
        **{name: named(f"gcb:{name}") for name in _NAMES},
        "LV": _syllables(closed=False),
        "LVT": _syllables(closed=True),
    }


def graphemes() -> Pattern:
    """What users see as one character: the extended grapheme clusters of Unicode's annex 29. Their classes of
    characters are written as `<L>` and so on."""
    hangul = "<L>*(?:<V>+|<LV><V>*|<LVT>)<T>*|<L>+|<T>+"
    picture = "<Pictographic>(?:<Extend>*<ZWJ><Pictographic>)*"
    link = "[<InCB Extend><InCB Linker>]*<InCB Linker>[<InCB Extend><InCB Linker>]*"
    conjunct = f"<InCB Consonant>(?:{link}<InCB Consonant>)+"
    core = f"(?:{hangul}|<Regional_Indicator><Regional_Indicator>|{picture}|{conjunct}|[^<Control><CR><LF>])"
    return read_pattern(f"<CR><LF>|<Prepend>*{core}<Joined>*|[<Control><CR><LF>]", _classes())


def _alone(entries: dict[bytes, str]) -> Set:
    """Characters that are a cluster of their own next to each other, and have no entry."""
    found = np.ones(POINTS, np.bool_)
    for chars in _classes().values():
        found &= ~chars
    found[[ord(key.decode("utf-8")[0]) for key in entries]] = False
    return found

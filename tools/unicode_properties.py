"""Writes `deploykit/text/unicode.json`: what the library `tokenizers` knows of each character.

Its parts have tables of several editions of Unicode, so each property is found by running the part that uses it over
all characters. Only combining classes and compositions start from Python's tables, and each entry is checked against
the library. A set is a list of distances: to its first character, to the first one after it that is not in the set, and
so on.

    python -m tools.unicode_properties
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import regex
from tokenizers import Regex, normalizers, pre_tokenizers

OUTPUT = Path(__file__).parents[1] / "deploykit" / "text" / "unicode.json"
POINTS = [point for point in range(0x110000) if not 0xD800 <= point < 0xE000]
TEXT = "".join(map(chr, POINTS))
CATEGORIES = (
    *("Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po"),
    *("Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Co", "Cn"),
)
SCRIPTS = (
    *("Han", "Hiragana", "Katakana", "Hangul", "Latin", "Greek", "Cyrillic"),
    *("Arabic", "Hebrew", "Thai", "Devanagari"),
)
BREAKS = ("CR", "LF", "Control", "Extend", "ZWJ", "Regional_Indicator", "Prepend", "L", "V", "T")
CONJUNCTS = ("Consonant", "Linker", "Extend")
HANGUL = range(0xAC00, 0xAC00 + 11172)


def matches(pattern: str) -> set[int]:
    """The characters that a regular expression for one character matches."""
    split = pre_tokenizers.Split(Regex(pattern), "removed", invert=True)
    return {POINTS[at] for _, (begin, end) in split.pre_tokenize_str(TEXT) for at in range(begin, end)}


def removed(pre_tokenizer: pre_tokenizers.PreTokenizer) -> set[int]:
    """The characters that a pre-tokenizer leaves out."""
    kept = {POINTS[at] for _, (begin, end) in pre_tokenizer.pre_tokenize_str(TEXT) for at in range(begin, end)}
    return set(POINTS) - kept


def where(holds: Callable[[str], bool]) -> set[int]:
    return {point for point in POINTS if holds(chr(point))}


def mapped(normalize: Callable[[str], str]) -> dict[str, str]:
    """The characters that a function changes, apart from syllables of Hangul."""
    found = ((chr(point), normalize(chr(point))) for point in POINTS if point not in HANGUL)
    return {char: result for char, result in found if result != char}


def combining_classes() -> Iterator[tuple[int, int]]:
    """Characters and their classes, where the library sorts marks of another class before or after them."""
    normalize = normalizers.NFD().normalize_str
    for point in POINTS:
        known = unicodedata.combining(chr(point))
        low, high = "\u0334", "\u0345"
        if (known > 1 and normalize(chr(point) + low) == low + chr(point)) or (
            known == 1 and normalize(high + chr(point)) == chr(point) + high
        ):
            yield point, known


def compositions() -> Iterator[tuple[str, str]]:
    normalize = normalizers.NFC().normalize_str
    for point in POINTS:
        parts = unicodedata.decomposition(chr(point)).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            pair = "".join(chr(int(part, 16)) for part in parts)
            if normalize(pair) == chr(point):
                yield pair, chr(point)


def charsmap(*keys: bytes) -> Callable[[str], str]:
    """A normalizer that makes `y` of each cluster of less than 6 bytes that begins with a key, else of each character
    that does. Its trie is a double array where each node has a block of 256 units."""
    nodes = sorted({key[:length] for key in keys for length in range(len(key) + 1)})
    block = {key: 256 * (number + 1) for number, key in enumerate(nodes)}
    units = np.zeros(256 * (len(nodes) + 1), "<u4")
    units[0] = block[b""] << 10
    for key in nodes[1:]:
        place = block[key[:-1]] ^ key[-1]
        units[place] = (place ^ block[key]) << 10 | (key in keys) << 8 | key[-1]
    units[[block[key] for key in keys]] = 1 << 31
    return normalizers.Precompiled(units.nbytes.to_bytes(4, "little") + units.tobytes() + b"y\0").normalize_str


def grapheme_breaks() -> dict[str, set[int]]:
    """The classes that boundaries of grapheme clusters depend on: those of the package regex, where they are of a later
    edition of Unicode without the characters that the library does not know."""
    found = {name: set(map(ord, regex.findall(rf"\p{{GCB={name}}}", TEXT))) for name in BREAKS}
    found["Pictographic"] = set(map(ord, regex.findall(r"\p{Extended_Pictographic}", TEXT)))
    indic = {name: set(map(ord, regex.findall(rf"\p{{InCB={name}}}", TEXT))) for name in CONJUNCTS}
    begins_with_x = charsmap(b"x")
    found["Joined"] = where(lambda char: begins_with_x("x" + char) == "y")
    # A mark behind a letter becomes part of a short cluster, unless the letter is part of a longer one.
    letter, virama, mark = "\u0924", "\u094d", "\u0301"
    is_letter = charsmap(letter.encode())
    indic["Consonant"] &= where(lambda char: is_letter(char + virama + letter + mark).endswith(mark))
    indic["Linker"] &= where(lambda char: is_letter(letter + char + letter + mark).endswith(mark))
    indic["Extend"] &= found["Joined"]
    found["Extend"] &= found["Joined"]
    return found | {f"InCB {name}": points for name, points in indic.items()}


def packed(points: Iterable[int]) -> list[int]:
    inside = set(points)
    edges = [point for point in range(0x110001) if (point in inside) != (point - 1 in inside)]
    return [edge - before for before, edge in zip([0, *edges], edges, strict=False)]


def text_of_tables() -> str:
    """The contents of the file."""
    clean = normalizers.BertNormalizer(True, False, False, False).normalize_str
    accents = normalizers.BertNormalizer(False, False, True, False).normalize_str
    digits = pre_tokenizers.Digits(individual_digits=False).pre_tokenize_str
    word = pre_tokenizers.Whitespace().pre_tokenize_str
    sets = {
        "white": removed(pre_tokenizers.WhitespaceSplit()),
        "punctuation": removed(pre_tokenizers.Punctuation("removed")),
        "numeric": where(lambda char: len(digits("a" + char)) == 2),
        "word": where(lambda char: len(word("a" + char + "a")) == 1),
        "control": where(lambda char: clean("a" + char) == "a"),
        "nonspacing": where(lambda char: accents("a" + char) == "a"),
        "combining": where(lambda char: normalizers.StripAccents().normalize_str(char) == ""),
        **{rf"\{name}": matches(rf"\{name}") for name in "swd"},
        **{name: matches(rf"\p{{{name}}}") for name in (*CATEGORIES, *SCRIPTS)},
        **{f"gcb:{name}": points for name, points in grapheme_breaks().items()},
    }
    classes: dict[int, list[int]] = {}
    for point, known in combining_classes():
        classes.setdefault(known, []).append(point)
    letters = "abcdefghijklmnopqrstuvwxyz"
    tables = {
        "sets": {name: packed(points) for name, points in sets.items()},
        "combining_classes": {known: packed(points) for known, points in sorted(classes.items())},
        "lowercase": mapped(normalizers.Lowercase().normalize_str),
        "canonical": mapped(normalizers.NFD().normalize_str),
        "compatible": mapped(normalizers.NFKD().normalize_str),
        "compositions": dict(compositions()),
        "folded": {letter: "".join(map(chr, sorted(matches(f"(?i:{letter})")))) for letter in letters},
    }
    return json.dumps(tables, ensure_ascii=True, separators=(",", ":")).replace("},", "},\n") + "\n"


def main() -> None:
    OUTPUT.write_text(text_of_tables(), "utf-8")


if __name__ == "__main__":
    main()

"""Random texts that tokenizers find hard: all planes of Unicode, marks, syllables, broken UTF-8, special tokens."""

from __future__ import annotations

import random
from collections.abc import Sequence

MARKS = [0x300, 0x301, 0x323, 0x327, 0x344, 0x345, 0x5B0, 0x64B, 0x93C, 0xE38, 0xF71, 0xF73, 0x3099, 0x20D0, 0x1D165]
HARD = [0, 9, 10, 13, 0x20, 0x7F, 0x85, 0xA0, 0xAD, 0xDF, 0x130, 0x149, 0x17F, 0x1C4, 0x2028, 0x200B, 0x200D, 0x200F]
HARD += [0x212A, 0x2581, 0x3000, 0x33FF, 0xFB01, 0xFB03, 0xFDFA, 0xFE0F, 0xFEFF, 0xFFFD, 0x1F1E9, 0x1F468, 0x1F3FD]
HARD += [0x958, 0xE33, 0x600, 0x2126, 0xB2, 0xBC, 0x2460, 0xFF21, 0xFF71, 0xD7, 0x1D160, 0x2F800, 0xE0020]
WORDS = ["the", "compiler", "don't", "We'll", "HELLO", "tensors,", "123456", "3.14", "naïve", "e.g.", "<b>", "##", "▁a"]
WORDS += ["b", "foo_bar", "http://x.y/z", "'S", "'\u017f", "\r\n\r\n", "\t\t", "x" * 120]
BROKEN = [
    b"\xff",
    b"\x80",
    b"\xe2\x82",
    b"\xf0\x9f\x98",
    b"\xed\xa0\x80",
    b"\xc0\xaf",
    b"\xf4\x90\x80\x80",
    b"\xe2\x28\xa1",
]


def _any(source: random.Random) -> str:
    point = source.randrange(0x110000)
    return " " if 0xD800 <= point < 0xE000 else chr(point)


def text(source: random.Random, special: Sequence[str]) -> str | bytes:
    """A random text; now and then bytes that are no UTF-8."""
    parts = [
        lambda: source.choice("abcdefghi tnorse .,!?'\"-()0123456789 \n"),
        lambda: source.choice(WORDS),
        lambda: " " * source.randrange(4),
        lambda: chr(source.randrange(0x20, 0x600)),
        lambda: chr(source.choice(MARKS)),
        lambda: chr(source.choice(HARD)),
        lambda: chr(source.choice([0x1100, 0x1161, 0x11A7, 0x11A8, 0xAC00, 0xAC01, 0xAC1C]) + source.randrange(3)),
        lambda: chr(
            source.choice([0x4E00, 0x3041, 0x30A1, 0x900, 0x600, 0xE00, 0x1F300, 0x10330]) + source.randrange(90)
        ),
        lambda: _any(source),
        lambda: source.choice(special) if special else "",
    ]
    weights = [source.choice([0, 1, 1, 4]) for _ in parts]
    weights[0] += 1
    count = source.choice([0, 1, 2, 5, 12, 30, 80])
    found = "".join(part() for part in source.choices(parts, weights, k=count))
    if source.random() < 0.85:
        return found
    data = bytearray(found.encode())
    for _ in range(source.randrange(1, 4)):
        at = source.randrange(len(data) + 1)
        data[at:at] = source.choice(BROKEN)
    return bytes(data)

"""What the parts of tokenizers know of each character: sets and mappings, from `unicode.json`.

A set is an array of booleans by code point. `tools/unicode_properties.py` writes the file and says what it holds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

POINTS = 0x110000
HANGUL = range(0xAC00, 0xAC00 + 11172)
"""Syllables, whose decompositions are computed and not in a table."""

Set = NDArray[np.bool_]
Runes = tuple[int, ...]


@cache
def _tables() -> Mapping[str, Mapping[str, object]]:
    tables: Mapping[str, Mapping[str, object]] = json.loads(Path(__file__).with_name("unicode.json").read_text("utf-8"))
    return tables


def _unpacked(distances: object) -> Set:
    assert isinstance(distances, list)
    changes = np.zeros(POINTS + 1, np.int32)
    changes[np.cumsum(distances)] = [1 - 2 * (index % 2) for index in range(len(distances))]
    return np.cumsum(changes[:POINTS]).astype(np.bool_)


@cache
def named(name: str) -> Set:
    """The set with a name, such as `white` or `Lu`. Raises `KeyError` if there is none."""
    return _unpacked(_tables()["sets"][name])


def is_named(name: str) -> bool:
    return name in _tables()["sets"]


def only(*points: int) -> Set:
    """The set of these characters."""
    found = np.zeros(POINTS, np.bool_)
    found[list(points)] = True
    return found


def between(first: int, last: int) -> Set:
    """The set of the characters from the first up to, and with, the last."""
    found = np.zeros(POINTS, np.bool_)
    found[first : last + 1] = True
    return found


@cache
def mapping(name: str) -> Mapping[int, Runes]:
    """`lowercase`, `canonical` or `compatible`: the characters that change, and what becomes of them."""
    return {ord(char): tuple(map(ord, str(result))) for char, result in _tables()[name].items()}


@cache
def compositions() -> tuple[tuple[int, int, int], ...]:
    """Pairs and the character that they become, sorted."""
    found = ((*map(ord, pair), ord(str(result))) for pair, result in _tables()["compositions"].items())
    return tuple(sorted((a, b, c) for a, b, c in found))


@cache
def combining_classes() -> NDArray[np.uint8]:
    classes = np.zeros(POINTS, np.uint8)
    for number, distances in _tables()["combining_classes"].items():
        classes[_unpacked(distances)] = int(number)
    return classes


def folded(letter: str) -> Runes:
    """The characters that a letter of ASCII matches where case does not matter."""
    return tuple(map(ord, str(_tables()["folded"][letter.lower()])))

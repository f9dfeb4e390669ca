"""The merges of byte-pair encoding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from deploykit.text.reading import Part, refuse
from deploykit.text.tries import EMPTY, LOAD, Words, longest_search, placed

Merges = Mapping[tuple[int, int], tuple[int, int]]

_NO_MERGE = EMPTY, 0


def merges_of(part: Part, vocabulary: Mapping[str, int]) -> Merges:
    """The rank and the result of each pair, by the ids of tokens."""
    entries: list[object] = part.get("merges", list)
    found = {}
    for rank, entry in enumerate(entries):
        pair = entry.split(" ") if isinstance(entry, str) else entry
        match pair:
            case [str(left), str(right)] if left in vocabulary and right in vocabulary and left + right in vocabulary:
                found[vocabulary[left], vocabulary[right]] = rank, vocabulary[left + right]
            case _:
                refuse(part.where, f"the merge {entry!r:.60} is not of two tokens that make a third one")
    return found


def reached(symbols: Sequence[int], goal: int, merges: Merges) -> bool:
    """Whether merging makes one token of these, and which."""
    symbols = list(symbols)
    known = merges.get
    while len(symbols) > 1:
        found = [known(pair, _NO_MERGE) for pair in pairwise(symbols)]
        best = min(found)
        if best is _NO_MERGE:
            return False
        at = found.index(best)
        symbols[at : at + 2] = [best[1]]
    return symbols[0] == goal


def pack_merges(merges: Merges) -> tuple[Words, int]:
    """The hash table of merges, and the longest search in it."""
    if not merges:
        return np.zeros((0, 4), np.uint32), 0
    entries = np.array([(*pair, *result) for pair, result in merges.items()], np.uint32)
    count = int(len(entries) / LOAD) + 8
    hashes = (entries[:, 0] * np.uint32(0x9E3779B1) + entries[:, 1]) * np.uint32(0x85EBCA6B)
    start = ((hashes.astype(np.uint64) * np.uint64(count)) >> np.uint64(32)).astype(np.int64)
    taken = np.zeros(count, np.bool_)
    table = np.full((count, 4), EMPTY, np.uint32)
    table[placed(start, taken)] = entries
    return table, longest_search(taken)

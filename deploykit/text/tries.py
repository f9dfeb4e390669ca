"""Hash tables for the runtime: the edges of tries, and pairs of tokens.

An edge has the key `parent << 8 | byte`, where a node is the number of its slot; roots are numbered from the number of
slots on. A key is at the slot that its hash names or behind it, with no free slot between.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

EMPTY = 0xFFFFFFFF
LOAD = 0.7
MOST_PROBES = 4096
_FACTOR = np.uint32(0x9E3779B1)

Words = NDArray[np.uint32]


@dataclass(frozen=True)
class Slots:
    """Where keys were put, and the longest search for one or for nothing."""

    slots: NDArray[np.int64]
    probes: int


def hashed(keys: Words, count: int) -> NDArray[np.int64]:
    """The slot where the search for each key begins."""
    return (((keys * _FACTOR).astype(np.uint64) * np.uint64(count)) >> np.uint64(32)).astype(np.int64)


def placed(start: NDArray[np.int64], taken: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Free slots for keys whose search begins at `start`; marks them as taken."""
    found = np.full(len(start), -1, np.int64)
    slot = start.copy()
    left = np.arange(len(start))
    while len(left):
        free = left[~taken[slot[left]]]
        _, first = np.unique(slot[free], return_index=True)
        lucky = free[first]
        found[lucky] = slot[lucky]
        taken[slot[lucky]] = True
        left = left[found[left] < 0]
        slot[left] = (slot[left] + 1) % len(taken)
    return found


def longest_search(taken: NDArray[np.bool_]) -> int:
    """The length of the longest row of taken slots, around the end, plus 1 for the free one behind it."""
    free = np.flatnonzero(~taken)
    gaps = np.diff(np.append(free, free[0] + len(taken)))
    return int(gaps.max())


class Trie:
    """Keys with values, under several roots."""

    def __init__(self) -> None:
        self._children: list[dict[int, int]] = []
        self._values: list[int] = []
        self._levels: list[list[tuple[int, int, int]]] = []
        self._roots: dict[str, int] = {}

    def root(self, name: str) -> int:
        """The number of a root."""
        if name not in self._roots:
            self._roots[name] = self._node()
        return self._roots[name]

    def _node(self) -> int:
        self._children.append({})
        self._values.append(-1)
        return len(self._values) - 1

    def add(self, root: str, items: Iterable[tuple[bytes, int]]) -> None:
        """Add keys. A value of -1 makes the node of a key, and no value."""
        top = self.root(root)
        children, values, levels = self._children, self._values, self._levels
        for key, value in items:
            node = top
            for depth, byte in enumerate(key):
                following = children[node].get(byte)
                if following is None:
                    following = self._node()
                    children[node][byte] = following
                    if depth == len(levels):
                        levels.append([])
                    levels[depth].append((node, byte, following))
                node = following
            if value >= 0:
                values[node] = value

    def packed(self) -> PackedTrie:
        edges = sum(map(len, self._levels))
        count = max(int(edges / LOAD) + 8, 16)
        slot_of = np.zeros(len(self._values), np.int64)
        slot_of[list(self._roots.values())] = count + np.arange(len(self._roots))
        table = np.zeros((count, 2), np.uint32)
        table[:, 0] = EMPTY
        taken = np.zeros(count, np.bool_)
        values = np.array(self._values, np.int64) + 1
        for level in self._levels:
            parents, labels, nodes = np.array(list(chain.from_iterable(level)), np.int64).reshape(-1, 3).T
            keys = (slot_of[parents] << 8 | labels).astype(np.uint32)
            slots = placed(hashed(keys, count), taken)
            slot_of[nodes] = slots
            table[slots, 0] = keys
            table[slots, 1] = values[nodes].astype(np.uint32)
        roots = {name: count + index for index, name in enumerate(self._roots)}
        return PackedTrie(table, longest_search(taken), roots)


@dataclass(frozen=True)
class PackedTrie:
    table: Words
    probes: int
    roots: dict[str, int]

    def node(self, root: str, key: bytes) -> int:
        """The node of a key, or `EMPTY`."""
        node = self.roots[root]
        for byte in key:
            wanted = np.array([node << 8 | byte], np.uint32)
            slot = int(hashed(wanted, len(self.table))[0])
            while self.table[slot, 0] != wanted[0]:
                if self.table[slot, 0] == EMPTY:
                    return EMPTY
                slot = (slot + 1) % len(self.table)
            node = slot
        return node

"""Offsets for blocks of known size and lifetime: dynamic storage allocation, solved greedily.

Blocks are placed one after the other, each in the lowest gap that holds it between the placed blocks that live at the
same time. The order of placement decides the height, so several orders are tried. The lower bound of the height is the
most bytes alive at one step. If no order meets it, the orders are tried again with blocks that stand on the bottom or
hang from that height, which is optimal for a chain, where each block lives with the one before and the one after. The
best packing is then improved by placing the blocks that make up its height first.

Source: the orders are those of Y. Pisarchyk and J. Lee, "Efficient Memory Management for Deep Neural Net Inference"
(2020), by size and by breadth, and common variations; `improved` follows the hill climbing of TVM's USMP.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

_IMPROVEMENTS = 40
"""How many placements are tried after the greedy orders."""


@dataclass(frozen=True)
class Block:
    """`size` bytes, live from step `first` to step `last` inclusive."""

    size: int
    first: int
    last: int


@dataclass(frozen=True)
class Packing:
    """`offsets[i]` is the offset of block `i`; `height` is the greatest end of a block."""

    offsets: tuple[int, ...]
    height: int


class PackingProblem:
    """Blocks to be packed. A block of size 0 is placed on top of all blocks that live at the same time, where it
    displaces none."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        self.blocks = tuple(blocks)
        self.conflicts = _conflicts(self.blocks)

    @cached_property
    def lower_bound(self) -> int:
        """The most bytes alive at one step. No packing is lower."""
        return max(self._live_bytes.values(), default=0)

    @cached_property
    def _live_bytes(self) -> dict[int, int]:
        """The bytes alive at each step at which a block begins."""
        starts = {block.first for block in self.blocks}
        return {s: sum(b.size for b in self.blocks if b.first <= s <= b.last) for s in starts}

    def packed(self, order: Sequence[int], ceiling: int | None = None) -> Packing:
        """Place the blocks in this order, each in the lowest gap that holds it. With a `ceiling`, a block is placed at
        the bottom or hangs from the ceiling where possible."""
        offsets: dict[int, int] = {}
        for index in sorted(order, key=lambda i: not self.blocks[i].size):
            offsets[index] = self._place(index, offsets, ceiling)
        height = max((offsets[i] + self.blocks[i].size for i in order), default=0)
        return Packing(tuple(offsets[i] for i in range(len(offsets))), height)

    def _place(self, index: int, offsets: Mapping[int, int], ceiling: int | None) -> int:
        size = self.blocks[index].size
        taken = sorted((offsets[j], self.blocks[j].size) for j in self.conflicts[index] if j in offsets)
        lowest, end = None, 0
        for start, length in taken:
            if lowest is None and size and start - end >= size:
                lowest = end
            end = max(end, start + length)
        if ceiling is not None and lowest != 0 and end and ceiling - end >= size:
            return ceiling - size
        return end if lowest is None else lowest

    def orders(self) -> Iterator[list[int]]:
        """The greedy orders: block numbers, sorted by several keys."""
        blocks, everything = self.blocks, range(len(self.blocks))
        crowd = [sum(blocks[j].size for j in self.conflicts[i]) for i in everything]
        keys: tuple[Callable[[int], tuple[int, ...]], ...] = (
            lambda i: (-blocks[i].size, blocks[i].first),
            lambda i: (-blocks[i].size * (blocks[i].last - blocks[i].first + 1), blocks[i].first),
            lambda i: (-self._breadth(i), -blocks[i].size),
            lambda i: (-crowd[i] - blocks[i].size, -blocks[i].size),
            lambda i: (blocks[i].first, -blocks[i].size),
            lambda i: (-blocks[i].last, -blocks[i].size),
            lambda i: (blocks[i].first - blocks[i].last, -blocks[i].size),
        )
        for key in keys:
            yield sorted(everything, key=lambda i: (*key(i), i))

    def _breadth(self, index: int) -> int:
        """The most bytes alive at any step of the block's life."""
        block = self.blocks[index]
        return max((n for s, n in self._live_bytes.items() if block.first <= s <= block.last), default=0)

    def improved(self, order: Sequence[int]) -> Packing:
        """Try to lower a packing: place the blocks that reach its height, and those that support them, earlier."""
        order = list(order)
        best = current = self.packed(order)
        for attempt in range(_IMPROVEMENTS):
            if best.height == self.lower_bound:
                break
            tower = self._tower(current)
            moved = tower[attempt % len(tower)]
            order.remove(moved)
            order.insert(0, moved)
            current = self.packed(order)
            if current.height < best.height:
                best = current
        return best

    def _tower(self, packing: Packing) -> list[int]:
        """The highest block of a packing without ceiling, followed, going down, by the block on which the previous one
        rests."""
        ends = [offset + block.size for offset, block in zip(packing.offsets, self.blocks, strict=True)]
        tower = [max(range(len(ends)), key=lambda i: (ends[i], self.blocks[i].size))]
        while packing.offsets[tower[-1]]:
            floor = packing.offsets[tower[-1]]
            tower.append(next(j for j in self.conflicts[tower[-1]] if ends[j] == floor and self.blocks[j].size))
        return tower


def packings(problem: PackingProblem) -> list[Packing]:
    """The packings found, lowest first. No greedy order gives a lower packing than the first."""
    orders = list(problem.orders())
    found = greedy_packings(problem)
    if found[0].height > problem.lower_bound:
        found += [problem.packed(order, problem.lower_bound) for order in orders]
        found.append(problem.improved(min(orders, key=lambda order: problem.packed(order).height)))
    return _lowest_first(found)


def greedy_packings(problem: PackingProblem) -> list[Packing]:
    """The packings of the greedy orders, lowest first."""
    return _lowest_first(problem.packed(order) for order in problem.orders())


def _lowest_first(found: Iterable[Packing]) -> list[Packing]:
    return sorted(dict.fromkeys(found), key=lambda packing: packing.height)


def _conflicts(blocks: Sequence[Block]) -> tuple[tuple[int, ...], ...]:
    """For each block, the other blocks that live at the same time."""
    found: list[list[int]] = [[] for _ in blocks]
    alive: list[int] = []
    for index in sorted(range(len(blocks)), key=lambda i: blocks[i].first):
        alive = [other for other in alive if blocks[other].last >= blocks[index].first]
        for other in alive:
            found[index].append(other)
            found[other].append(index)
        alive.append(index)
    return tuple(tuple(sorted(others)) for others in found)

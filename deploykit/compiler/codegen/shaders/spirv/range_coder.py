"""A range coder with adaptive chances: the side that writes. `runtime/gpu/unpack.c` reads."""

from __future__ import annotations

_CHANCES = 15
"""Bits of the number of a chance."""
_MASK = 0xFFFFFFFF
_SPREAD, _FOLD = 0x9E3779B1, 0x85EBCA6B
_STEADY = 30
"""After as many bits a chance changes as slowly as it ever does."""


class RangeCoder:
    """Codes bits. A bit's chance is learned from earlier bits with the same place and node, which are any numbers."""

    def __init__(self) -> None:
        self._low, self._range = 0, _MASK
        self._last, self._pending = 0, 0
        """The byte that a carry may still change, and how many of 0xFF follow it."""
        self._data = bytearray()
        self._ones = [0x8000] * (1 << _CHANCES)
        """The chances of a 1, in units of 2^-16."""
        self._counts = [0] * (1 << _CHANCES)

    def bit(self, place: int, node: int, bit: bool | int) -> None:
        """Code a bit."""
        index = ((place * _FOLD + node) * _SPREAD & _MASK) >> 32 - _CHANCES
        ones, count = self._ones[index], self._counts[index]
        bound = (self._range >> 12) * (ones >> 4)
        if bit:
            self._range = bound
            self._ones[index] = ones + (0x10000 - ones) * 2 // (2 * count + 3)
        else:
            self._low += bound
            self._range -= bound
            self._ones[index] = ones - ones * 2 // (2 * count + 3)
        self._counts[index] = min(count + 1, _STEADY)
        while self._range < 1 << 24:
            self._range <<= 8
            self._shift()

    def _shift(self) -> None:
        """Let the highest byte go once no carry can change it."""
        if self._low < 0xFF000000 or self._low > _MASK:
            carry = self._low >> 32
            self._data.append(self._last + carry & 0xFF)
            self._data += bytes([0xFF + carry & 0xFF]) * self._pending
            self._last, self._pending = self._low >> 24 & 0xFF, 0
        else:
            self._pending += 1
        self._low = self._low << 8 & _MASK

    def finish(self) -> bytes:
        """All bytes. A reader takes those after the last one for zeros."""
        for _ in range(5):
            self._shift()
        return bytes(self._data[1:]).rstrip(b"\0")

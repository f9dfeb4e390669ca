"""Classes of characters: those that no step of a tokenizer tells apart are in the same one."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from deploykit.text.characters import POINTS
from deploykit.text.reading import refuse

PAGE = 256
MOST_CLASSES = 256


@dataclass
class Classes:
    """Collects what must be told apart; `close` finds the classes."""

    _columns: list[NDArray[np.uint32]] = field(default_factory=list)
    of: NDArray[np.uint32] = field(default_factory=lambda: np.zeros(POINTS, np.uint32))
    """The class of each character."""
    representatives: NDArray[np.int64] = field(default_factory=lambda: np.zeros(1, np.int64))
    """A character of each class."""
    _bits: int = 32

    def add(self, values: NDArray[np.generic]) -> None:
        """Tell characters with different values apart: booleans, or numbers below 2^32."""
        if values.dtype == np.bool_:
            if self._bits == 32:
                self._columns.append(np.zeros(POINTS, np.uint32))
                self._bits = 0
            self._columns[-1] |= values.astype(np.uint32) << np.uint32(self._bits)
            self._bits += 1
        else:
            self._columns.insert(0, values.astype(np.uint32))

    def close(self) -> None:
        labels = np.zeros(POINTS, np.uint64)
        for column in self._columns:
            together = labels << np.uint64(32) | column.astype(np.uint64)
            _, inverse = np.unique(together, return_inverse=True)
            labels = inverse.astype(np.uint64)
        _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
        if len(first) > MOST_CLASSES:
            refuse("the file", f"its parts tell {len(first)} classes of characters apart, but at most {MOST_CLASSES}")
        self.of = inverse.astype(np.uint32)
        self.representatives = first.astype(np.int64)

    def pages(self) -> tuple[NDArray[np.uint16], NDArray[np.uint8]]:
        """The page of each 256 characters, up to 2^21, and the classes by page."""
        rows, page = np.unique(self.of.reshape(-1, PAGE).astype(np.uint8), axis=0, return_inverse=True)
        numbers = np.zeros(1 << 13, np.uint16)
        numbers[: len(page.ravel())] = page.ravel()
        return numbers, rows.ravel()

"""The pages of the sequences of a model, as `runtime/language/pages.c` keeps them."""

from __future__ import annotations

import ctypes

import numpy as np

from deploykit.language.library import CPages, library


class PageTable:
    """Sequences by their numbers, the rows of `table` (sequences, blocks); a page that is not there is -1."""

    def __init__(
        self,
        count: int,
        sequences: int,
        blocks: int,
        size: int,
        window: int | None,
        functions: ctypes.CDLL | None = None,
        *,
        whole: bool = False,
    ) -> None:
        self.library = functions or library()
        self._memory = np.zeros(self.library.dk_pages_bytes(count, sequences, blocks) // 8, np.int64)
        self._pages = CPages(count, sequences, blocks, size, window or 0, whole, 0)
        self.place = ctypes.byref(self._pages)
        self.library.dk_pages_open(self.place, self._memory.ctypes.data)
        self.table = self._memory[: sequences * blocks].reshape(sequences, blocks)
        start = sequences * blocks
        self.lengths = self._memory[start:].view(np.int32)[:sequences]
        """The tokens of each sequence whose keys and values are there; -1: no such sequence."""

    @property
    def count(self) -> int:
        return int(self._pages.count)

    @property
    def unused(self) -> int:
        """Pages that no sequence holds."""
        return int(self._pages.unused)

    def begin(self) -> int | None:
        """A new sequence; None if there are too many."""
        return _number(self.library.dk_pages_begin(self.place))

    def fork(self, sequence: int, length: int) -> int | None:
        """A new sequence that shares up to `length` tokens of another one; None if there are too many."""
        return _number(self.library.dk_pages_fork(self.place, sequence, length))

    def reserve(self, sequence: int, more: int) -> bool:
        """Hold pages for further tokens; False, with nothing changed, if there are not enough."""
        return bool(self.library.dk_pages_reserve(self.place, sequence, more))

    def append(self, sequence: int, more: int) -> None:
        """Further tokens are there."""
        self.library.dk_pages_append(self.place, sequence, more)

    def cut(self, sequence: int, length: int) -> None:
        """Forget tokens behind the first `length`, and those that share a page with others; with `whole` also those of
        a page that does not remain as a whole."""
        self.library.dk_pages_cut(self.place, sequence, length)

    def fail(self, sequence: int) -> None:
        """A step with further tokens did not end: forget what it may have changed."""
        self.library.dk_pages_fail(self.place, sequence)

    def end(self, sequence: int) -> None:
        self.library.dk_pages_end(self.place, sequence)


def _number(found: int) -> int | None:
    return None if found < 0 else found

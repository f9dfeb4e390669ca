"""Sequences as bytes, as `runtime/language/saved.c` saves them."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

import numpy as np

from deploykit.errors import DataError, UsageError
from deploykit.language.library import CCaches, CSaved

if TYPE_CHECKING:
    from collections.abc import Sequence

    from deploykit.language.pages import PageTable

_ERROR_DATA = 7


class Caches:
    """The states of a model in `block`, whose pages have these bytes in each state; `build` tells it from others."""

    def __init__(self, block: np.ndarray, pages: PageTable, page_bytes: Sequence[int], build: str) -> None:
        self._block, self._pages = block, pages
        self._page_bytes = (ctypes.c_int64 * len(page_bytes))(*page_bytes)
        self._build = bytes.fromhex(build)
        # In front of the states, the block has the sizes that it was made for.
        size = sum(-(-pages.count * each // 64) * 64 for each in page_bytes)
        first = block.ctypes.data + block.nbytes - size
        self._caches = CCaches(first, ctypes.addressof(self._page_bytes), self._build, len(page_bytes))

    def save(self, row: int, tokens: Sequence[int], note: bytes) -> bytes:
        """The tokens of a sequence, what the model remembers of them, and a note."""
        pages, given = self._pages, np.asarray(tokens, np.int32)
        places = pages.place, row
        caches = ctypes.byref(self._caches)
        saved = ctypes.create_string_buffer(
            pages.library.dk_saved_bytes(*places, len(given), caches, len(note)),
        )
        pages.library.dk_save(*places, given.ctypes.data, len(given), caches, note, len(note), saved)
        return saved.raw

    def opened(self, saved: bytes, words: int) -> Saved:
        """What was saved. Raises `DataError` and `UsageError`."""
        pages, found = self._pages, CSaved()
        status = pages.library.dk_saved_open(
            ctypes.byref(found), pages.place, ctypes.byref(self._caches), words, saved, len(saved)
        )
        if status == _ERROR_DATA:
            raise DataError("this is no saved conversation of a model, or it is cut off or altered")
        if status:
            raise UsageError("it was saved with another build of a model: what that remembers means nothing here")
        return Saved(found, saved)

    def restore(self, saved: Saved, row: int) -> bool:
        """Let a sequence without tokens have what was saved; False if there are not enough pages."""
        pages = self._pages
        return bool(
            pages.library.dk_restore(ctypes.byref(saved.entry), pages.place, row, ctypes.byref(self._caches)),
        )


class Saved:
    """The parts of what was saved."""

    def __init__(self, entry: CSaved, owner: bytes) -> None:
        self.entry, self._owner = entry, owner
        self.tokens: list[int] = np.frombuffer(ctypes.string_at(entry.tokens, 4 * entry.count), np.int32).tolist()
        self.note: bytes = ctypes.string_at(entry.note, entry.note_bytes)

"""Files whose bytes are read where they are looked at, and let go of after: the weights of a model, of which a build
needs one after the other.

What is looked at takes memory until `forget`, and may be looked at again. A file that changes meanwhile would give
other bytes, or none: `MappedFile.require_unchanged`.
"""

from __future__ import annotations

import mmap
import os
import weakref
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from deploykit.errors import UsageError


@dataclass(frozen=True)
class MappedFile:
    """`data`: its bytes; `handle`: the open file, whatever becomes of its name; `stamp`: how it was then."""

    path: Path
    data: memoryview
    handle: int | None
    stamp: tuple[int, ...]

    def require_unchanged(self) -> None:
        """Raises `UsageError` when the file was written to since it was mapped; to remove or replace it is no harm."""
        if self.handle is not None and _stamp(self.handle) != self.stamp:
            raise UsageError(f"{self.path} has changed since it was loaded; load it again")


_places: weakref.WeakKeyDictionary[mmap.mmap, int] = weakref.WeakKeyDictionary()
"""Where the files that are mapped begin in memory."""


def mapped(path: Path) -> MappedFile:
    """Raises `OSError` as the file system does."""
    with path.open("rb") as file:
        if not file.seek(0, os.SEEK_END):
            return MappedFile(path, memoryview(b""), None, ())
        # A private mapping: arrays that share memory with others must be writable ones. Nobody writes to them.
        pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        handle = os.dup(file.fileno())
    weakref.finalize(pages, os.close, handle)
    _places[pages] = np.frombuffer(pages, np.uint8).ctypes.data
    return MappedFile(path, memoryview(pages), handle, _stamp(handle))


def _stamp(handle: int) -> tuple[int, ...]:
    found = os.fstat(handle)
    return found.st_size, found.st_mtime_ns


def forget(array: np.ndarray) -> None:
    """Give back the memory of those pages that only this part of a mapped file lies in; any other array stays."""
    for pages, place in list(_places.items()):
        first = array.ctypes.data - place
        if array.flags.c_contiguous and 0 <= first < len(pages):
            begin = -(-first // mmap.PAGESIZE) * mmap.PAGESIZE
            end = (first + array.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
            if begin < end:
                pages.madvise(mmap.MADV_DONTNEED, begin, end - begin)

"""Memory-mapped files for the weights of a model, which a build needs one after another.

A part of a file takes memory from the first access until `forget`, and can be read again after that. If the file
changed meanwhile, the bytes would differ or be gone: `MappedFile.require_unchanged` checks for that.
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
    """A mapped file: `data` are its bytes, `stamp` its size and time of change when it was mapped.

    `handle` is the open file, so it stays valid when the path is removed or replaced; None for an empty file."""

    path: Path
    data: memoryview
    handle: int | None
    stamp: tuple[int, ...]

    def require_unchanged(self) -> None:
        """Raise `UsageError` if the file was written to since it was mapped. Removing or replacing it does no harm."""
        if self.handle is not None and _stamp(self.handle) != self.stamp:
            raise UsageError(f"{self.path} has changed since it was loaded; load it again")


_places: weakref.WeakKeyDictionary[mmap.mmap, int] = weakref.WeakKeyDictionary()
"""The address at which each mapped file begins."""


def mapped(path: Path) -> MappedFile:
    """Map the file at `path`. Raises `OSError` as the file system does."""
    with path.open("rb") as file:
        if not file.seek(0, os.SEEK_END):
            return MappedFile(path, memoryview(b""), None, ())
        # A private, writable mapping, because NumPy shares only writable arrays through DLPack. Nobody writes.
        pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        handle = os.dup(file.fileno())
    weakref.finalize(pages, os.close, handle)
    _places[pages] = np.frombuffer(pages, np.uint8).ctypes.data
    return MappedFile(path, memoryview(pages), handle, _stamp(handle))


def _stamp(handle: int) -> tuple[int, ...]:
    found = os.fstat(handle)
    return found.st_size, found.st_mtime_ns


def forget(array: np.ndarray) -> None:
    """Give back the memory of the pages that `array` fills completely, if it lies in a mapped file."""
    for pages, place in list(_places.items()):
        first = array.ctypes.data - place
        if array.flags.c_contiguous and 0 <= first < len(pages):
            begin = -(-first // mmap.PAGESIZE) * mmap.PAGESIZE
            end = (first + array.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
            if begin < end:
                pages.madvise(mmap.MADV_DONTNEED, begin, end - begin)

"""Memory-mapped files for the weights of a model, which a build needs one after another.

A part of a file takes memory from the first access until `forget`, and can be read again after that. If the file
changed meanwhile, the bytes would differ or be gone: `MappedFile.require_unchanged` checks for that.

What a build makes of weights is as large as they are. `set_aside` puts it into a temporary file without a name, which
is mapped in the same way, so that a build holds few weights in memory at any time.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

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


def is_mapped(array: np.ndarray) -> bool:
    """Whether `array` lies in a mapped file."""
    return any(0 <= array.ctypes.data - place < len(pages) for pages, place in list(_places.items()))


PIECE = 4 << 20
"""The most bytes that are computed or copied at once, where rows allow."""


def pieces(array: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
    """Parts of `array` along its first axis, with their places. The memory of each is given back after its turn."""
    rows = max(1, PIECE * len(array) // max(array.nbytes, 1))
    for start in range(0, len(array), rows):
        place = slice(start, min(start + rows, len(array)))
        yield place, array[place]
        forget(array[place])


LEAST = 1 << 20
"""The fewest bytes of an array that is set aside."""

ROOM = 1 << 30
"""The bytes of a temporary file, unless one array has more. They take space on the disk as they are written."""


@dataclass
class _Room:
    """A temporary file without a name, which is empty from `end` on. It lasts as long as arrays in it."""

    pages: weakref.ref[mmap.mmap]
    handle: int
    end: int


_rooms: list[_Room] = []
"""The room to be filled next, if there is one."""

_lock = Lock()


def set_aside(array: np.ndarray, dtype: np.dtype[Any] | None = None) -> np.ndarray:
    """`array`, with its elements in order and converted to `dtype`, in a temporary file: nobody may write to it. An
    array that is small, or for which the disk has no room, is in memory."""
    dtype = array.dtype if dtype is None else np.dtype(dtype)
    size = array.size * dtype.itemsize
    if size < LEAST:
        return np.ascontiguousarray(array, dtype)
    with _lock:
        try:
            pages, begin = _written(array, dtype, size)
        except OSError:
            return np.ascontiguousarray(array, dtype)
    return np.frombuffer(pages, dtype, array.size, begin).reshape(array.shape)


def _written(array: np.ndarray, dtype: np.dtype[Any], size: int) -> tuple[mmap.mmap, int]:
    """The file that `array` is written to, and the byte at which it begins."""
    room = _rooms[0] if _rooms else None
    pages = None if room is None else room.pages()
    if room is None or pages is None or room.end + size > len(pages):
        pages, room = _empty_room(max(ROOM, size))
        _rooms[:] = [room]
    begin = end = room.end
    for _, piece in pieces(array):
        data = np.ascontiguousarray(piece, dtype).reshape(-1).view(np.uint8).data
        while data:
            written = os.pwrite(room.handle, data, end)
            data, end = data[written:], end + written
    room.end = -(-end // mmap.PAGESIZE) * mmap.PAGESIZE
    return pages, begin


def _empty_room(size: int) -> tuple[mmap.mmap, _Room]:
    with tempfile.TemporaryFile(prefix="deploykit-") as file:
        file.truncate(size)
        pages = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY)
        handle = os.dup(file.fileno())
    weakref.finalize(pages, os.close, handle)
    _places[pages] = np.frombuffer(pages, np.uint8).ctypes.data
    return pages, _Room(weakref.ref(pages), handle, 0)

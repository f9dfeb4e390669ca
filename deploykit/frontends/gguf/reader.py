"""Reads GGUF files without copies: metadata, and for each tensor a view of its bytes in the mapped file.

A file is a header, entries of metadata with names and types, descriptions of tensors, and the data of the tensors at
aligned offsets; all numbers are little-endian. (Source: the GGUF specification of ggml, versions 2 and 3.)
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from deploykit.basics.mapped import MappedFile, mapped
from deploykit.errors import UsageError

MAGIC = b"GGUF"
VERSIONS = (2, 3)
MOST_AXES = 4

NUMBERS: Mapping[int, str] = {
    0: "<u1",
    1: "<i1",
    2: "<u2",
    3: "<i2",
    4: "<u4",
    5: "<i4",
    6: "<f4",
    7: "?",
    10: "<u8",
    11: "<i8",
    12: "<f8",
}
"""The dtypes of numbers in metadata, by their codes."""

TEXT, ARRAY = 8, 9

_ALIGNMENT = "general.alignment"


@dataclass(frozen=True)
class Stored:
    """A tensor as it is stored: `format` is the code of its format, `shape` is as NumPy has it, the last axis next to
    each other in memory; `data` are its bytes."""

    format: int
    shape: tuple[int, ...]
    data: np.ndarray


@dataclass(frozen=True)
class Gguf:
    """A file: `metadata` by name, with arrays as NumPy arrays or lists of texts, and `tensors` by name."""

    file: MappedFile
    metadata: Mapping[str, Any]
    tensors: Mapping[str, Stored]

    @property
    def path(self) -> Path:
        return self.file.path


def read_gguf(path: Path, blocks: Mapping[int, tuple[int, int]]) -> Gguf:
    """Read the file at `path`. `blocks` gives for each format the elements and the bytes of a block.

    Raises `UsageError` if it is no GGUF file, or is damaged or cut off, or has a tensor of an unknown format."""
    try:
        file = mapped(path)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    cursor = _Cursor(path, file.data)
    if bytes(cursor.take(4)) != MAGIC:
        raise UsageError(f"{path} is no GGUF file: it does not begin with {MAGIC.decode()}")
    version = cursor.number("<u4")
    if version not in VERSIONS:
        big = int.from_bytes(version.to_bytes(4, "little"), "big") in VERSIONS
        why = "its numbers are big-endian" if big else f"its version is {version}; there are {VERSIONS}"
        raise UsageError(f"{path} cannot be read: {why}")
    count, entries = cursor.number("<u8"), cursor.number("<u8")
    metadata: dict[str, Any] = {}
    for _ in range(entries):
        name = cursor.text()
        metadata[name] = cursor.value(cursor.number("<u4"))
    tensors = [_described(cursor) for _ in range(count)]
    alignment = metadata.get(_ALIGNMENT, 32)
    if not isinstance(alignment, int) or alignment < 1 or alignment & (alignment - 1):
        raise UsageError(f"{path} is damaged: its alignment is {alignment!r}")
    body = -(-cursor.at // alignment) * alignment
    return Gguf(file, metadata, _placed(path, file.data, body, tensors, blocks))


def _described(cursor: _Cursor) -> tuple[str, tuple[int, ...], int, int]:
    name, axes = cursor.text(), cursor.number("<u4")
    if axes > MOST_AXES:
        raise UsageError(f"{cursor.path} is damaged: '{name:.60}' has {axes} axes")
    shape = tuple(cursor.number("<u8") for _ in range(axes))
    return name, shape[::-1], cursor.number("<u4"), cursor.number("<u8")


def _placed(
    path: Path,
    data: memoryview,
    body: int,
    tensors: list[tuple[str, tuple[int, ...], int, int]],
    blocks: Mapping[int, tuple[int, int]],
) -> dict[str, Stored]:
    found: dict[str, Stored] = {}
    last, end = "", 0
    for name, shape, code, offset in sorted(tensors, key=lambda tensor: tensor[3]):
        if name in found:
            raise UsageError(f"{path} is damaged: it has two tensors '{name:.60}'")
        if code not in blocks:
            raise UsageError(f"'{name:.60}' in {path} has the unknown format {code}: convert the file to another one")
        elements, size = blocks[code]
        if (shape[-1] if shape else 1) % elements:
            raise UsageError(
                f"{path} is damaged: rows of '{name:.60}' have {shape[-1]} elements, no blocks of {elements}"
            )
        length = prod(shape) // elements * size
        if offset < end:
            raise UsageError(
                f"{path} is damaged: '{name:.60}' begins at byte {offset} of the data, within '{last:.60}'"
            )
        last, end = name, offset + length
        if body + end > len(data):
            raise UsageError(
                f"{path} is cut off: '{name:.60}' ends at byte {body + end} of {len(data)}; download the file again"
            )
        found[name] = Stored(code, shape, np.frombuffer(data[body + offset : body + end], np.uint8))
    return {name: found[name] for name, *_ in tensors}


class _Cursor:
    """Reads values one after the other."""

    def __init__(self, path: Path, data: memoryview) -> None:
        self.path = path
        self.at = 0
        self._data = data

    def take(self, count: int) -> memoryview:
        end = self.at + count
        if end > len(self._data):
            raise UsageError(f"{self.path} is cut off within its header: it has {len(self._data)} bytes")
        found = self._data[self.at : end]
        self.at = end
        return found

    def number(self, dtype: str) -> Any:
        kind = np.dtype(dtype)
        return np.frombuffer(self.take(kind.itemsize), kind)[0].item()

    def text(self) -> str:
        (length,) = struct.unpack("<Q", self.take(8))
        return bytes(self.take(length)).decode("utf-8", "replace")

    def value(self, kind: int, depth: int = 0) -> Any:
        if kind in NUMBERS:
            return self.number(NUMBERS[kind])
        if kind == TEXT:
            return self.text()
        if kind == ARRAY and depth < MOST_AXES:
            inner, length = struct.unpack("<IQ", self.take(12))
            if inner in NUMBERS:
                dtype = np.dtype(NUMBERS[inner])
                return np.frombuffer(self.take(length * dtype.itemsize), dtype)
            if length > len(self._data):
                raise UsageError(f"{self.path} is damaged: an array of its metadata has {length} elements")
            return [self.value(inner, depth + 1) for _ in range(length)]
        raise UsageError(f"{self.path} is damaged: its metadata has a value of the unknown type {kind}")

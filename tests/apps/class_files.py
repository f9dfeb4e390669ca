"""Methods and fields of classes in a jar, from their class files (Java Virtual Machine Specification, chapter 4)."""

from __future__ import annotations

import struct
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Self

PRIVATE, PACKAGE = 2, 0
_VISIBLE = 1 | 4
"""The flags of public and of protected members."""

_SIZES = {3: 4, 4: 4, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}
"""By the tag of a constant: the bytes that follow it. Texts and numbers of 64 bits are others."""


@dataclass(frozen=True)
class Member:
    """A method or a field. `annotations` are the names of the classes of its annotations."""

    visible: bool
    annotations: frozenset[str]


@dataclass(frozen=True)
class ClassFile:
    """A class: what it extends and implements, and its members by name and descriptor."""

    parents: tuple[str, ...]
    members: dict[tuple[str, str], Member]


class Jar:
    """The classes of a jar, each read when it is asked for."""

    def __init__(self, path: Path) -> None:
        self._archive = zipfile.ZipFile(path)
        self._names = set(self._archive.namelist())
        self._read: dict[str, ClassFile] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._archive.close()

    def has(self, name: str) -> bool:
        """Whether there is a class, as in `android/app/Activity`."""
        return f"{name}.class" in self._names

    def member(self, owner: str, name: str, descriptor: str) -> Member | None:
        """A member of a class or of what it extends and implements; None if there is none."""
        if not self.has(owner):
            return None
        if owner not in self._read:
            self._read[owner] = parsed(self._archive.read(f"{owner}.class"))
        found = self._read[owner].members.get((name, descriptor))
        if found is not None:
            return found
        inherited = (self.member(parent, name, descriptor) for parent in self._read[owner].parents)
        return next((each for each in inherited if each is not None), None)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def number(self, form: str) -> int:
        (value,) = struct.unpack_from(f">{form}", self._data, self._at)
        self._at += struct.calcsize(f">{form}")
        return int(value)

    def bytes(self, count: int) -> bytes:
        self._at += count
        return self._data[self._at - count : self._at]


def parsed(data: bytes) -> ClassFile:
    """A class file."""
    reader = _Reader(data)
    reader.bytes(8)
    texts, classes = _constants(reader)
    reader.bytes(4)
    above = reader.number("H")
    parents = [above, *(reader.number("H") for _ in range(reader.number("H")))]
    members = {key: member for _ in range(2) for key, member in _members(reader, texts)}
    return ClassFile(tuple(texts[classes[index]] for index in parents if index), members)


def _constants(reader: _Reader) -> tuple[dict[int, str], dict[int, int]]:
    """The texts and the classes among the constants, by number; a class is the number of its name."""
    texts, classes = {}, {}
    count, index = reader.number("H"), 1
    while index < count:
        tag = reader.number("B")
        if tag == 1:
            texts[index] = reader.bytes(reader.number("H")).decode("utf-8", "replace")
        elif tag == 7:
            classes[index] = reader.number("H")
        else:
            reader.bytes(8 if tag in (5, 6) else _SIZES[tag])
        index += 2 if tag in (5, 6) else 1
    return texts, classes


def _members(reader: _Reader, texts: dict[int, str]) -> list[tuple[tuple[str, str], Member]]:
    """The next table of fields or of methods."""
    found = []
    for _ in range(reader.number("H")):
        flags, name, descriptor = (reader.number("H") for _ in range(3))
        annotations: set[str] = set()
        for _ in range(reader.number("H")):
            attribute = texts[reader.number("H")]
            content = reader.bytes(reader.number("I"))
            if attribute in ("RuntimeInvisibleAnnotations", "RuntimeVisibleAnnotations"):
                # Names are enough: those of annotations are texts that begin with L, as `Landroid/annotation/...;`.
                numbers = {struct.unpack_from(">H", content, at)[0] for at in range(2, len(content) - 1)}
                annotations |= {texts[each][1:-1] for each in numbers if texts.get(each, "").endswith(";")}
        found.append(((texts[name], texts[descriptor]), Member(bool(flags & _VISIBLE), frozenset(annotations))))
    return found

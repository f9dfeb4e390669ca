"""What a library for macOS says of itself, read from its file (Apple's <mach-o/loader.h> and <mach-o/nlist.h>)."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

X86_64, ARM64 = 0x01000007, 0x0100000C
"""The numbers of CPUs."""

_MAGIC, _LIBRARY = 0xFEEDFACF, 6
_SYMBOLS, _LOADED, _NAME, _SIGNATURE = 0x2, 0xC, 0xD, 0x1D
_EXTERNAL, _KIND = 0x01, 0x0E


@dataclass
class Library:
    """A library: its CPU, its name, the libraries and the symbols that it needs, and the symbols that it exports."""

    cpu: int
    name: str = ""
    signed: bool = False
    needed: list[str] = field(default_factory=list)
    undefined: set[str] = field(default_factory=set)
    exported: set[str] = field(default_factory=set)


def read(data: bytes) -> Library:
    """A file with one library."""
    magic, cpu, _, kind, count = struct.unpack_from("<5I", data)
    assert (magic, kind) == (_MAGIC, _LIBRARY)
    library, at = Library(cpu), 32
    for _ in range(count):
        command, size = struct.unpack_from("<2I", data, at)
        if command in (_LOADED, _NAME):
            name = _text(data, at + struct.unpack_from("<I", data, at + 8)[0])
            library.name = name if command == _NAME else library.name
            library.needed += [name] if command == _LOADED else []
        if command == _SYMBOLS:
            _read_symbols(data, at, library)
        library.signed |= command == _SIGNATURE
        at += size
    return library


def _read_symbols(data: bytes, at: int, library: Library) -> None:
    first, count, texts, _ = struct.unpack_from("<4I", data, at + 8)
    for number in range(count):
        name, kind, _, _, _ = struct.unpack_from("<IBBHQ", data, first + 16 * number)
        if kind & _EXTERNAL:
            (library.exported if kind & _KIND else library.undefined).add(_text(data, texts + name))


def _text(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode()

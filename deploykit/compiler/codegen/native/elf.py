"""Joins relocatable ELF objects into one and removes what a linker does not need.

`join(objects)` keeps every section of every object under a header of its own, so that code, data and relocations stay
as they are. It drops the sections with debug information and their relocations, the names of source files, and the
conversions of half precision if nothing calls them. Weak definitions become local, so that no symbol except the kernels
can clash with a symbol of another object. A symbol that several objects leave undefined occurs once. It takes 64-bit
little-endian objects of one machine without section groups. Layout: System V ABI, chapter 4 (object files).

`versions(library)` lists the versions of other libraries that a shared library needs. Layout: Linux Standard Base, Core
Specification, chapter 10.7 (symbol versioning).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_MAGIC = b"\x7fELF\x02\x01"
_NEED = struct.Struct("<HHIII")
_NEEDED_VERSION = struct.Struct("<IHHII")
_NULL, _SYMTAB, _STRTAB, _RELA, _NOBITS, _GROUP, _VERNEED = 0, 2, 3, 4, 8, 17, 0x6FFFFFFE
_RESERVED = 0xFF00
_FILE = 4
_LOCAL, _WEAK = 0, 2

_HALF = b".text.tvm.fp16.conv"
"""The section of code for half precision that LLVM may call. Every object has it, even if it makes no such call."""


@dataclass(frozen=True)
class _Section:
    """A section header with its contents. `link` and `info` are section indices where the type says so."""

    name: bytes
    type: int
    flags: int
    size: int
    link: int
    info: int
    align: int
    entry_size: int
    data: bytes


@dataclass(frozen=True)
class _Symbol:
    name: bytes
    info: int
    other: int
    section: int
    value: int
    size: int

    @property
    def local(self) -> bool:
        return self.info >> 4 == _LOCAL


def join(objects: Sequence[bytes]) -> bytes:
    """Join ELF objects into one. Raises `ValueError` for other data, and if there are no objects."""
    if not all(data.startswith(_MAGIC) for data in objects) or not objects:
        raise ValueError("not a 64-bit little-endian ELF object")
    sections = [_read_sections(objects[0])[0]]
    symbols: list[_Symbol] = []
    moved = [_take(_read_sections(data), sections, symbols) for data in objects]
    order = sorted(range(len(symbols)), key=lambda index: not symbols[index].local)
    places = {old: new for new, old in enumerate(order)}
    for first, last, renumbered in moved:
        numbers = {old: places[index] for old, index in renumbered.items()}
        for index in range(first, last):
            if sections[index].type == _RELA:
                sections[index] = replace(sections[index], data=_relocate(sections[index].data, numbers))
    return _write(_HEADER.unpack_from(objects[0]), sections, [symbols[index] for index in order])


def versions(library: bytes) -> set[str]:
    """The versions that a shared library needs, such as `GLIBC_2.17`; none for other data."""
    found: set[str] = set()
    if not library.startswith(_MAGIC):
        return found
    sections = _read_sections(library)
    for section in (section for section in sections if section.type == _VERNEED):
        at, following = 0, 1
        while following:
            _, count, _, first, following = _NEED.unpack_from(section.data, at)
            place = at + first
            for _ in range(count):
                _, _, _, name, step = _NEEDED_VERSION.unpack_from(section.data, place)
                found.add(_string(sections[section.link].data, name).decode())
                place += step
            at += following
    return found


def _take(found: list[_Section], sections: list[_Section], symbols: list[_Symbol]) -> tuple[int, int, dict[int, int]]:
    """Add the kept sections and symbols of an object to `sections` and `symbols`. Returns the range of its sections,
    and a map from the indices of its symbols in the object to those in `symbols`.
    """
    if any(section.type == _GROUP for section in found):
        raise ValueError("the ELF object has section groups")
    (table,) = (i for i, section in enumerate(found) if section.type == _SYMTAB)
    dropped = (b".debug",) if _calls_half(found, table) else (b".debug", _HALF)
    kept = [i for i, s in enumerate(found) if not s.name.removeprefix(b".rela").startswith(dropped)]
    kept = [i for i in kept if found[i].type not in (_NULL, _SYMTAB, _STRTAB)]
    first = len(sections)
    moved = {0: 0} | {old: new for new, old in enumerate(kept, first)}
    for i in kept:
        info = moved[found[i].info] if found[i].type == _RELA else found[i].info
        sections.append(replace(found[i], link=moved.get(found[i].link, 0), info=info))
    return first, len(sections), _take_symbols(found, table, moved, symbols)


def _take_symbols(found: list[_Section], table: int, moved: dict[int, int], symbols: list[_Symbol]) -> dict[int, int]:
    names = found[found[table].link].data
    undefined = {symbol.name: at for at, symbol in enumerate(symbols) if symbol.section == 0}
    places: dict[int, int] = {}
    for index, (name, info, other, section, value, size) in enumerate(_SYMBOL.iter_unpack(found[table].data)):
        placed = section if section >= _RESERVED else moved.get(section)
        if info & 15 == _FILE or placed is None:
            continue
        kind = info & 15 if info >> 4 == _WEAK and placed != 0 else info
        symbol = _Symbol(_string(names, name), kind, other, placed, value, size)
        if placed == 0 and symbol.name in undefined:
            places[index] = undefined[symbol.name]
            continue
        places[index] = len(symbols)
        symbols.append(symbol)
    return places


def _read_sections(data: bytes) -> list[_Section]:
    header = _HEADER.unpack_from(data)
    start, size, count, names = header[6], *header[11:14]
    raw = [_SECTION.unpack_from(data, start + i * size) for i in range(count)]
    table = data[raw[names][4] : raw[names][4] + raw[names][5]]
    sections = []
    for name, kind, flags, _, at, length, link, info, align, entry in raw:
        contents = b"" if kind == _NOBITS else data[at : at + length]
        sections.append(_Section(_string(table, name), kind, flags, length, link, info, align, entry, contents))
    return sections


def _string(table: bytes, at: int) -> bytes:
    return table[at : table.index(b"\0", at)] if table else b""


def _calls_half(sections: list[_Section], table: int) -> bool:
    """Whether a relocation of kept code refers to a symbol of the half precision section."""
    symbols = list(_SYMBOL.iter_unpack(sections[table].data))
    code = [s for s in sections if s.type == _RELA and not s.name.startswith((b".rela.debug", b".rela" + _HALF))]
    placed = (symbols[info >> 32][3] for s in code for _, info, _ in _RELOCATION.iter_unpack(s.data))
    return any(section < _RESERVED and sections[section].name == _HALF for section in placed)


def _relocate(data: bytes, renumbered: dict[int, int]) -> bytes:
    return b"".join(
        _RELOCATION.pack(at, renumbered[info >> 32] << 32 | info & 0xFFFFFFFF, addend)
        for at, info, addend in _RELOCATION.iter_unpack(data)
    )


class _Strings:
    """The string table of the new object, which symbols and sections share."""

    def __init__(self) -> None:
        self.data = bytearray(1)
        self._at: dict[bytes, int] = {b"": 0}

    def add(self, text: bytes) -> int:
        if text not in self._at:
            self._at[text] = len(self.data)
            self.data += text + b"\0"
        return self._at[text]


def _write(header: tuple[int, ...], sections: list[_Section], symbols: Sequence[_Symbol]) -> bytes:
    strings, count = _Strings(), len(sections)
    named = [replace(section, link=count) if section.type == _RELA else section for section in sections]
    packed = b"".join(_SYMBOL.pack(strings.add(s.name), s.info, s.other, s.section, s.value, s.size) for s in symbols)
    local = sum(symbol.local for symbol in symbols)
    named.append(_Section(b".symtab", _SYMTAB, 0, len(packed), count + 1, local, 8, _SYMBOL.size, packed))
    offsets = [strings.add(section.name.replace(_HALF, b".text.half")) for section in named]
    offsets.append(strings.add(b".strtab"))
    named.append(_Section(b".strtab", _STRTAB, 0, len(strings.data), 0, 0, 1, 0, bytes(strings.data)))
    body, headers = bytearray(_HEADER.size), bytearray()
    for name, section in zip(offsets, named, strict=True):
        body += bytes(-len(body) % max(section.align, 1))
        offset = len(body) if section.type else 0
        tail = (section.link, section.info, section.align, section.entry_size)
        headers += _SECTION.pack(name, section.type, section.flags, 0, offset, section.size, *tail)
        body += section.data
    body += bytes(-len(body) % 8)
    fields = (*header[:6], len(body), *header[7:12], len(named), count + 1)
    body[: _HEADER.size] = _HEADER.pack(*fields)
    return bytes(body + headers)

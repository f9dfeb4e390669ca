"""Relocatable ELF objects reduced to what a linker needs.

`strip(data)` drops the sections with debug information and their relocations, the names of source files, and the
conversions of half precision when nothing calls them. Weak definitions become local, so that nothing but the kernels
can meet the symbols of another object. Other code, data and relocations are untouched. For 64-bit little-endian objects
without section groups. Layout: System V ABI, chapter 4 (object files).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_MAGIC = b"\x7fELF\x02\x01"
_SYMTAB, _STRTAB, _RELA, _NOBITS, _GROUP = 2, 3, 4, 8, 17
_RESERVED = 0xFF00
_FILE = 4
_LOCAL, _WEAK = 0, 2

_HALF = b".text.tvm.fp16.conv"
"""Code for half precision that LLVM may call; objects have it whether they do or not."""


@dataclass(frozen=True)
class _Section:
    """A section header with its contents; `link` and `info` are section indices where its type says so."""

    name: bytes
    type: int
    flags: int
    size: int
    link: int
    info: int
    align: int
    entry_size: int
    data: bytes


def strip(data: bytes) -> bytes:
    """Raises `ValueError` for data that is not such an object."""
    if not data.startswith(_MAGIC):
        raise ValueError("not a 64-bit little-endian ELF object")
    header = _HEADER.unpack_from(data)
    sections = _read_sections(data, header)
    if any(section.type == _GROUP for section in sections):
        raise ValueError("the ELF object has section groups")
    (table,) = (i for i, section in enumerate(sections) if section.type == _SYMTAB)
    dropped = (b".debug",) if _calls_half(sections, table) else (b".debug", _HALF)
    kept = [i for i, s in enumerate(sections) if not s.name.removeprefix(b".rela").startswith(dropped)]
    moved = {old: new for new, old in enumerate(kept)}
    symbols, renumbered = _keep_symbols(sections[table], moved)
    strings = _Strings()
    result = []
    for i in kept:
        section = sections[i]
        if i == table:
            section = _symbol_section(section, symbols, sections[section.link].data, strings)
        elif section.type == _RELA:
            section = replace(section, data=_relocate(section.data, renumbered), info=moved[section.info])
        result.append(replace(section, link=moved[section.link]))
    return _write(header, result, moved[header[-1]], strings)


def _read_sections(data: bytes, header: tuple[int, ...]) -> list[_Section]:
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


def _keep_symbols(table: _Section, moved: dict[int, int]) -> tuple[list[tuple[int, ...]], dict[int, int]]:
    """The symbols that stay, local ones first, their sections renumbered; and their new indices by the old ones."""
    kept: dict[int, tuple[int, ...]] = {}
    for index, (name, info, other, section, value, size) in enumerate(_SYMBOL.iter_unpack(table.data)):
        placed = section if section >= _RESERVED else moved.get(section)
        if info & 15 == _FILE or placed is None:
            continue
        local = info & 15 if info >> 4 == _WEAK and placed != 0 else info
        kept[index] = (name, local, other, placed, value, size)
    order = sorted(kept, key=lambda index: kept[index][1] >> 4 != _LOCAL)
    return [kept[index] for index in order], {old: new for new, old in enumerate(order)}


def _symbol_section(section: _Section, symbols: list[tuple[int, ...]], names: bytes, strings: _Strings) -> _Section:
    data = b"".join(_SYMBOL.pack(strings.add(_string(names, symbol[0])), *symbol[1:]) for symbol in symbols)
    first_global = sum(symbol[1] >> 4 == _LOCAL for symbol in symbols)
    return replace(section, data=data, size=len(data), info=first_global)


def _relocate(data: bytes, renumbered: dict[int, int]) -> bytes:
    return b"".join(
        _RELOCATION.pack(at, renumbered[info >> 32] << 32 | info & 0xFFFFFFFF, addend)
        for at, info, addend in _RELOCATION.iter_unpack(data)
    )


class _Strings:
    """The one string table of the new object, for symbols and sections."""

    def __init__(self) -> None:
        self.data = bytearray(1)
        self._at: dict[bytes, int] = {b"": 0}

    def add(self, text: bytes) -> int:
        if text not in self._at:
            self._at[text] = len(self.data)
            self.data += text + b"\0"
        return self._at[text]


def _write(header: tuple[int, ...], sections: list[_Section], names: int, strings: _Strings) -> bytes:
    name_offsets = [strings.add(section.name.replace(_HALF, b".text.half")) for section in sections]
    body, headers = bytearray(_HEADER.size), bytearray()
    for name, section in zip(name_offsets, sections, strict=True):
        contents = bytes(strings.data) if section.type == _STRTAB else section.data
        length = section.size if section.type == _NOBITS else len(contents)
        body += bytes(-len(body) % max(section.align, 1))
        offset = len(body) if section.type else 0
        tail = (section.link, section.info, section.align, section.entry_size)
        headers += _SECTION.pack(name, section.type, section.flags, 0, offset, length, *tail)
        body += contents
    body += bytes(-len(body) % 8)
    fields = (*header[:6], len(body), *header[7:12], len(sections), names)
    body[: _HEADER.size] = _HEADER.pack(*fields)
    return bytes(body + headers)

"""Zip files for Android: entries that are not compressed begin at multiples of what maps them needs.

The alignment is written as Android's signing tool reads it, in the extra field 0xd935, so that it stays when the file
is signed. The bytes of a file depend on nothing but its entries.
"""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path

from deploykit.targets.android.jars import write_zip

PAGE = 16 << 10
"""Libraries are mapped in pages of 16 KiB at most."""
WEIGHTS = 64

_TIME = (1980, 1, 1, 0, 0, 0)
_HEADER, _BLOCK, _ALIGNMENT = 30, 6, 0xD935


def alignment(name: str) -> int | None:
    """The alignment of an entry that is stored as it is; None for one that is compressed."""
    if name.endswith(".so"):
        return PAGE
    if name.endswith(".bin"):
        return WEIGHTS
    return 4 if name == "resources.arsc" else None


def write_aligned(path: Path, entries: Mapping[str, bytes]) -> None:
    """Write a zip file with aligned entries."""
    with zipfile.ZipFile(path, "w", compresslevel=9) as archive:
        for name, data in entries.items():
            entry = zipfile.ZipInfo(name, _TIME)
            entry.external_attr = 0o644 << 16
            entry.create_system = 3
            bytes_ = alignment(name)
            entry.compress_type = zipfile.ZIP_DEFLATED if bytes_ is None else zipfile.ZIP_STORED
            if bytes_ is not None:
                assert archive.fp is not None
                start = archive.fp.tell() + _HEADER + len(name.encode()) + _BLOCK
                padding = -start % bytes_
                entry.extra = struct.pack("<HHH", _ALIGNMENT, 2 + padding, bytes_) + bytes(padding)
            archive.writestr(entry, data)


def offsets(path: Path) -> dict[str, int]:
    """Where the data of each entry begins that is not compressed."""
    found = {}
    with path.open("rb") as file, zipfile.ZipFile(file) as archive:
        for entry in archive.infolist():
            if entry.compress_type == zipfile.ZIP_STORED:
                file.seek(entry.header_offset + 26)
                name, extra = struct.unpack("<HH", file.read(4))
                found[entry.filename] = entry.header_offset + _HEADER + name + extra
    return found


def write_jar(path: Path, folder: Path) -> None:
    """Write a jar of the files below a folder."""
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    write_zip(path, {str(file.relative_to(folder)): file for file in files})


def entries_of(path: Path) -> dict[str, bytes]:
    """The entries of a zip file."""
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}

"""The constants of a program as C source: one const struct with the layout of `weights.bin`, one member per constant.

A small constant is written as numbers of its own type, which a person can read. A large constant, or one with values
that C has no literals for (infinities, NaN), is written as rows of bytes, which compilers read ten times faster.
Members named `gap...` fill the space up to the next offset. Bytes that are no constants, such as tables, are written in
the same way.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np

from deploykit.basics.mapped import forget, pieces
from deploykit.compiler.codegen.c.types import float_literal, integer_literal, storage_type
from deploykit.compiler.codegen.host.identifiers import Names
from deploykit.compiler.codegen.host.identifiers import prefix as prefix_of
from deploykit.compiler.codegen.weights.blob import by_offset, little_endian, weights_bytes

if TYPE_CHECKING:
    from deploykit.compiler.program.ir import Constant, Program

READABLE_ELEMENTS = 4096
"""Constants of up to this many elements are written as numbers."""

_ROW = 1024
_ROWS_AT_ONCE = 4096
_LINE = 110
_OCTAL = np.array([list(b"\\%03o" % byte) for byte in range(256)], dtype=np.uint8)

_SOURCE_HEAD = """\
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "these bytes are little-endian"
#endif
/* Rows of bytes are written as strings without a terminator. */
#if defined(__has_warning)
#if __has_warning("-Wunterminated-string-initialization")
#pragma clang diagnostic ignored "-Wunterminated-string-initialization"
#endif
#elif defined(__GNUC__) && __GNUC__ >= 15
#pragma GCC diagnostic ignored "-Wunterminated-string-initialization"
#endif
"""


def write_weights_c(program: Program, folder: Path) -> None:
    """Write `weights.h` and `weights.c`, which declare and define `<prefix>_weights`.

    Raises `OSError` from the file system.
    """
    prefix = prefix_of(program.name)
    with (folder / "weights.h").open("w", encoding="ascii") as header:
        header.write(_header(program, prefix))
    with (folder / "weights.c").open("wb") as source:
        source.write(f'/* The weights of {prefix}. */\n#include "weights.h"\n\n{_SOURCE_HEAD}\n'.encode())
        source.write(f"DK_ALIGNED const {prefix}_weights_t {prefix}_weights = {{\n".encode())
        for _, constant, gap in _layout(program):
            _write_constant(source, constant)
            if gap:
                source.write(b"    {0},\n")
        if not weights_bytes(program):
            source.write(b"    0,\n")
        source.write(b"};\n")


def write_bytes_c(data: bytes, prefix: str, what: str, folder: Path) -> None:
    """Write `<what>.h` and `<what>.c`, which declare and define the constant `<prefix>_<what>`, a struct of these
    bytes."""
    array = np.frombuffer(data, np.uint8)
    with (folder / f"{what}.h").open("w", encoding="ascii") as header:
        header.write(_declared(prefix, what, "_open", list(_rows("rows", array, ""))))
    with (folder / f"{what}.c").open("wb") as source:
        source.write(f'/* The {what} of {prefix}. */\n#include "{what}.h"\n\n{_SOURCE_HEAD}\n'.encode())
        source.write(f"DK_ALIGNED const {prefix}_{what}_t {prefix}_{what} = {{\n".encode())
        _write_rows(source, array)
        source.write(b"};\n")


def _header(program: Program, prefix: str) -> str:
    members = [line for name, constant, gap in _layout(program) for line in _members(name, constant, gap)]
    name, macro = f"{prefix}_weights", f"{prefix}_weights".upper()
    checksum = (
        f"/* Compare with dk_crc32(&{name}, {macro}_BYTES) to find weights that have changed in flash. */\n"
        f"#define {macro}_CRC32 0x{_checksum(program):08x}u\n\n"
    )
    return _declared(prefix, "weights", "_init", members or ["unsigned char none;"], checksum)


def _checksum(program: Program) -> int:
    """The CRC-32 of `weights.bin`."""
    found = 0
    for _, constant, gap in _layout(program):
        for _, piece in pieces(little_endian(constant.data)):
            found = zlib.crc32(piece.data, found)
        found = zlib.crc32(bytes(gap), found)
        forget(constant.data)
    return found


def _declared(prefix: str, what: str, taker: str, members: Sequence[str], macros: str = "") -> str:
    """A header with a constant struct, which the function that ends with `taker` takes."""
    upper, macro = f"{prefix}_{what}".upper(), f"{prefix}_{what}_h".upper()
    name = f"{prefix}_{what}"
    return (
        f"/* The {what} of {prefix}: pass `&{name}` and {upper}_BYTES to {prefix}{taker}. */\n"
        f'#ifndef {macro}\n#define {macro}\n\n#include "deploykit.h"\n\n{macros}'
        f"typedef struct {name}_t {{\n"
        + "".join(f"    {member}\n" for member in members)
        + f"}} {name}_t;\n\nextern const {name}_t {name};\n\n#endif\n"
    )


def _layout(program: Program) -> Iterator[tuple[str, Constant, int]]:
    """Each constant that has bytes, with the name of its member and the number of padding bytes after it."""
    names = Names()
    constants = [constant for constant in by_offset(program) if constant.data.nbytes]
    for constant, after in zip_longest(constants, constants[1:]):
        end = constant.offset + constant.data.nbytes
        yield names.take(constant.name), constant, (weights_bytes(program) if after is None else after.offset) - end


def _members(name: str, constant: Constant, gap: int) -> Iterator[str]:
    data = constant.data
    if _is_readable(data):
        yield f"{storage_type(str(data.dtype))} {name}[{data.size}]; /* {list(data.shape)} */"
    else:
        yield from _rows(name, data, f" /* {data.dtype}{list(data.shape)} */")
    if gap:
        yield f"unsigned char gap_after_{name}[{gap}];"


def _rows(name: str, data: np.ndarray, comment: str) -> Iterator[str]:
    """The members for rows of bytes."""
    rows, rest = divmod(data.nbytes, _ROW)
    if rows:
        yield f"unsigned char {name}[{rows}][{_ROW}];{comment}"
    if rest:
        yield f"unsigned char {name}_end[{rest}];"


def _is_readable(data: np.ndarray) -> bool:
    return data.size <= READABLE_ELEMENTS and (data.dtype.kind != "f" or bool(np.isfinite(data).all()))


def _write_constant(file: IO[bytes], constant: Constant) -> None:
    if _is_readable(constant.data):
        file.write(b"    {\n" + _numbers(constant.data) + b"    },\n")
        return
    _write_rows(file, little_endian(constant.data))
    forget(constant.data)


def _write_rows(file: IO[bytes], data: np.ndarray) -> None:
    rows = len(data) // _ROW
    if rows:
        file.write(b"    {\n")
        for first in range(0, rows, _ROWS_AT_ONCE):
            part = data[first * _ROW : min(first + _ROWS_AT_ONCE, rows) * _ROW].reshape(-1, _ROW)
            file.write(_strings(part).tobytes())
        file.write(b"    },\n")
    if len(data) % _ROW:
        file.write(_strings(data[rows * _ROW :].reshape(1, -1)).tobytes())


def _strings(rows: np.ndarray) -> np.ndarray:
    """Each row as a line: a string literal of octal escapes."""
    count = len(rows)
    text = _OCTAL[rows].reshape(count, -1)
    return np.hstack(
        [np.full((count, 1), ord('"'), np.uint8), text, np.tile(np.array([*b'",\n'], np.uint8), (count, 1))]
    )


def _numbers(data: np.ndarray) -> bytes:
    """The elements as numbers, in lines of a bounded length."""
    lines: list[str] = []
    line = ""
    for value in data.reshape(-1):
        word = f"{_literal(value)},"
        if line and len(line) + len(word) + 1 > _LINE - 8:
            lines.append(line)
            line = ""
        line = f"{line} {word}" if line else word
    return "".join(f"        {text}\n" for text in [*lines, line] if text).encode("ascii")


def _literal(value: np.generic) -> str:
    dtype = str(value.dtype)
    if dtype == "float16":
        return f"0x{int(value.view(np.uint16)):04x}"
    if value.dtype.kind == "f":
        return float_literal(float(value), dtype)
    return integer_literal(int(value), dtype)

"""The constants of a program as bytes: `weights.bin`, each constant little-endian at its offset, zeros between."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from deploykit.compiler.program.ir import Constant, Program


def weights_bytes(program: Program) -> int:
    """The end of the last constant."""
    return max((constant.offset + constant.data.nbytes for constant in program.constants), default=0)


def by_offset(program: Program) -> list[Constant]:
    return sorted(program.constants, key=lambda constant: constant.offset)


def write_weights(program: Program, path: Path) -> None:
    """Write `weights.bin`. Raises `OSError` as the file system does."""
    with path.open("wb") as file:
        for constant in by_offset(program):
            file.seek(constant.offset)
            file.write(little_endian(constant.data).data)
        file.truncate(weights_bytes(program))


def weights_of(constants: Sequence[Constant], alignment: int, most: int) -> Iterator[bytes]:
    """Constants that lie side by side, as they are stored, up to a multiple of `alignment`; pieces of `most` bytes."""
    if not constants:
        return
    ordered = sorted(constants, key=lambda constant: constant.offset)
    start, piece = ordered[0].offset, bytearray()
    done = 0
    for constant in ordered:
        data = little_endian(constant.data)
        piece += bytes(constant.offset - start - done - len(piece))
        piece += data.data
        while len(piece) >= most:
            yield bytes(piece[:most])
            del piece[:most]
            done += most
    piece += bytes(-(done + len(piece)) % alignment)
    yield from (bytes(piece[at : at + most]) for at in range(0, len(piece), most))


def little_endian(data: np.ndarray) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """The bytes of an array as they ship."""
    dense = np.ascontiguousarray(data)
    return dense.astype(dense.dtype.newbyteorder("<"), copy=False).reshape(-1).view(np.uint8)

"""The constants of a program as bytes, `weights.bin`: each constant little-endian at its offset, with zeros between."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from deploykit.basics.mapped import pieces

if TYPE_CHECKING:
    from deploykit.compiler.program.ir import Constant, Program


def weights_bytes(program: Program) -> int:
    """The end of the last constant."""
    return max((constant.offset + constant.data.nbytes for constant in program.constants), default=0)


def by_offset(program: Program) -> list[Constant]:
    return sorted(program.constants, key=lambda constant: constant.offset)


def write_weights(program: Program, path: Path, others: Program | None = None) -> None:
    """Write `weights.bin`. The constants of a program with `others` follow, from `first_weight` on.

    Raises `OSError` from the file system."""
    first = 0 if others is None else first_weight(program, others)
    known = {id(constant.data) for constant in program.constants}
    own = [(constant.offset, constant.data) for constant in by_offset(program)]
    more = [] if others is None else by_offset(others)
    own += [(first + constant.offset, constant.data) for constant in more if id(constant.data) not in known]
    with path.open("wb") as file:
        for offset, array in own:
            file.seek(offset)
            for _, piece in pieces(little_endian(array)):
                file.write(piece.data)
        file.truncate(max(weights_bytes(program), 0 if others is None else first + weights_bytes(others)))


def first_weight(program: Program, others: Program) -> int:
    """The byte of `weights.bin` at which the weights of `others` begin. The two programs were joined, so the constants
    that both have are the last ones of `program` and the first ones of `others`."""
    places = {id(constant.data): constant.offset for constant in program.constants}
    shared = [places[id(each.data)] - each.offset for each in others.constants if id(each.data) in places]
    if len(set(shared)) > 1:
        raise ValueError("the programs were not joined: what they share is not side by side")
    return shared[0] if shared else -(-weights_bytes(program) // others.alignment) * others.alignment


def weights_of(
    constants: Sequence[Constant], alignment: int, most: int, alone: int | None = None
) -> Iterator[tuple[bool, bytes]]:
    """The stored bytes of constants that lie side by side, in pieces of at most `most` bytes, a multiple of
    `alignment`. Each constant is padded to a multiple of `alignment`. Only a constant that is larger than a piece spans
    several; the flag of a piece is `True` if it continues the constant of the previous piece. A constant of more than
    `alone` bytes shares its pieces with no other.
    """
    ordered = sorted(constants, key=lambda constant: constant.offset)
    ends = [constant.offset for constant in ordered[1:]]
    piece, goes_on = bytearray(), False
    for constant, end in zip_longest(ordered, ends):
        data = little_endian(constant.data)
        room = -(-data.nbytes // alignment) * alignment if end is None else end - constant.offset
        large = alone is not None and data.nbytes > alone
        if piece and (large or len(piece) + room > most):
            yield goes_on, bytes(piece)
            piece, goes_on = bytearray(), False
        rest = np.zeros(room - data.nbytes, np.uint8)
        for part in chain((own for _, own in pieces(data)), (rest,)):
            piece += part.data
            while len(piece) > most:
                yield goes_on, bytes(piece[:most])
                del piece[:most]
                goes_on = True
        if large:
            yield goes_on, bytes(piece)
            piece, goes_on = bytearray(), False
    if piece:
        yield goes_on, bytes(piece)


def little_endian(data: np.ndarray) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """The bytes of an array, little-endian."""
    dense = np.ascontiguousarray(data)
    return dense.astype(dense.dtype.newbyteorder("<"), copy=False).reshape(-1).view(np.uint8)

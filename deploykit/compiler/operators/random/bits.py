"""Random bits from a counter: Philox4x32-10.

A block of four 32-bit words is a function of a counter of four words and a key of two words. There is no state, so a
run draws the same numbers for any order and any number of threads, and on every target. The counter holds the number of
the draw within its operator and the iteration numbers of the enclosing loops. The key holds the seed and the number of
the operator within the model. (Source: J. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011.)
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from tvm import ir, tirx

from deploykit.compiler.operators.building.integers import expr

if TYPE_CHECKING:
    from collections.abc import Sequence

    from deploykit.compiler.dims.expressions import IntExpr
    from deploykit.compiler.operators.building.imperative import Cell, Code

ROUNDS = 10
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_INCREMENTS = (0x9E3779B9, 0xBB67AE85)
_LOOP_STEP = 0x9E3779B1
"""The factor that tells the iterations of nested loops apart: an odd number, so that no two neighbours agree."""


def key_of_seed(seed: float) -> int:
    """The first word of the key for a `seed` attribute: the bits of the float."""
    bits: int = struct.unpack("<I", struct.pack("<f", seed))[0]
    return bits


def philox(
    code: Code, number: IntExpr, iterations: Sequence[tirx.Var], key: tuple[ir.Expr, ir.Expr]
) -> tuple[Cell, Cell, Cell, Cell]:
    """Write the statements that compute the block of draw `number`. Returns its words, as uint64 below 2^32."""
    outer, inner = _word(0), _word(0)
    for variable in iterations:
        outer, inner = _low(outer * _word(_LOOP_STEP) + inner), _low(tirx.Cast("uint64", expr(variable)))
    draw = tirx.Cast("uint64", expr(number))
    words = [code.cell(f"c{i}", w) for i, w in enumerate((_low(draw), _high(draw), inner, outer))]
    keys = [code.cell(f"k{i}", k) for i, k in enumerate(key)]
    with code.loop("round", ROUNDS):
        products = [code.cell(f"p{i}", words[2 * i].value * _word(factor)) for i, factor in enumerate(_MULTIPLIERS)]
        words[0].value = _high(products[1].value) ^ words[1].value ^ keys[0].value
        words[1].value = _low(products[1].value)
        words[2].value = _high(products[0].value) ^ words[3].value ^ keys[1].value
        words[3].value = _low(products[0].value)
        for cell, increment in zip(keys, _INCREMENTS, strict=True):
            cell.value = _low(cell.value + _word(increment))
    return (words[0], words[1], words[2], words[3])


def unit(words: Sequence[Cell], dtype: str) -> ir.Expr:
    """A number in [0, 1) with all the bits that `dtype` has there, from one word for float32 or two for float64."""
    if dtype == "float64":
        bits = tirx.shift_left(tirx.shift_right(words[0].value, _word(5)), _word(26))
        bits = tirx.bitwise_or(bits, tirx.shift_right(words[1].value, _word(6)))
        return tirx.Cast("float64", bits) * tirx.const(2.0**-53, "float64")
    return tirx.Cast("float32", tirx.shift_right(words[0].value, _word(8))) * tirx.const(2.0**-24, "float32")


def key_words(seed: ir.Expr | int, stream: int) -> tuple[ir.Expr, ir.Expr]:
    """The key of operator number `stream` for a seed of 64 bits."""
    bits = _word(seed) if isinstance(seed, int) else tirx.Cast("uint64", seed)
    return _low(bits), tirx.bitwise_xor(_high(bits), _word(stream))


def _word(value: int) -> ir.Expr:
    return tirx.const(value, "uint64")


def _low(value: ir.Expr) -> ir.Expr:
    return tirx.bitwise_and(value, _word(0xFFFFFFFF))


def _high(value: ir.Expr) -> ir.Expr:
    return tirx.shift_right(value, _word(32))

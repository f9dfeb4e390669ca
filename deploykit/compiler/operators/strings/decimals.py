"""Arithmetic for kernels that convert between binary and decimal numbers.

`10**p` is `P * 2**exponent(p)`, where P has 128 bits and its highest bit is 1. `powers` has each P in two halves. P is
exact for p from 0 to 55; others are rounded up. A product of 64 bits with P then has an error only in the lowest 64 of
its 192 bits. So a number that lies exactly between two results is recognised by zeros in the middle bits.

The simplifier of TVM takes uint64 for numbers that do not wrap around. So carries and signs are computed from bits.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from tvm import ir, tirx

from deploykit.compiler.operators.building.imperative import Array, Cell, Code

_BITS = 128
_LOW = (1 << 64) - 1


def powers(first: int, last: int) -> np.ndarray:
    """The upper and lower half of P for each power from `first` to `last`, `[powers, 2]`."""
    rows = []
    for p in range(first, last + 1):
        scaled = Fraction(10) ** p / Fraction(2) ** exponent(p)
        mantissa = -(-scaled.numerator // scaled.denominator)
        rows.append((mantissa >> 64, mantissa & _LOW))
    return np.array(rows, np.uint64)


def exponent(p: int) -> int:
    """The exponent of 2 that goes with the power `p` of ten. `p` may be an expression; right for p from -400 to 400."""
    return p * 217706 // 65536 - (_BITS - 1)


def unsigned(value: int) -> ir.Expr:
    return tirx.const(value, "uint64")


def negated(value: ir.Expr) -> ir.Expr:
    """`2**64` minus a uint64."""
    return tirx.bitwise_not(value) + unsigned(1)


def right(value: ir.Expr, by: ir.Expr | int) -> ir.Expr:
    """A uint64 shifted to the right."""
    return tirx.shift_right(value, _count(by))


def left(value: ir.Expr, by: ir.Expr | int) -> ir.Expr:
    """A uint64 shifted to the left."""
    return tirx.shift_left(value, _count(by))


def low_bits(value: ir.Expr, count: ir.Expr | int) -> ir.Expr:
    """The lowest `count` bits of a uint64, at most 63."""
    return tirx.bitwise_and(value, left(unsigned(1), count) - unsigned(1))


def normalised(code: Code, value: Cell) -> Cell:
    """Shift a uint64 that is not 0 to the left until its highest bit is 1. Returns a cell with the number of bits."""
    moved = code.cell("moved", 0)
    with code.repeat(tirx.EQ(right(value.value, 63), unsigned(0))):
        value.value = left(value.value, 1)
        moved.value += 1
    return moved


def product(code: Code, value: ir.Expr, table: Array, row: ir.Expr) -> tuple[Cell, Cell, Cell]:
    """The 192 bits of a uint64 times the P in a row of `powers`: the upper, middle and lower 64."""
    top, middle = _times(code, value, table[row, 0])
    carried, low = _times(code, value, table[row, 1])
    first, second = code.cell("first", middle.value), code.cell("second", carried.value)
    middle.value = first.value + second.value
    either, both = tirx.bitwise_or(first.value, second.value), tirx.bitwise_and(first.value, second.value)
    top.value += right(tirx.bitwise_or(both, tirx.bitwise_and(either, tirx.bitwise_not(middle.value))), 63)
    return top, middle, low


def _times(code: Code, a: ir.Expr, b: ir.Expr) -> tuple[Cell, Cell]:
    """The upper and lower 64 bits of the product of two uint64."""
    one, other = code.cell("one", a), code.cell("other", b)
    (a_high, a_low), (b_high, b_low) = ((right(v.value, 32), low_bits(v.value, 32)) for v in (one, other))
    low = code.cell("low", a_low * b_low)
    cross = code.cell("cross", a_high * b_low + right(low.value, 32))
    second = code.cell("second", a_low * b_high + low_bits(cross.value, 32))
    high = code.cell("high", a_high * b_high + right(cross.value, 32) + right(second.value, 32))
    low.value = left(second.value, 32) + low_bits(low.value, 32)
    return high, low


def rounded(code: Code, value: ir.Expr, shift: ir.Expr, beyond: ir.Expr) -> Cell:
    """A uint64 shifted to the right by 1 to 63 bits and rounded; halves to even. `beyond`: what it stands for has more
    bits that are not 0."""
    result, rest = code.cell("rounded", right(value, shift)), code.cell("rest", low_bits(value, shift))
    half = code.cell("half", left(unsigned(1), shift - 1))
    odd = tirx.EQ(low_bits(result.value, 1), unsigned(1))
    tie = tirx.all(tirx.EQ(rest.value, half.value), tirx.any(beyond, odd))
    with code.when(tirx.any(rest.value > half.value, tie)):
        result.value += unsigned(1)
    return result


def _count(bits: ir.Expr | int) -> ir.Expr:
    return unsigned(bits) if isinstance(bits, int) else tirx.Cast("uint64", bits)

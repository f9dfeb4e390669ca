"""Sine and cosine in float32 by polynomials, for arguments of any size.

    sin(x) = r + r^3 p(r^2),  cos(x) = 1 - r^2 / 2 + r^4 q(r^2)   for |r| <= pi / 4,  r = x - n pi / 2

Up to 2^20, r is the difference in float64. For larger x, x / (pi / 2) modulo 4 is computed from the product of the
mantissa of x with the 96 bits of 2 / pi that matter. (Source: Payne and Hanek, Radian reduction for trigonometric
functions, SIGNUM Newsletter 18, 1983.) Largest error: 1.5 units of the last place.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tvm import tirx

from deploykit.compiler.codegen.native.parts import (
    absolute,
    bits_of,
    const,
    lanes_of,
    multiply_add,
    named,
    polynomial,
)
from deploykit.compiler.codegen.polynomials import COS, SIN

if TYPE_CHECKING:
    from tvm.ir import Expr

_LARGE = 2.0**20
_HALF_PI_HIGH = 1.57079632673412561417
"""pi / 2 to 33 bits: its product with a number below 2^20 is exact in float64."""
_HALF_PI_LOW = 6.07710050650619224932e-11
_ROUNDER = 1.5 * 2.0**52
"""Adding it leaves the nearest integer in the low bits of the sum."""

_TWO_OVER_PI = (0x00A2F983, 0x6E4E4415, 0x29FC2757, 0xD1F534DD, 0xC0DB6295, 0x993C4390, 0x41FE5163)
"""The fraction of 2 / pi after 8 zero bits, in words of 32 bits."""


def sin(x: Expr) -> Expr:
    def result(value: Expr) -> Expr:
        return tirx.Select(x == const(0.0, x), x, value)

    return named(_wave(x, 0), result)


def cos(x: Expr) -> Expr:
    return _wave(x, 1)


def _wave(x: Expr, phase: int) -> Expr:
    """The sine of `x + phase * pi / 2`."""
    small = absolute(x) < const(_LARGE, x)
    wide = x.astype(lanes_of(x, "float64"))

    def near(shifted: Expr, quarter: Expr, rest: Expr) -> Expr:
        n = shifted - const(_ROUNDER, wide)
        difference = multiply_add(n, const(-_HALF_PI_HIGH, wide), wide)
        difference = multiply_add(n, const(-_HALF_PI_LOW, wide), difference)
        quarters = tirx.Select(small, bits_of(shifted, "int64"), quarter)
        r = tirx.Select(small, difference, rest).astype(lanes_of(x, "float32"))
        return named(quarters.astype(lanes_of(x, "int32")), lambda q: named(r, lambda r: _of_rest(x, r, q, phase)))

    def far(turns: Expr) -> Expr:
        """`turns` are quarter turns modulo 4, with 62 fraction bits."""
        shifted_turns = turns + const(1 << 61, turns)
        quarter = (shifted_turns >> const(62, turns)).astype(lanes_of(x, "int64"))
        behind = (shifted_turns & const((1 << 62) - 1, turns)).astype(lanes_of(x, "int64"))
        centred = (behind - const(1 << 61, behind)).astype(lanes_of(x, "float64"))
        radians = centred * const(math.pi / 2 * 2.0**-62, wide)
        negative = x < const(0.0, x)
        signed = tirx.Select(negative, const(0.0, wide) - radians, radians)
        turned = tirx.Select(negative, const(0, quarter) - quarter, quarter)
        shifted = multiply_add(wide, const(2 / math.pi, wide), const(_ROUNDER, wide))
        return named(shifted, lambda s: near(s, turned, signed))

    finite = absolute(x) < const(math.inf, x)
    return tirx.Select(finite, named(_turns(x), far), const(math.nan, x))


def _of_rest(x: Expr, r: Expr, quarters: Expr, phase: int) -> Expr:
    def both(z: Expr) -> Expr:
        sine = multiply_add(r * z, polynomial(z, SIN), r)
        cosine = multiply_add(z * z, polynomial(z, COS), multiply_add(z, const(-0.5, x), const(1.0, x)))
        turned = quarters + const(phase, quarters)
        chosen = tirx.Select((turned & const(1, turned)) == const(0, turned), sine, cosine)
        return tirx.Select((turned & const(2, turned)) == const(0, turned), chosen, const(0.0, x) - chosen)

    return named(r * r, both)


def _turns(x: Expr) -> Expr:
    """|x| in quarter turns modulo 4, for |x| from `_LARGE` on, with 62 fraction bits."""
    wide = lanes_of(x, "uint64")
    bits = bits_of(absolute(x), "int32")

    def product(bits: Expr) -> Expr:
        exponent = tirx.max(bits >> const(23, bits), const(_FIRST, bits))
        mantissa = (bits & const(0x7FFFFF, bits)) | const(0x800000, bits)
        offset = (exponent - const(_ORIGIN, bits)).astype(wide)
        return named(offset, lambda o: named(mantissa.astype(wide), lambda m: _multiplied(m, o)))

    return named(bits, product)


_FIRST = 127 + 20
"""The biased exponent of `_LARGE`."""
_ORIGIN = 144
"""The biased exponent of an x for which the bits of 2 / pi that matter begin with the first bit of `_TWO_OVER_PI`."""


def _multiplied(mantissa: Expr, offset: Expr) -> Expr:
    """The upper 64 bits of the lower 96 bits of the product of `mantissa` with the 96 bits of 2 / pi from `offset`
    on."""
    word = offset >> const(5, offset)
    shift = offset & const(31, offset)
    low = const(0xFFFFFFFF, offset)

    def at(position: int) -> Expr:
        chosen = const(_TWO_OVER_PI[position + 3], offset)
        for index in (2, 1, 0):
            chosen = tirx.Select(word == const(index, word), const(_TWO_OVER_PI[position + index], offset), chosen)
        return chosen

    def window(position: int) -> Expr:
        pair = (at(position) << const(32, offset)) | at(position + 1)
        return ((pair << shift) >> const(32, offset)) & low

    first, second, third = (mantissa * window(position) for position in range(3))
    return (first << const(32, offset)) + second + (third >> const(32, offset))

"""Logarithms and powers in float32 by polynomials.

    log(x)    = n ln 2 + f - f^2 / 2 + f^3 p(f),   x = 2^n (1 + f),  sqrt(1/2) <= 1 + f < sqrt(2)
    log1p(x)  = log(u) + (x - (u - 1)) / u,        u = 1 + x rounded
    pow(x, y) = 2^(y (n + s p(s^2))),              s = f / (2 + f), in float64

Special operands give the results of C99's annex F. Largest errors in units of the last place: log 1, log1p 1.5, pow
0.6.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tvm import tirx

from deploykit.compiler.codegen.native.parts import (
    absolute,
    bits_of,
    const,
    from_bits,
    lanes_of,
    multiply_add,
    named,
    polynomial,
    rounded_sum,
)
from deploykit.compiler.codegen.polynomials import LOG

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tvm.ir import Expr

_LOG2 = (
    *(2.885390081777661, 0.9617966944543658, 0.577077844238983),
    *(0.41221902138350186, 0.31951238905988577, 0.28840364033476645),
)
_EXP2 = (
    *(1.0000000005541947, 0.6931472057371748, 0.24022646890430152, 0.05550328777114047),
    *(0.009618488979192439, 0.0013399931171339664, 0.0001534580606310897),
)

_SMALLEST_NORMAL = 2.0**-126
_ROOT_OF_HALF = 0x3F3504F3
"""The bits of sqrt(1/2)."""
_LN2_HIGH = 0.693359375
"""ln 2 to 9 bits: its product with any exponent is exact."""
_LN2_LOW = math.log(2) - _LN2_HIGH
_BEYOND = 200.0
"""Two to the power of this is infinity in float32, and its inverse is 0."""


def log(x: Expr) -> Expr:
    return named(_log_of_positive(x), lambda result: _log_everywhere(x, result))


def _log_everywhere(x: Expr, result: Expr) -> Expr:
    infinity = const(math.inf, x)
    beyond = tirx.Select(x == const(0.0, x), const(-math.inf, x), const(math.nan, x))
    return tirx.Select(x > const(0.0, x), tirx.Select(x < infinity, result, x), beyond)


def _log_of_positive(x: Expr) -> Expr:
    def sums(n: Expr, f: Expr) -> Expr:
        square = f * f
        tail = multiply_add(square * f, polynomial(f, LOG), n * const(_LN2_LOW, x))
        tail = multiply_add(square, const(-0.5, x), tail)
        return multiply_add(n, const(_LN2_HIGH, x), f + tail)

    return _split(x, lambda n, m: named(m - const(1.0, x), lambda f: sums(n, f)))


def _split(x: Expr, use: Callable[[Expr, Expr], Expr]) -> Expr:
    """`use(n, m)` for a positive finite `x = 2^n m`, where n is an integer and m is in sqrt(1/2)..sqrt(2)."""
    tiny = x < const(_SMALLEST_NORMAL, x)
    bits = bits_of(tirx.Select(tiny, x * const(2.0**23, x), x), "int32")

    def parts(bits: Expr) -> Expr:
        def number(n: Expr) -> Expr:
            mantissa = from_bits(bits - (n << const(23, n)), "float32")
            exponent = n.astype(lanes_of(x, "float32")) - tirx.Select(tiny, const(23.0, x), const(0.0, x))
            return named(exponent, lambda e: named(mantissa, lambda m: use(e, m)))

        return named((bits - const(_ROOT_OF_HALF, bits)) >> const(23, bits), number)

    return named(bits, parts)


def log1p(x: Expr) -> Expr:
    one, zero = const(1.0, x), const(0.0, x)

    def corrected(u: Expr) -> Expr:
        error = (x - (u - one)) / u
        ordinary = tirx.all(u > zero, u < const(math.inf, x))
        return tirx.Select(x == zero, x, log(u) + tirx.Select(ordinary, error, zero))

    return named(rounded_sum(x, one), corrected)


def power(x: Expr, y: Expr) -> Expr:
    """C's `pow`."""
    return power_by(_power_of_magnitude, x, y)


def power_by(of_magnitude: Callable[[Expr, Expr], Expr], x: Expr, y: Expr) -> Expr:
    """`pow`, given a function of `|x|` and `y` that may be wrong where the result is 1 for any other operand."""
    one = const(1.0, x)
    magnitude = named(absolute(x), lambda a: of_magnitude(a, y))
    known = tirx.any(y == const(0.0, y), x == one)
    return tirx.Select(known, one, named(magnitude, lambda result: _signed(x, y, result)))


def _signed(x: Expr, y: Expr, result: Expr) -> Expr:
    """The power of `x`, given the power of its magnitude."""
    half = y * const(0.5, y)
    whole = y == tirx.floor(y)
    odd = tirx.all(whole, half != tirx.floor(half))
    zero = const(0.0, x)
    undefined = tirx.all(x < zero, x > const(-math.inf, x), tirx.Not(whole))
    negative = bits_of(x, "int32") < const(0, bits_of(x, "int32"))
    signed = tirx.Select(tirx.all(negative, odd), result * const(-1.0, x), result)
    return tirx.Select(undefined, const(math.nan, x), signed)


def _power_of_magnitude(a: Expr, y: Expr) -> Expr:
    wide = lanes_of(a, "float64")
    infinity = const(math.inf, a)

    def raised(exponent: Expr, mantissa: Expr) -> Expr:
        m = mantissa.astype(wide)
        s = (m - const(1.0, m)) / (m + const(1.0, m))
        logarithm = named(s, lambda s: multiply_add(s, polynomial(s * s, _LOG2), exponent.astype(wide)))
        inside = tirx.all(a > const(0.0, a), a < infinity)
        edge = tirx.Select(a == const(0.0, a), const(-math.inf, m), a.astype(wide))
        return named(y.astype(wide) * tirx.Select(inside, logarithm, edge), lambda t: exp2_of_wide(t, _EXP2))

    result = _split(a, raised)
    of_one = tirx.all(a == const(1.0, a), absolute(y) == infinity)
    return tirx.Select(of_one, const(1.0, a), result)


def exp2_of_wide(t: Expr, coefficients: Sequence[float]) -> Expr:
    """Two to the power of a float64, as float32. The polynomial is for powers between -1/2 and 1/2."""
    low, high = const(-_BEYOND, t), const(_BEYOND, t)
    inside = tirx.Select(t < low, low, tirx.Select(t > high, high, t))

    def result(x: Expr) -> Expr:
        return named(rounded_sum(x, const(1.5 * 2.0**52, t)), lambda shifted: scaled(x, shifted))

    def scaled(x: Expr, shifted: Expr) -> Expr:
        rest = x - (shifted - const(1.5 * 2.0**52, t))
        bits = bits_of(shifted, "int64")
        factor = from_bits((bits + const(1023, bits)) << const(52, bits), "float64")
        return (named(rest, lambda r: polynomial(r, coefficients)) * factor).astype(lanes_of(t, "float32"))

    return named(inside, result)

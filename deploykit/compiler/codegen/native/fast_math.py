"""float32 functions by shorter polynomials, for builds with fast math. Errors are up to 4 units in the last place.

Coefficients: minimax in the relative error of the function, as in `elementary`.

    exp(x)     = 2^(n - 1) p(r),  n = round(x / ln 2),  r = x - n ln 2;  exp2 in the same way
    sigmoid(x) = 1 / (1 + exp(-x))
    exp(x) - 1 = 2^n (r + r^2 p(r)) + (2^n - 1)
    tanh(x)    = t / (t + 2),                     t = exp(2 x) - 1
    erf(x)     = sign(x) (1 - exp(|x| p(|x|)))
    log(x), log1p(x) = n ln 2 + log(1 + f),       x or 1 + x = 2^n (1 + f),  sqrt(1/2) <= 1 + f < sqrt(2)
    pow, sin, cos as in `logarithms` and `trigonometry`

The differences from the precise functions: Powers of e and of 2 below 2^-125 are 0. `log` and `pow` take
subnormal numbers as 0. `sin` and `cos` are NaN for magnitudes from 2^20 on, where neighbouring numbers are 1/8 apart.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tvm import tirx

from deploykit.compiler.codegen.native.logarithms import exp2_of_wide, power_by
from deploykit.compiler.codegen.native.parts import (
    absolute,
    bits_of,
    clamped,
    const,
    from_bits,
    lanes_of,
    multiply_add,
    named,
    polynomial,
    rounded_sum,
    with_sign,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tvm.ir import Expr

_TWICE_EXP = (2.0, 2.0, 0.999984622001648, 0.33334222435951233, 0.08378034830093384, 0.016625629737973213)
_TWICE_EXP2 = (2.0, 1.3862940073, 0.480444908142, 0.111014127732, 0.0193427205086, 0.00265430822037)
_LESS_ONE = (0.4999999701976776, 0.1666654646396637, 0.04166744649410248, 0.008366251364350319, 0.0013869587564840913)
_LOG_ERFC = (
    *(-1.128379225730896, -0.6366154551506042, -0.10282440483570099, 0.01935768313705921),
    *(-0.00026522777625359595, -0.0012031658552587032, 0.0003620802890509367, -3.791683047893457e-05),
)
_LOG = (
    *(0.3333390951156616, -0.2500133514404297, 0.199631005525589, -0.16577653586864471),
    *(0.14914511144161224, -0.14266914129257202, 0.08700359612703323),
)
_LOG2_WIDE = (2.8853900798001586, 0.9617988444625846, 0.576714604100661, 0.43173155800791796)
_EXP2_WIDE = (
    *(1.000000071653973, 0.6931469670427204, 0.24022119726140856),
    *(0.05550713309530551, 0.009675541242093643, 0.0013276460339376411),
)
_SIN = (-0.16666655242443085, 0.008332189172506332, -0.00019518291810527444)
_COS = (0.04166107252240181, -0.0013648736057803035)

_EXP_RANGE = (-87.3, 89.0)
"""Below the first, `n - 1` is -127, and the bits of its power of two are those of 0; above the second, the product
overflows."""
_EXP2_RANGE = (-126.0, 128.4)
_ROUNDER = 12582912.0 + 126.0
"""1.5 * 2^23, plus 126. Adding it leaves the bits of `2^(n - 1)`, for the exponent `n`, in the low bits of the sum."""
_TANH_IS_ONE, _ERF_IS_ONE = 10.0, 3.95
_LN2_HIGH = 0.693359375
"""ln 2 to 9 bits: its product with any exponent is exact."""
_LN2_LOW = math.log(2) - _LN2_HIGH
_SMALLEST_NORMAL = 2.0**-126
_GREATEST = 2.0**127 * (2 - 2.0**-23)
_ROOT_OF_HALF = 0x3F3504F3
"""The bits of sqrt(1/2)."""
_ONE = 0x3F800000
"""The bits of 1."""
_LARGE = 2.0**20
_HALF_PI_HIGH = 1.57079632673412561417
"""pi / 2 to 33 bits: its product with a number below 2^20 is exact in float64."""
_HALF_PI_LOW = 6.07710050650619224932e-11
_WIDE_ROUNDER = 1.5 * 2.0**52


def exp(x: Expr) -> Expr:
    return named(clamped(x, *_EXP_RANGE), lambda y: _raised(multiply_add(y, const(1 / math.log(2), x), _rounder(x)), y))


def _raised(shifted: Expr, x: Expr) -> Expr:
    """`e^x`, given a sum that has the exponent in its low bits."""

    def of(s: Expr) -> Expr:
        def rest(n: Expr) -> Expr:
            return multiply_add(n, const(-_LN2_LOW, x), multiply_add(n, const(-_LN2_HIGH, x), x))

        return _scaled(named(s - _rounder(x), rest), _TWICE_EXP, s)

    return named(shifted, of)


def _rounder(x: Expr) -> Expr:
    return const(_ROUNDER, x)


def _scaled(rest: Expr, coefficients: Sequence[float], shifted: Expr) -> Expr:
    """The polynomial of `rest`, times the power of two `2^(n - 1)` that `shifted` holds."""
    return named(rest, lambda r: polynomial(r, coefficients) * _power_in(shifted))


def _power_in(shifted: Expr) -> Expr:
    """The power of two whose bits are the low bits of a sum with `_ROUNDER`."""
    bits = bits_of(shifted, "int32")
    return from_bits(bits << const(23, bits), "float32")


def exp2(x: Expr) -> Expr:
    def of(y: Expr) -> Expr:
        shifted = rounded_sum(y, _rounder(x))
        return named(shifted, lambda s: _scaled(y - (s - _rounder(x)), _TWICE_EXP2, s))

    return named(clamped(x, *_EXP2_RANGE), of)


def sigmoid(x: Expr) -> Expr:
    one = const(1.0, x)
    return one / (one + named(const(0.0, x) - x, exp))


def tanh(x: Expr) -> Expr:
    def ratio(t: Expr) -> Expr:
        return with_sign(t / (t + const(2.0, x)), x)

    within = named(clamped(x, -_TANH_IS_ONE, _TANH_IS_ONE), lambda y: y + y)
    return named(named(within, _exp_less_one), ratio)


def erf(x: Expr) -> Expr:
    bound = const(_ERF_IS_ONE, x)
    size = named(absolute(x), lambda a: tirx.Select(a > bound, bound, a))
    logarithm = named(size, lambda a: a * polynomial(a, _LOG_ERFC))
    return with_sign(named(logarithm, _exp_less_one), x)


def _exp_less_one(x: Expr) -> Expr:
    """`exp(x) - 1` with a small relative error, for `x` of moderate size."""
    rounder = const(_ROUNDER + 1.0, x)

    def of(s: Expr) -> Expr:
        factor = _power_in(s)
        rest = multiply_add(s - rounder, const(-math.log(2), x), x)
        less_one = named(rest, lambda r: multiply_add(r * r, polynomial(r, _LESS_ONE), r))
        return named(factor, lambda f: multiply_add(less_one, f, f - const(1.0, x)))

    return named(multiply_add(x, const(1 / math.log(2), x), rounder), of)


def log(x: Expr) -> Expr:
    infinity = const(math.inf, x)

    def everywhere(result: Expr) -> Expr:
        beyond = tirx.Select(x >= const(0.0, x), const(-math.inf, x), const(math.nan, x))
        normal = x >= const(_SMALLEST_NORMAL, x)
        return tirx.Select(normal, tirx.Select(x < infinity, result, x), beyond)

    return named(_split(x, lambda n, m: _log_of(n, m - const(1.0, x))), everywhere)


def log1p(x: Expr) -> Expr:
    one, zero = const(1.0, x), const(0.0, x)

    def everywhere(result: Expr) -> Expr:
        beyond = tirx.Select(x == const(-1.0, x), const(-math.inf, x), const(math.nan, x))
        inside = tirx.Select(tirx.all(x < const(math.inf, x), x != zero), result, x)
        return tirx.Select(x > const(-1.0, x), inside, beyond)

    def of(u: Expr) -> Expr:
        def sums(n: Expr, m: Expr) -> Expr:
            few = tirx.min(n, const(100, n))
            factor = from_bits(const(_ONE, n) - (few << const(23, n)), "float32")
            return _log_of(n, multiply_add(x - (u - one), factor, m - one))

        return _split(u, sums)

    return named(named(rounded_sum(x, one), of), everywhere)


def _split(x: Expr, use: Callable[[Expr, Expr], Expr]) -> Expr:
    """`use(n, m)` for a normal positive `x = 2^n m`, where n is an integer and m is in sqrt(1/2)..sqrt(2)."""

    def parts(bits: Expr) -> Expr:
        def number(n: Expr) -> Expr:
            return named(from_bits(bits - (n << const(23, n)), "float32"), lambda m: use(n, m))

        return named((bits - const(_ROOT_OF_HALF, bits)) >> const(23, bits), number)

    return named(bits_of(x, "int32"), parts)


def _log_of(n: Expr, f: Expr) -> Expr:
    """`n ln 2 + log(1 + f)`"""

    def sums(f: Expr) -> Expr:
        exponent = n.astype(lanes_of(f, "float32"))
        rest = multiply_add(f * f, multiply_add(f, polynomial(f, _LOG), const(-0.5, f)), f)
        return multiply_add(exponent, const(math.log(2), f), rest)

    return named(f, sums)


def power(x: Expr, y: Expr) -> Expr:
    return named(clamped(y, -_GREATEST, _GREATEST), lambda y: power_by(_power_of_magnitude, x, y))


def _power_of_magnitude(a: Expr, y: Expr) -> Expr:
    wide = lanes_of(a, "float64")

    def raised(n: Expr, m: Expr) -> Expr:
        one = const(1.0, m.astype(wide))
        ratio = named(m.astype(wide), lambda m: (m - one) / (m + one))
        logarithm = named(ratio, lambda s: multiply_add(s, polynomial(s * s, _LOG2_WIDE), n.astype(wide)))
        none = a < const(_SMALLEST_NORMAL, a)
        inside = tirx.all(a >= const(_SMALLEST_NORMAL, a), a < const(math.inf, a))
        edge = tirx.Select(none, const(-math.inf, a), a).astype(wide)
        return named(y.astype(wide) * tirx.Select(inside, logarithm, edge), lambda t: exp2_of_wide(t, _EXP2_WIDE))

    return _split(a, raised)


def sin(x: Expr) -> Expr:
    return _wave(x, 0)


def cos(x: Expr) -> Expr:
    return _wave(x, 1)


def _wave(x: Expr, phase: int) -> Expr:
    """The sine of `x + phase * pi / 2`."""
    wide = x.astype(lanes_of(x, "float64"))

    def near(shifted: Expr) -> Expr:
        n = shifted - const(_WIDE_ROUNDER, wide)
        rest = multiply_add(n, const(-_HALF_PI_LOW, wide), multiply_add(n, const(-_HALF_PI_HIGH, wide), wide))
        quarters = bits_of(shifted, "int64").astype(lanes_of(x, "int32"))
        return named(rest.astype(lanes_of(x, "float32")), lambda r: named(quarters, lambda q: _of_rest(r, q, phase)))

    shifted = multiply_add(wide, const(2 / math.pi, wide), const(_WIDE_ROUNDER, wide))
    return tirx.Select(absolute(x) < const(_LARGE, x), named(shifted, near), const(math.nan, x))


def _of_rest(r: Expr, quarters: Expr, phase: int) -> Expr:
    def both(z: Expr) -> Expr:
        one = const(1.0, r)
        sine = r * multiply_add(z, polynomial(z, _SIN), one)
        cosine = multiply_add(z * z, polynomial(z, _COS), multiply_add(z, const(-0.5, r), one))
        turned = quarters + const(phase, quarters)
        chosen = tirx.Select((turned & const(1, turned)) == const(0, turned), sine, cosine)
        return tirx.Select((turned & const(2, turned)) == const(0, turned), chosen, const(0.0, r) - chosen)

    return named(r * r, both)


RULES: dict[str, Callable[..., Expr]] = {
    "tirx.exp": exp,
    "tirx.exp2": exp2,
    "tirx.sigmoid": sigmoid,
    "tirx.tanh": tanh,
    "tirx.erf": erf,
    "tirx.log": log,
    "tirx.log1p": log1p,
    "tirx.pow": power,
    "tirx.sin": sin,
    "tirx.cos": cos,
}
"""The function that expands each operator."""

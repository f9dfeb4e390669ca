"""Computes float32 functions by polynomials, in the same way for scalars and for the lanes of vectors.

With the C library, a vectorised loop makes one call per lane. These expansions of `exp`, `exp2`, `sigmoid`, `tanh` and
`erf`, of logarithms and powers (`logarithms`) and of `sin` and `cos` (`trigonometry`) are plain arithmetic. The result
for an element does not depend on its position in a tensor. No error exceeds two units in the last place.

Coefficients are in `polynomials`.

    exp(x)  = 2^n (1 + r + r^2 p(r)),  n = round(x / ln 2),  r = x - n ln 2
    exp2(x) = exp((x - n) ln 2) 2^n
    sigmoid(x) = 1 / (1 + exp(-x)),  exp(x) / (1 + exp(x)) below 0
    tanh(x) = x + x^3 p(x^2)                    for |x| < 0.625,  sign(x) (1 - 2 / (exp(2 |x|) + 1))  beyond
    erf(x)  = x + x p(x^2)                      for |x| < 1,      sign(x) (1 - exp(p(|x|)))           beyond
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import tvm_ffi
from tvm import tirx
from tvm.ir.prim import expr as prim

from deploykit.compiler.codegen.native import fast_math, logarithms, trigonometry
from deploykit.compiler.codegen.native.parts import (
    absolute,
    bits_of,
    clamped,
    const,
    multiply_add,
    named,
    polynomial,
    rounded_sum,
    with_sign,
)
from deploykit.compiler.codegen.polynomials import ERF, EXP, LOG_ERFC, TANH

if TYPE_CHECKING:
    from collections.abc import Callable

    from tvm.ir import Call, Expr

_EXP_RANGE = (-104.0, 89.0)
"""Below the first, exp is 0 in float32; above the second, it is infinity."""
_EXP2_RANGE = (-151.0, 129.0)
"""The same bounds for powers of two."""
_LEAST_NORMAL, _GREATEST_NORMAL = -87.0, 88.0
"""Between these, exp is a normal number."""
_ERF_IS_ONE, _TANH_IS_ONE = 4.0, 10.0
_ROUNDER = 12582912.0
"""1.5 * 2^23: adding it leaves the nearest integer in the low bits of the sum."""
_LN2_HIGH = 0.693359375
"""ln 2 to 9 bits: its product with any exponent is exact."""
_LN2_LOW = math.log(2) - _LN2_HIGH


def expand(call: Call, *, fast: bool = False) -> Expr | None:
    """The expansion of a float32 call, or None for other functions. `fast`: use the expansion of `fast_math`."""
    rule = (fast_math.RULES if fast else _RULES).get(call.op.name)
    if rule is None:
        return None
    if len(call.args) == 2:
        return named(call.args[0], lambda x: named(call.args[1], lambda y: rule(x, y)))
    if rule is _exp and _is_bounded(call.args[0]):
        return named(call.args[0], _exp_of_normal)
    return named(call.args[0], rule)


def _is_bounded(x: Expr) -> bool:
    """Whether `x` is clamped to a range of constants in which its exponential is a normal number, or is NaN. The clamp
    is spelled `low if y < low else high if high < y else y`."""
    if not isinstance(x, tirx.Select) or not isinstance(x.false_value, tirx.Select):
        return False
    below, above = x.condition, x.false_value.condition
    if not isinstance(below, prim.LT) or not isinstance(above, prim.LT):
        return False
    low, high = _number(x.true_value), _number(x.false_value.true_value)
    same = (below.a, above.b, x.false_value.false_value)
    return (
        low is not None
        and high is not None
        and low >= _LEAST_NORMAL
        and high <= _GREATEST_NORMAL
        and _number(below.b) == low
        and _number(above.a) == high
        and all(tvm_ffi.structural_equal(same[0], other) for other in same[1:])
    )


def _number(x: Expr) -> float | None:
    """The value of a constant, which is the same in every lane; None for other expressions."""
    value = x.value if isinstance(x, prim.Broadcast) else x
    return float(value.value) if isinstance(value, tirx.FloatImm) else None


def _exp(x: Expr) -> Expr:
    """The exponential. A result of 0, such as that of a value hidden by an attention mask, is not computed: a product
    that is too small for a normal number takes CPUs a hundred cycles.
    """
    low, high = (const(bound, x) for bound in _EXP_RANGE)
    zero = const(0.0, x)
    within = named(tirx.Select(x < low, zero, tirx.Select(x > high, high, x)), _exp_in_range)
    return tirx.Select(x < low, zero, within)


def _exp_in_range(x: Expr) -> Expr:
    """The exponential between the bounds of `_EXP_RANGE`."""
    return _exp_by(x, _in_two_steps)


def _in_two_steps(mantissa: Expr, exponent: Expr) -> Expr:
    """`mantissa * 2^exponent` by two factors that are neither subnormal nor infinite."""
    half = exponent >> tirx.const(1, str(exponent.ty.dtype))
    return mantissa * _power_of_two(half, mantissa) * _power_of_two(exponent - half, mantissa)


def _exp_of_normal(x: Expr) -> Expr:
    """The exponential where its result is a normal number."""
    return _exp_by(x, lambda mantissa, exponent: mantissa * _power_of_two(exponent, x))


def _power_of_two(exponent: Expr, like: Expr) -> Expr:
    integers = str(exponent.ty.dtype)
    return tirx.reinterpret(str(like.ty.dtype), (exponent + tirx.const(127, integers)) << tirx.const(23, integers))


def _exp_by(x: Expr, scaled: Callable[[Expr, Expr], Expr]) -> Expr:
    """`scaled(e^r, n)` for `x = n ln 2 + r`."""
    shifted = multiply_add(x, const(1 / math.log(2), x), const(_ROUNDER, x))
    return named(shifted, lambda s: _exp_of(x, s, scaled))


def _exp_of(x: Expr, shifted: Expr, scaled: Callable[[Expr, Expr], Expr]) -> Expr:
    integers = str(x.ty.dtype).replace("float32", "int32")
    exponent = tirx.reinterpret(integers, shifted) - tirx.reinterpret(integers, const(_ROUNDER, x))

    def result(r: Expr) -> Expr:
        return scaled(_exp_of_rest(r), exponent)

    def reduced(n: Expr) -> Expr:
        rest = multiply_add(n, const(-_LN2_HIGH, x), x)
        return named(multiply_add(n, const(-_LN2_LOW, x), rest), result)

    return named(shifted - const(_ROUNDER, x), reduced)


def _exp_of_rest(r: Expr) -> Expr:
    """`exp(r)` for `|r| <= ln 2 / 2`."""
    return multiply_add(r * r, polynomial(r, EXP), r) + const(1.0, r)


def _exp2(x: Expr) -> Expr:
    def rounded(x: Expr) -> Expr:
        return named(rounded_sum(x, const(_ROUNDER, x)), lambda s: result(x, s))

    def result(x: Expr, shifted: Expr) -> Expr:
        rest = (x - (shifted - const(_ROUNDER, x))) * const(math.log(2), x)
        exponent = bits_of(shifted, "int32") - bits_of(const(_ROUNDER, x), "int32")
        return named(rest, lambda r: _in_two_steps(_exp_of_rest(r), exponent))

    return named(clamped(x, *_EXP2_RANGE), rounded)


def _sigmoid(x: Expr) -> Expr:
    one = const(1.0, x)
    below = x < const(0.0, x)

    def ratio(e: Expr, u: Expr) -> Expr:
        """`e / (1 + e)` or `1 / (1 + e)`, corrected for the rounding of `u = 1 + e`."""
        lost = e - (u - one)

        def corrected(q: Expr) -> Expr:
            return multiply_add(q * tirx.Select(below, q - one, const(0.0, x) - q), lost, q)

        return named(tirx.Select(below, e, one) / u, corrected)

    return named(named(const(0.0, x) - absolute(x), _exp), lambda e: named(rounded_sum(e, one), lambda u: ratio(e, u)))


def _tanh(x: Expr) -> Expr:
    def small(square: Expr) -> Expr:
        return multiply_add(x * square, polynomial(square, TANH), x)

    one, two = const(1.0, x), const(2.0, x)
    twice = clamped(absolute(x) * two, 0.0, 2 * _TANH_IS_ONE)
    large = one - two / (named(twice, _exp_of_normal) + one)
    return tirx.Select(absolute(x) < const(0.625, x), named(x * x, small), with_sign(large, x))


def _erf(x: Expr) -> Expr:
    def small(square: Expr) -> Expr:
        return multiply_add(x, polynomial(square, ERF), x)

    def large(a: Expr) -> Expr:
        return const(1.0, x) - named(polynomial(a, LOG_ERFC), _exp_of_normal)

    bound = const(_ERF_IS_ONE, x)
    beyond = named(tirx.Select(absolute(x) > bound, bound, absolute(x)), large)
    return tirx.Select(absolute(x) < const(1.0, x), named(x * x, small), with_sign(beyond, x))


_RULES: dict[str, Callable[..., Expr]] = {
    "tirx.exp": _exp,
    "tirx.exp2": _exp2,
    "tirx.sigmoid": _sigmoid,
    "tirx.tanh": _tanh,
    "tirx.erf": _erf,
    "tirx.log": logarithms.log,
    "tirx.log1p": logarithms.log1p,
    "tirx.pow": logarithms.power,
    "tirx.sin": trigonometry.sin,
    "tirx.cos": trigonometry.cos,
}

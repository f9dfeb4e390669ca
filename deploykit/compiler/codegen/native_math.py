"""float32 functions by polynomials, the same for scalars and for the lanes of vectors.

A call of the C library costs a vectorised loop one call a lane. These expansions of `exp`, `sigmoid`, `tanh` and `erf`
are plain arithmetic; an element has the same result wherever it lies in a tensor. Largest errors in units of the last
place: exp 1.5, sigmoid 2.5, tanh 2, erf 2. sigmoid gives 0 below -88.3 instead of a subnormal number.

Coefficients: minimax in the relative error of the function, by reweighted least squares on 2,000 Chebyshev nodes.

    exp(x)  = 2^n (1 + r + r^2 p(r)),  n = round(x / ln 2),  r = x - n ln 2
    tanh(x) = x + x^3 p(x^2)                    for |x| < 0.625,  sign(x) (1 - 2 / (exp(2 |x|) + 1))  beyond
    erf(x)  = x + x p(x^2)                      for |x| < 1,      sign(x) (1 - exp(p(|x|)))           beyond
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tvm import tirx
from tvm.ir import Call, Var
from tvm.ir.prim import expr as prim

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tvm.ir import Expr

_EXP = (0.4999999403953552, 0.1666652113199234, 0.04166838899254799, 0.0083687175065279, 0.0013814596459269524)
_TANH = (-0.33333277702331543, 0.13331328332424164, -0.05372922867536545, 0.020601999014616013, -0.00566078070551157)
_ERF_BELOW_1 = (
    *(0.12837916612625122, -0.3761262595653534, 0.11283600330352783, -0.026854444295167923),
    *(0.005189535208046436, -0.0008020841050893068, 7.889119297033176e-05),
)
_LOG_ERFC = (
    *(-0.00032056443160399795, -1.1271716356277466, -0.638012170791626, -0.10321826487779617),
    *(0.02188967354595661, -0.0029601221904158592, 0.00018760564853437245),
)

_EXP_RANGE = (-104.0, 89.0)
"""Beyond these exp is 0 and infinity in float32."""
_ERF_IS_ONE, _TANH_IS_ONE = 4.0, 10.0
_SIGMOID_IS_ONE = -20.0
"""Of the negated argument, which is below."""
_ROUNDER = 12582912.0
"""1.5 * 2^23: adding it leaves the nearest integer in the low bits of the sum."""
_LN2_HIGH = 0.693359375
"""ln 2 to 9 bits: its product with any exponent is exact."""
_LN2_LOW = math.log(2) - _LN2_HIGH


def expand(call: Call) -> Expr | None:
    """The expansion of a float32 call, None for other functions."""
    rule = _RULES.get(call.op.name)
    return None if rule is None else _named(call.args[0], rule)


def _named(value: Expr, use: Callable[[Expr], Expr]) -> Expr:
    """`use(value)` with the value computed once."""
    name = Var("x", value.ty)
    return prim.Let(name, value, use(name))


def _const(value: float, like: Expr) -> Expr:
    dtype = str(like.ty.dtype)
    return tirx.const(value, dtype.split("x", maxsplit=1)[0]).astype(dtype)


def _multiply_add(a: Expr, b: Expr, c: Expr) -> Expr:
    """`a * b + c`, in one rounding where the CPU has an instruction for it."""
    return tirx.call_llvm_pure_intrin(str(c.ty.dtype), "llvm.fmuladd", a, b, c)


def _polynomial(x: Expr, coefficients: Sequence[float]) -> Expr:
    result = _const(coefficients[-1], x)
    for coefficient in reversed(coefficients[:-1]):
        result = _multiply_add(result, x, _const(coefficient, x))
    return result


def _clamped(x: Expr, low: float, high: float) -> Expr:
    """`x` between bounds, by one minimum and one maximum; NaN stays."""
    least, greatest = _const(low, x), _const(high, x)
    return _named(tirx.Select(x < least, least, x), lambda y: tirx.Select(y > greatest, greatest, y))


def _exp(x: Expr) -> Expr:
    """Where the result is 0, as for what an attention mask hides, it is not computed: CPUs take a hundred cycles for a
    product that is too small for a normal number.
    """
    low, high = (_const(bound, x) for bound in _EXP_RANGE)
    zero = _const(0.0, x)
    within = _named(tirx.Select(x < low, zero, tirx.Select(x > high, high, x)), _exp_in_range)
    return tirx.Select(x < low, zero, within)


def _exp_in_range(x: Expr) -> Expr:
    """The exponential between the bounds of `_EXP_RANGE`; the power of two is applied in two steps: neither factor is
    subnormal or infinite.
    """

    def scaled(mantissa: Expr, exponent: Expr) -> Expr:
        half = exponent >> tirx.const(1, str(exponent.ty.dtype))
        return mantissa * _power_of_two(half, x) * _power_of_two(exponent - half, x)

    return _exp_by(x, scaled)


def _exp_of_normal(x: Expr) -> Expr:
    """The exponential where its result is a normal number."""
    return _exp_by(x, lambda mantissa, exponent: mantissa * _power_of_two(exponent, x))


def _power_of_two(exponent: Expr, like: Expr) -> Expr:
    integers = str(exponent.ty.dtype)
    return tirx.reinterpret(str(like.ty.dtype), (exponent + tirx.const(127, integers)) << tirx.const(23, integers))


def _exp_by(x: Expr, scaled: Callable[[Expr, Expr], Expr]) -> Expr:
    """`scaled(e^r, n)`."""
    shifted = _multiply_add(x, _const(1 / math.log(2), x), _const(_ROUNDER, x))
    return _named(shifted, lambda s: _exp_of(x, s, scaled))


def _exp_of(x: Expr, shifted: Expr, scaled: Callable[[Expr, Expr], Expr]) -> Expr:
    integers = str(x.ty.dtype).replace("float32", "int32")
    exponent = tirx.reinterpret(integers, shifted) - tirx.reinterpret(integers, _const(_ROUNDER, x))

    def result(r: Expr) -> Expr:
        return scaled(_multiply_add(r * r, _polynomial(r, _EXP), r) + _const(1.0, x), exponent)

    def reduced(n: Expr) -> Expr:
        rest = _multiply_add(n, _const(-_LN2_HIGH, x), x)
        return _named(_multiply_add(n, _const(-_LN2_LOW, x), rest), result)

    return _named(shifted - _const(_ROUNDER, x), reduced)


def _sigmoid(x: Expr) -> Expr:
    one = _const(1.0, x)
    opposite = _clamped(_const(0.0, x) - x, _SIGMOID_IS_ONE, _EXP_RANGE[1])
    return one / (one + _named(opposite, _exp_of_normal))


def _tanh(x: Expr) -> Expr:
    def small(square: Expr) -> Expr:
        return _multiply_add(x * square, _polynomial(square, _TANH), x)

    one, two = _const(1.0, x), _const(2.0, x)
    twice = _clamped(_absolute(x) * two, 0.0, 2 * _TANH_IS_ONE)
    large = one - two / (_named(twice, _exp_of_normal) + one)
    return tirx.Select(_absolute(x) < _const(0.625, x), _named(x * x, small), _with_sign(large, x))


def _erf(x: Expr) -> Expr:
    def small(square: Expr) -> Expr:
        return _multiply_add(x, _polynomial(square, _ERF_BELOW_1), x)

    def large(a: Expr) -> Expr:
        return _const(1.0, x) - _named(_polynomial(a, _LOG_ERFC), _exp_of_normal)

    bound = _const(_ERF_IS_ONE, x)
    beyond = _named(tirx.Select(_absolute(x) > bound, bound, _absolute(x)), large)
    return tirx.Select(_absolute(x) < _const(1.0, x), _named(x * x, small), _with_sign(beyond, x))


def _absolute(x: Expr) -> Expr:
    return tirx.call_llvm_pure_intrin(str(x.ty.dtype), "llvm.fabs", x)


def _with_sign(magnitude: Expr, sign: Expr) -> Expr:
    return tirx.call_llvm_pure_intrin(str(sign.ty.dtype), "llvm.copysign", magnitude, sign)


_RULES = {"tirx.exp": _exp, "tirx.sigmoid": _sigmoid, "tirx.tanh": _tanh, "tirx.erf": _erf}

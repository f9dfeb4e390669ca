"""Elementary functions in WGSL, which shaders call instead of the language's own.

WGSL promises little about its functions. Sine and cosine are accurate to 2^-11 between -pi and pi, and may be anything
elsewhere; the relative error of an exponential grows with its argument; the error of a logarithm near 1 has no bound;
and the results for NaN are open. The functions here are within a few units of the last place of float32 for every
argument; `docs/performance.md` has the errors, and `python -m bench.shader_math` measures them. Special operands give
the results of C99's annex F. Subnormal numbers may count as 0, as WGSL allows.

Compilers of shaders may reassociate and contract sums and products of floats, which breaks the usual ways to carry a
remainder along. Therefore everything that must be exact is computed in integers: the remainder of an argument after
multiples of ln 2 (in units of 2^-24, of a number below 2^7) or of pi / 2 (`trigonometry`), and logarithms for powers
(`powers`). `log1p(x)` takes the exponent n of 1 + x from its bits, and the mantissa less 1 as `x 2^-n + (2^-n - 1)`.
Special numbers are recognised by their bits.
"""

from __future__ import annotations

from collections.abc import Sequence

from deploykit.compiler.codegen import polynomials
from deploykit.compiler.codegen.shaders.wgsl import powers, trigonometry

_FUNCTIONS = """
fn sign_of(x: f32) -> u32 { return bitcast<u32>(x) & 0x80000000u; }
fn size_of(x: f32) -> u32 { return bitcast<u32>(x) & 0x7fffffffu; }
fn signed(x: f32, sign: u32) -> f32 { return bitcast<f32>(bitcast<u32>(x) ^ sign); }
fn power_of_two(n: i32) -> f32 { return bitcast<f32>(u32(n + 127) << 23u); }
fn times_power_of_two(x: f32, n: i32) -> f32 {
    let half = n >> 1u;
    return x * power_of_two(half) * power_of_two(n - half);
}
fn multiple_of_ln_2(x: f32) -> i32 { return i32(round(x * 1.442695)); }
fn rest_of_ln_2(x: f32, n: i32) -> f32 {
    let rest = i32(x * 16777216.0) - n * 11629080;
    return select(f32(rest) * 5.9604645e-8 + f32(n) * 1.9046543e-9, x, n == 0);
}
fn exponential_scaled(x: f32, scale: i32) -> f32 {
    let size = size_of(x);
    if (size > 0x42d00000u) {
        if (size > 0x7f800000u) { return x; }
        return select(infinity(), 0.0, sign_of(x) != 0u);
    }
    let n = multiple_of_ln_2(x);
    let r = rest_of_ln_2(x, n);
    return times_power_of_two(1.0 + (r + r * r * exp_polynomial(r)), n + scale);
}
fn exponential(x: f32) -> f32 { return exponential_scaled(x, 0); }
fn power_of_2(x: f32) -> f32 {
    let size = size_of(x);
    if (size > 0x43180000u) {
        if (size > 0x7f800000u) { return x; }
        return select(infinity(), 0.0, sign_of(x) != 0u);
    }
    let n = round(x);
    let r = (x - n) * 0.6931472;
    return times_power_of_two(1.0 + (r + r * r * exp_polynomial(r)), i32(n));
}
fn exponential_minus_one(x: f32) -> f32 {
    let size = size_of(x);
    if (size > 0x41c00000u) {
        if (sign_of(x) == 0u || size > 0x7f800000u) { return exponential(x); }
        return -1.0;
    }
    let n = multiple_of_ln_2(x);
    let r = rest_of_ln_2(x, n);
    let near = r + r * r * exp_polynomial(r);
    let factor = power_of_two(n);
    return select(near * factor + (factor - 1.0), near, n == 0);
}
fn sigmoid(x: f32) -> f32 {
    if (is_nan(x)) { return x; }
    let e = exponential(-abs(x));
    return select(1.0, e, x < 0.0) / (1.0 + e);
}
fn hyperbolic_tangent(x: f32) -> f32 {
    let size = size_of(x);
    if (size > 0x7f800000u) { return x; }
    let z = x * x;
    if (size < 0x3f200000u) { return x + x * z * tanh_polynomial(z); }
    return signed(1.0 - 2.0 / (exponential(2.0 * abs(x)) + 1.0), sign_of(x));
}
fn hyperbolic_sine(x: f32) -> f32 {
    let size = size_of(x);
    if (size > 0x7f800000u) { return x; }
    let z = x * x;
    if (size < 0x3f800000u) { return x + x * z * sinh_polynomial(z); }
    let a = abs(x);
    return signed(exponential_scaled(a, -1) - exponential_scaled(-a, -1), sign_of(x));
}
fn hyperbolic_cosine(x: f32) -> f32 {
    let a = abs(x);
    return exponential_scaled(a, -1) + exponential_scaled(-a, -1);
}
fn error_function(x: f32) -> f32 {
    let size = size_of(x);
    if (size > 0x7f800000u) { return x; }
    if (size < 0x10000000u) { return x * 1.1283792; }
    if (size < 0x3f800000u) { return x + x * erf_polynomial(x * x); }
    let a = min(abs(x), 4.0);
    return signed(1.0 - exponential(log_erfc_polynomial(a)), sign_of(x));
}
fn exponent_from_root(bits: u32) -> i32 { return (i32(bits) - 0x3f3504f3) >> 23u; }
fn log_of_parts(n: i32, f: f32) -> f32 {
    return f32(n) * 0.6931472 + (f + f * f * (f * log_polynomial(f) - 0.5));
}
fn logarithm(x: f32) -> f32 {
    let bits = bitcast<u32>(x);
    if (size_of(x) > 0x7f800000u || bits == 0x7f800000u) { return x; }
    if (size_of(x) == 0u) { return -infinity(); }
    if (sign_of(x) != 0u) { return not_a_number(); }
    let tiny = bits < 0x00800000u;
    let normal = select(bits, bitcast<u32>(f32(bits)), tiny);
    let n = exponent_from_root(normal);
    let m = bitcast<f32>(normal - (u32(n) << 23u));
    return log_of_parts(select(n, n - 149, tiny), m - 1.0);
}
fn logarithm_2(x: f32) -> f32 {
    let bits = bitcast<u32>(x);
    let n = i32(bits >> 23u) - 127;
    let exact = (bits & 0x7fffffu) == 0u && bits - 0x00800000u < 0x7f000000u;
    return select(logarithm(x) * 1.442695, f32(n), exact);
}
fn logarithm_10(x: f32) -> f32 { return logarithm(x) * 0.4342945; }
fn log_of_one_plus(x: f32) -> f32 {
    let size = size_of(x);
    if (size > 0x7f800000u || size == 0u || bitcast<u32>(x) == 0x7f800000u) { return x; }
    if (sign_of(x) != 0u && size >= 0x3f800000u) {
        if (size == 0x3f800000u) { return -infinity(); }
        return not_a_number();
    }
    let n = exponent_from_root(bitcast<u32>(1.0 + x));
    let factor = power_of_two(-min(n, 100));
    return log_of_parts(n, select(x * factor + (factor - 1.0), x, n == 0));
}
fn inverse_hyperbolic_sine(x: f32) -> f32 {
    let a = abs(x);
    if (size_of(x) > 0x45800000u) { return signed(logarithm(a) + 0.6931472, sign_of(x)); }
    let z = a * a;
    return signed(log_of_one_plus(a + z / (1.0 + sqrt(1.0 + z))), sign_of(x));
}
fn inverse_hyperbolic_cosine(x: f32) -> f32 {
    if (bitcast<u32>(x) > 0x45800000u) {
        if (sign_of(x) != 0u) { return not_a_number(); }
        return logarithm(x) + 0.6931472;
    }
    if (x < 1.0) { return not_a_number(); }
    let t = x - 1.0;
    return log_of_one_plus(t + sqrt(t * (t + 2.0)));
}
fn inverse_hyperbolic_tangent(x: f32) -> f32 {
    let a = abs(x);
    if (size_of(x) > 0x3f800000u) { return not_a_number(); }
    if (size_of(x) == 0x3f800000u) { return signed(infinity(), sign_of(x)); }
    return signed(0.5 * log_of_one_plus(2.0 * a / (1.0 - a)), sign_of(x));
}
"""

_LOG2 = (0.7213475108146667, -0.48089808225631714, 0.3606734573841095, -0.2890585660934448, 0.2409471571445465)
"""`q(z)` of `log2(1 + z) = z / ln 2 - z^2 q(z)` for z from -0.045 to 0.045."""

_POLYNOMIALS = {
    "exp": polynomials.EXP,
    "tanh": polynomials.TANH,
    "erf": polynomials.ERF,
    "log_erfc": polynomials.LOG_ERFC,
    "log": polynomials.LOG,
    "sin": polynomials.SIN,
    "cos": polynomials.COS,
    "asin": polynomials.ASIN,
    "atan": polynomials.ATAN,
    "sinh": polynomials.SINH,
    "log2": _LOG2,
}


def _polynomial(name: str, coefficients: Sequence[float]) -> str:
    """The WGSL function of a polynomial, by Horner's rule."""
    result = f"({coefficients[-1]!r})"
    for coefficient in reversed(coefficients[:-1]):
        result = f"({result} * x + ({coefficient!r}))"
    return f"fn {name}_polynomial(x: f32) -> f32 {{ return {result}; }}\n"


SOURCE = (
    _FUNCTIONS
    + trigonometry.SOURCE[1:]
    + powers.SOURCE[1:]
    + "".join(_polynomial(name, numbers) for name, numbers in _POLYNOMIALS.items())
)
"""The WGSL functions, each beginning on a line of its own. They call one another and those of `support`."""

"""WGSL functions that shaders call. Only those that are used are emitted.

`definitions(text)` gives the functions that `text` calls, directly or through one another; WGSL takes them in any
order. Elementary functions are in `elementary`.
"""

from __future__ import annotations

import re

from deploykit.compiler.codegen.shaders.wgsl import elementary

_SOURCE = """
fn infinity() -> f32 { var bits = 0x7f800000u; return bitcast<f32>(bits); }
fn not_a_number() -> f32 { var bits = 0x7fc00000u; return bitcast<f32>(bits); }
fn unfolded(bits: u32) -> u32 { return bits & ~u32(scalars.threads >> 31u); }
fn is_nan(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u; }
fn is_inf(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) == 0x7f800000u; }
fn is_finite(x: f32) -> bool { return (bitcast<u32>(x) & 0x7f800000u) != 0x7f800000u; }
fn not_nan(x: f32) -> f32 { return select(x, 0.0, is_nan(x)); }
fn max_of(a: f32, b: f32) -> f32 { return select(b, a, a > b); }
fn min_of(a: f32, b: f32) -> f32 { return select(b, a, a < b); }
fn max_of_4(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> { return select(b, a, a > b); }
fn min_of_4(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> { return select(b, a, a < b); }
fn larger(a: f32, b: f32) -> f32 { return select(select(b, a, a > b), a, is_nan(a)); }
fn smaller(a: f32, b: f32) -> f32 { return select(select(b, a, a < b), a, is_nan(a)); }
fn larger_4(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> { return select(select(b, a, a > b), a, is_nan_4(a)); }
fn smaller_4(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> { return select(select(b, a, a < b), a, is_nan_4(a)); }
fn is_nan_4(x: vec4<f32>) -> vec4<bool> {
    return (bitcast<vec4<u32>>(x) & vec4<u32>(0x7fffffffu)) > vec4<u32>(0x7f800000u);
}
fn with_sign(x: f32, y: f32) -> f32 {
    return bitcast<f32>((bitcast<u32>(x) & 0x7fffffffu) | (bitcast<u32>(y) & 0x80000000u));
}
fn half_to_float(bits: u32) -> f32 { return unpack2x16float(bits).x; }
fn floats_of_halves(words: vec2<u32>) -> vec4<f32> {
    return vec4<f32>(unpack2x16float(words.x), unpack2x16float(words.y));
}
fn float_to_half(x: f32) -> u32 {
    let bits = bitcast<u32>(x);
    let size = bits & 0x7fffffffu;
    let normal = (size - 0x38000000u + 0xfffu + ((size >> 13u) & 1u)) >> 13u;
    let small = bitcast<u32>(bitcast<f32>(size) + 0.5) - 0x3f000000u;
    let finite = select(normal, small, size < 0x38800000u);
    let half = select(finite, select(0x7c00u, 0x7e00u, size > 0x7f800000u), size >= 0x477ff000u);
    return half | ((bits >> 16u) & 0x8000u);
}
fn float_to_half_4(x: vec4<f32>) -> vec4<u32> {
    let bits = bitcast<vec4<u32>>(x);
    let size = bits & vec4<u32>(0x7fffffffu);
    let normal = (size - 0x38000000u + 0xfffu + ((size >> vec4<u32>(13u)) & vec4<u32>(1u))) >> vec4<u32>(13u);
    let small = bitcast<vec4<u32>>(bitcast<vec4<f32>>(size) + 0.5) - 0x3f000000u;
    let finite = select(normal, small, size < vec4<u32>(0x38800000u));
    let large = select(vec4<u32>(0x7c00u), vec4<u32>(0x7e00u), size > vec4<u32>(0x7f800000u));
    let half = select(finite, large, size >= vec4<u32>(0x477ff000u));
    return half | ((bits >> vec4<u32>(16u)) & vec4<u32>(0x8000u));
}
fn halves_of_floats(x: vec4<f32>) -> vec2<u32> {
    let halves = float_to_half_4(x);
    return halves.xz | (halves.yw << vec2<u32>(16u));
}
fn rounded(x: f32) -> f32 { return half_to_float(float_to_half(x)); }
fn rounded_4(x: vec4<f32>) -> vec4<f32> { return floats_of_halves(halves_of_floats(x)); }
fn div_i32(a: i32, b: i32) -> i32 { return select(a / select(b, 1, b == 0), 0, b == 0); }
fn mod_i32(a: i32, b: i32) -> i32 { return select(a % select(b, 1, b == 0), 0, b == 0); }
fn floordiv_i32(a: i32, b: i32) -> i32 {
    let quotient = div_i32(a, b);
    return select(quotient, quotient - 1, mod_i32(a, b) != 0 && (a < 0) != (b < 0));
}
fn floormod_i32(a: i32, b: i32) -> i32 {
    let rest = mod_i32(a, b);
    return select(rest, rest + b, rest != 0 && (rest < 0) != (b < 0));
}
fn div_u32(a: u32, b: u32) -> u32 { return select(a / select(b, 1u, b == 0u), 0u, b == 0u); }
fn mod_u32(a: u32, b: u32) -> u32 { return select(a % select(b, 1u, b == 0u), 0u, b == 0u); }
fn shl_i32(a: i32, b: i32) -> i32 { return select(a << (u32(b) & 31u), 0, b < 0 || b > 31); }
fn shr_i32(a: i32, b: i32) -> i32 { return a >> select(u32(b), 31u, b < 0 || b > 31); }
fn shl_u32(a: u32, b: u32) -> u32 { return select(a << (b & 31u), 0u, b > 31u); }
fn shr_u32(a: u32, b: u32) -> u32 { return select(a >> (b & 31u), 0u, b > 31u); }
fn wide_from_i32(a: i32) -> vec2<u32> { return vec2<u32>(u32(a), u32(a >> 31u)); }
fn wide_from_u32(a: u32) -> vec2<u32> { return vec2<u32>(a, 0u); }
fn wide_from_f32(x: f32) -> vec2<u32> {
    let size = abs(trunc(x));
    if (is_nan(x)) { return vec2<u32>(0u, 0u); }
    if (size >= 9223372036854775808.0) {
        return select(vec2<u32>(0xffffffffu, 0x7fffffffu), vec2<u32>(0u, 0x80000000u), x < 0.0);
    }
    let high = floor(size / 4294967296.0);
    let value = vec2<u32>(u32(size - high * 4294967296.0), u32(high));
    if (x < 0.0) { return sub_wide(vec2<u32>(0u, 0u), value); }
    return value;
}
fn narrow(a: vec2<u32>) -> i32 {
    if (a.y == u32(i32(a.x) >> 31u)) { return i32(a.x); }
    return select(2147483647, -2147483647, (a.y >> 31u) != 0u);
}
fn float_of_wide(a: vec2<u32>) -> f32 {
    if ((a.y >> 31u) != 0u) {
        let size = sub_wide(vec2<u32>(0u, 0u), a);
        return -(f32(size.y) * 4294967296.0 + f32(size.x));
    }
    return f32(a.y) * 4294967296.0 + f32(a.x);
}
fn add_wide(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let low = a.x + b.x;
    return vec2<u32>(low, a.y + b.y + select(0u, 1u, low < a.x));
}
fn sub_wide(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    return vec2<u32>(a.x - b.x, a.y - b.y - select(0u, 1u, a.x < b.x));
}
fn mul_wide(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    return vec2<u32>(a.x * b.x, mul_high(a.x, b.x) + a.x * b.y + a.y * b.x);
}
fn lt_wide(a: vec2<u32>, b: vec2<u32>) -> bool {
    return select(i32(a.y) < i32(b.y), a.x < b.x, a.y == b.y);
}
fn eq_wide(a: vec2<u32>, b: vec2<u32>) -> bool { return a.x == b.x && a.y == b.y; }
fn min_wide(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return select(b, a, lt_wide(a, b)); }
fn max_wide(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return select(a, b, lt_wide(a, b)); }
fn size_of_wide(a: vec2<u32>) -> vec2<u32> {
    return select(a, sub_wide(vec2<u32>(0u, 0u), a), (a.y >> 31u) != 0u);
}
fn divided_wide(a: vec2<u32>, b: vec2<u32>) -> vec4<u32> {
    var quotient = vec2<u32>(0u, 0u);
    var rest = vec2<u32>(0u, 0u);
    for (var bit = 63; bit >= 0; bit = bit - 1) {
        let word = select(a.x, a.y, bit > 31);
        let next = (word >> (u32(bit) & 31u)) & 1u;
        rest = vec2<u32>((rest.x << 1u) | next, (rest.y << 1u) | (rest.x >> 31u));
        if (rest.y > b.y || (rest.y == b.y && rest.x >= b.x)) {
            rest = sub_wide(rest, b);
            let one = 1u << (u32(bit) & 31u);
            quotient = quotient | select(vec2<u32>(one, 0u), vec2<u32>(0u, one), bit > 31);
        }
    }
    return vec4<u32>(quotient, rest);
}
fn div_wide(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    if ((b.x | b.y) == 0u) { return b; }
    let quotient = divided_wide(size_of_wide(a), size_of_wide(b)).xy;
    return select(quotient, sub_wide(vec2<u32>(0u, 0u), quotient), ((a.y ^ b.y) >> 31u) != 0u);
}
fn mod_wide(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return sub_wide(a, mul_wide(div_wide(a, b), b)); }
fn floordiv_wide(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let quotient = div_wide(a, b);
    let rest = sub_wide(a, mul_wide(quotient, b));
    let down = (rest.x | rest.y) != 0u && ((a.y ^ b.y) >> 31u) != 0u;
    return select(quotient, sub_wide(quotient, vec2<u32>(1u, 0u)), down);
}
fn floormod_wide(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    return sub_wide(a, mul_wide(floordiv_wide(a, b), b));
}
fn shl_wide(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    if (b.y != 0u || b.x > 63u) { return vec2<u32>(0u, 0u); }
    if (b.x > 31u) { return vec2<u32>(0u, a.x << (b.x & 31u)); }
    if (b.x == 0u) { return a; }
    return vec2<u32>(a.x << b.x, (a.y << b.x) | (a.x >> (32u - b.x)));
}
fn shr_wide(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let sign = u32(i32(a.y) >> 31u);
    if (b.y != 0u || b.x > 63u) { return vec2<u32>(sign, sign); }
    if (b.x > 31u) { return vec2<u32>(u32(i32(a.y) >> (b.x & 31u)), sign); }
    if (b.x == 0u) { return a; }
    return vec2<u32>((a.x >> b.x) | (a.y << (32u - b.x)), u32(i32(a.y) >> b.x));
}
"""

_CONVERSIONS = {
    "rounded": "fn rounded(x: f32) -> f32 { return f32(f16(x)); }",
    "rounded_4": "fn rounded_4(x: vec4<f32>) -> vec4<f32> { return vec4<f32>(vec4<f16>(x)); }",
}

_FUNCTIONS = {
    text[: text.index("(")]: f"fn {text.rstrip()}" for text in (_SOURCE + elementary.SOURCE[1:]).split("\nfn ")[1:]
}

NAMES = frozenset(_FUNCTIONS)


def definitions(text: str, *, known: str = "") -> str:
    """The functions that `text` calls, except those that `known` defines."""
    there = set(re.findall(r"^fn (\w+)\(", known, re.MULTILINE))
    needed: dict[str, str] = {}
    pending = [text]
    while pending:
        for name in re.findall(r"\b(\w+)\(", pending.pop()):
            found = _FUNCTIONS.get(name) or _of_vectors(name)
            if found and name not in needed and name not in there:
                needed[name] = found
                pending.append(found)
    return "".join(f"{needed[name]}\n" for name in sorted(needed))


def conversions(text: str) -> str:
    """The conversion functions that `text` calls, in the form for a device with `f16`."""
    return "".join(f"{function}\n" for name, function in _CONVERSIONS.items() if f"{name}(" in text)


def _of_vectors(name: str) -> str | None:
    """The variant for vectors, called `<function>_4`, of a function of floats; None if there is no such function."""
    function = name.removesuffix("_4")
    if function == name or function not in _FUNCTIONS:
        return None
    head, _, _ = _FUNCTIONS[function].partition("{")
    params = re.findall(r"(\w+): f32", head)
    result = head.rpartition("->")[2].strip()
    lanes = ", ".join(f"{function}({', '.join(f'{param}.{lane}' for param in params)})" for lane in "xyzw")
    taken = ", ".join(f"{param}: vec4<f32>" for param in params)
    return f"fn {name}({taken}) -> vec4<{result}> {{ return vec4<{result}>({lanes}); }}"

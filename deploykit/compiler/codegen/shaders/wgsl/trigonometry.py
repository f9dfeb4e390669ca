"""Sine, cosine, tangent and their inverses in WGSL, for `elementary`.

`quarter_turns(x)` gives the number of quarter turns nearest to x, modulo 4, and the bits of the remainder in radians.
From pi / 4 on it is computed in integers: |x| is a mantissa times a power of two, and its product with the 96 bits of
2 / pi that matter, modulo 4, gives quarter turns with 62 fraction bits. (Source: Payne and Hanek, Radian reduction for
trigonometric functions, SIGNUM Newsletter 18, 1983.)
"""

from __future__ import annotations

SOURCE = """
fn mul_high(a: u32, b: u32) -> u32 {
    let a0 = a & 0xffffu; let a1 = a >> 16u;
    let b0 = b & 0xffffu; let b1 = b >> 16u;
    let middle = a1 * b0 + ((a0 * b0) >> 16u);
    let other = a0 * b1 + (middle & 0xffffu);
    return a1 * b1 + (middle >> 16u) + (other >> 16u);
}
fn quarter_turns(x: f32) -> vec2<u32> {
    let size = size_of(x);
    if (size < 0x3f490fdbu) { return vec2<u32>(0u, bitcast<u32>(x)); }
    let place = (size >> 23u) - 120u;
    var words = vec4<u32>(0u, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u);
    switch (place >> 5u) {
        case 1u: { words = vec4<u32>(0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u); }
        case 2u: { words = vec4<u32>(0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u); }
        case 3u: { words = vec4<u32>(0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u); }
        case 4u: { words = vec4<u32>(0xf534ddc0u, 0xdb629599u, 0x3c439041u, 0xfe5163abu); }
        default: {}
    }
    let shift = vec3<u32>(place & 31u);
    let window = (words.xyz << shift) | ((words.yzw >> vec3<u32>(1u)) >> (vec3<u32>(31u) - shift));
    let mantissa = (size & 0x7fffffu) | 0x800000u;
    let middle = window.y * mantissa;
    let low = middle + mul_high(window.z, mantissa);
    let high = window.x * mantissa + mul_high(window.y, mantissa) + select(0u, 1u, low < middle);
    let quarter = (high + 0x20000000u) >> 30u;
    let rest = vec2<u32>(low, high - (quarter << 30u));
    let negative = rest.y & 0x80000000u;
    let size_of_rest = size_of_wide(rest);
    let short = size_of_rest.y == 0u;
    let words_of_rest = select(size_of_rest, vec2<u32>(0u, size_of_rest.x), short);
    let zeros = min(countLeadingZeros(words_of_rest.y), 31u);
    let top = (words_of_rest.y << zeros) | ((words_of_rest.x >> 1u) >> (31u - zeros));
    let radians = mul_high(top, 0xc90fdaa2u);
    let more = 1u - (radians >> 31u);
    let bits = radians << more;
    let scale = bitcast<f32>((106u - more - zeros - select(0u, 32u, short)) << 23u);
    let size_of_radians = f32((bits >> 8u) + ((bits >> 7u) & 1u)) * scale;
    let sign = sign_of(x);
    let turned = select(quarter, 0u - quarter, sign != 0u) & 3u;
    return vec2<u32>(turned, bitcast<u32>(size_of_radians) | (negative ^ sign));
}
fn sine_of_rest(r: f32) -> f32 {
    let z = r * r;
    return r + r * z * sin_polynomial(z);
}
fn cosine_of_rest(r: f32) -> f32 {
    let z = r * r;
    return (1.0 - 0.5 * z) + z * z * cos_polynomial(z);
}
fn wave(x: f32, phase: u32) -> f32 {
    if (size_of(x) >= 0x7f800000u) { return not_a_number(); }
    let turns = quarter_turns(x);
    let r = bitcast<f32>(turns.y);
    let quarter = turns.x + phase;
    let chosen = select(sine_of_rest(r), cosine_of_rest(r), (quarter & 1u) != 0u);
    return signed(chosen, (quarter & 2u) << 30u);
}
fn sine(x: f32) -> f32 { return select(wave(x, 0u), x, size_of(x) == 0u); }
fn cosine(x: f32) -> f32 { return wave(x, 1u); }
fn tangent(x: f32) -> f32 {
    if (size_of(x) >= 0x7f800000u) { return not_a_number(); }
    if (size_of(x) == 0u) { return x; }
    let turns = quarter_turns(x);
    let r = bitcast<f32>(turns.y);
    let s = sine_of_rest(r);
    let c = cosine_of_rest(r);
    return select(s / c, -c / s, (turns.x & 1u) != 0u);
}
fn arc_sine_of_half(x: f32) -> f32 {
    let z = x * x;
    return x + x * z * asin_polynomial(z);
}
fn arc_sine(x: f32) -> f32 {
    let size = size_of(x);
    if (size > 0x3f800000u) { return not_a_number(); }
    if (size == 0u) { return x; }
    if (size < 0x3f000000u) { return arc_sine_of_half(x); }
    return signed(1.5707964 - 2.0 * arc_sine_of_half(sqrt(0.5 - 0.5 * abs(x))), sign_of(x));
}
fn arc_cosine(x: f32) -> f32 {
    let size = size_of(x);
    if (size > 0x3f800000u) { return not_a_number(); }
    if (size < 0x3f000000u) { return 1.5707964 - arc_sine_of_half(x); }
    let near = 2.0 * arc_sine_of_half(sqrt(0.5 - 0.5 * abs(x)));
    return select(near, 3.1415927 - near, sign_of(x) != 0u);
}
fn arc_tangent(x: f32) -> f32 {
    let size = size_of(x);
    if (size > 0x7f800000u || size == 0u) { return x; }
    let a = abs(x);
    var base = 0.0;
    var t = a;
    if (a > 2.4142137) {
        base = 1.5707964;
        t = -1.0 / a;
    } else if (a > 0.41421357) {
        base = 0.7853982;
        t = (a - 1.0) / (a + 1.0);
    }
    let z = t * t;
    return signed(base + (t + t * z * atan_polynomial(z)), sign_of(x));
}
fn arc_tangent_2(y: f32, x: f32) -> f32 {
    if (is_nan(x) || is_nan(y)) { return not_a_number(); }
    let a = min(size_of(x), size_of(y));
    let b = max(size_of(x), size_of(y));
    let ratio = bitcast<f32>(a) / bitcast<f32>(select(b, 0x3f800000u, b == 0u));
    let near = arc_tangent(select(ratio, 1.0, a == 0x7f800000u));
    let first = select(near, 1.5707964 - near, size_of(y) > size_of(x));
    return signed(select(first, 3.1415927 - first, sign_of(x) != 0u), sign_of(y));
}
"""

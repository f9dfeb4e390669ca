"""Powers and remainders of division in WGSL, for `elementary`.

    x^y = 2^(y log2 x),  log2 x = n + log2 c + log2(1 + z),  z = m / c - 1 for the nearest of 13 numbers c

The logarithm has 54 fraction bits, in two words. n and z are exact, because 1 / c is k / 128 for an integer k, and only
z^2 q(z) of `log2(1 + z) = z / ln 2 - z^2 q(z)` is computed in floats. A row of the table is k and -log2(k / 128).

The remainder comes from a long division of the mantissas, 8 bits at a time, which is exact.
"""

from __future__ import annotations

SOURCE = """
fn float_mod(a: f32, b: f32) -> f32 {
    let size = size_of(a);
    let divisor = size_of(b);
    if (size >= 0x7f800000u || divisor > 0x7f800000u || divisor == 0u) { return not_a_number(); }
    if (size < divisor) { return a; }
    let exponent = max(divisor >> 23u, 1u);
    let mantissa = (divisor & 0x7fffffu) | select(0u, 0x800000u, divisor >= 0x800000u);
    var left = max(size >> 23u, 1u) - exponent;
    var rest = ((size & 0x7fffffu) | select(0u, 0x800000u, size >= 0x800000u)) % mantissa;
    while (left > 0u && rest != 0u) {
        let step = min(left, 8u);
        rest = (rest << step) % mantissa;
        left -= step;
    }
    let zeros = countLeadingZeros(rest) - 8u;
    let normal = exponent > zeros && rest != 0u;
    let bits = select(rest << (exponent - 1u), ((exponent - zeros) << 23u) + ((rest << zeros) & 0x7fffffu), normal);
    return bitcast<f32>(bits | sign_of(a));
}
fn power(x: f32, y: f32) -> f32 {
    if (size_of(y) == 0u || bitcast<u32>(x) == 0x3f800000u) { return 1.0; }
    if (is_nan(x) || is_nan(y)) { return not_a_number(); }
    let whole = size_of(y) >= 0x4b000000u || trunc(y) == y;
    let odd = whole && size_of(y) < 0x4b800000u && (i32(y) & 1) != 0;
    let result = power_of_size(size_of(x), y);
    if (sign_of(x) == 0u || (whole && !odd)) { return result; }
    return select(select(not_a_number(), result, size_of(x) == 0u || is_inf(x)), -result, odd);
}
fn power_of_10(x: f32) -> f32 { return power(10.0, x); }
fn power_of_size(size: u32, y: f32) -> f32 {
    let shrinks = sign_of(y) != 0u;
    if (size == 0u) { return select(0.0, infinity(), shrinks); }
    if (size == 0x7f800000u) { return select(infinity(), 0.0, shrinks); }
    if (size == 0x3f800000u) { return 1.0; }
    if (is_inf(y)) { return select(infinity(), 0.0, shrinks == (size > 0x3f800000u)); }
    let a = bitcast<f32>(size);
    if (y == 2.0) { return a * a; }
    if (y == 0.5) { return sqrt(a); }
    if (y == -1.0) { return 1.0 / a; }
    let logarithm = wide_logarithm_2(size);
    let magnitude = size_of_wide(logarithm);
    let short = magnitude.y == 0u;
    let words = select(magnitude, vec2<u32>(0u, magnitude.x), short);
    let zeros = min(countLeadingZeros(words.y), 31u);
    let top = (words.y << zeros) | ((words.x >> 1u) >> (31u - zeros));
    let bits = size_of(y);
    let product = mul_high(top, (bits << 8u) | 0x80000000u);
    let shift = 124 + i32(zeros) + select(0, 32, short) - i32(bits >> 23u);
    let fixed = select(product >> u32(clamp(shift, 0, 31)), 0u, shift > 31);
    let negative = ((logarithm.y ^ bitcast<u32>(y)) & 0x80000000u) != 0u;
    if (shift < 0 || fixed > 0x98000000u) { return select(infinity(), 0.0, negative); }
    let n = i32((fixed + 0x800000u) >> 24u);
    let part = f32(i32(fixed) - (n << 24u)) * 4.1314791e-8;
    let r = select(part, -part, negative);
    return times_power_of_two(1.0 + (r + r * r * exp_polynomial(r)), select(n, -n, negative));
}
fn wide_logarithm_2(size: u32) -> vec2<u32> {
    let tiny = size < 0x00800000u;
    let normal = select(size, bitcast<u32>(f32(size)), tiny);
    let n = exponent_from_root(normal);
    let m = normal - (u32(n) << 23u);
    var table = array<vec3<u32>, 13>(
        vec3<u32>(186u, 0x0abc3579u, 0xffdd7e6cu), vec3<u32>(171u, 0x8680e0b7u, 0xffe541e7u),
        vec3<u32>(158u, 0x315b3213u, 0xffec8edbu), vec3<u32>(146u, 0x17e87e27u, 0xfff3d9eau),
        vec3<u32>(137u, 0xa46e7329u, 0xfff9b9d7u), vec3<u32>(128u, 0x00000000u, 0x00000000u),
        vec3<u32>(120u, 0x25b3eed3u, 0x0005f581u), vec3<u32>(114u, 0x14ffd659u, 0x000ab1eeu),
        vec3<u32>(108u, 0x54831f1au, 0x000fafecu), vec3<u32>(102u, 0xb2cec598u, 0x0014f6fbu),
        vec3<u32>(98u, 0x0abfbd32u, 0x0018a898u), vec3<u32>(93u, 0x0abc3579u, 0x001d7e6cu),
        vec3<u32>(89u, 0x5e18ab2eu, 0x00218d95u));
    let fixed = u32(bitcast<f32>(m) * 16777216.0);
    let entry = table[clamp((fixed + 0x80000u) >> 20u, 11u, 23u) - 11u];
    let z = i32(fixed * entry.x - 0x80000000u);
    let size_of_z = u32(abs(z));
    let first = vec2<u32>(size_of_z * 0xb8aa3b29u, mul_high(size_of_z, 0xb8aa3b29u));
    let shifted = vec2<u32>((first.x >> 8u) | (first.y << 24u), first.y >> 8u);
    let linear = select(shifted, sub_wide(vec2<u32>(0u, 0u), shifted), z < 0);
    let f = f32(z) * 4.656613e-10;
    let later = i32(f * f * log2_polynomial(f) * 1099511627776.0);
    let curve = vec2<u32>(u32(later) << 14u, u32(later >> 18u));
    let whole = vec2<u32>(entry.y, entry.z + (u32(select(n, n - 149, tiny)) << 22u));
    return sub_wide(add_wide(whole, linear), curve);
}
"""

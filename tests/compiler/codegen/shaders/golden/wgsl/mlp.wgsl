// shader 0
struct Scalars { batch: i32, threads: i32 }
@group(0) @binding(0) var<uniform> scalars: Scalars;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> param_0: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> param_1: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> relu_intermediate: array<vec4<f32>>;
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) number: u32) {
    let thread = i32(group.x + group.y * 65535u) * 64 + i32(number);
    if (thread >= scalars.threads) { return; }
    let offset: i32 = thread % 4;
    let offset_1: i32 = thread / 4;
    let offset_2: i32 = offset_1 * 4;
    let offset_3: i32 = offset_1 * 96;
    let offset_4: i32 = offset * 192;
    let offset_5: i32 = offset * 8;
    let offset_6: i32 = offset_1 * 128;
    let offset_7: i32 = offset_5 + 4;
    if ((offset_2 + 4) <= scalars.batch) {
        var sums_0: vec4<f32>;
        var sums_1: vec4<f32>;
        var sums_2: vec4<f32>;
        var sums_3: vec4<f32>;
        var sums_4: vec4<f32>;
        var sums_5: vec4<f32>;
        var sums_6: vec4<f32>;
        var sums_7: vec4<f32>;
        sums_0 = vec4<f32>(0.0f);
        sums_1 = vec4<f32>(0.0f);
        sums_2 = vec4<f32>(0.0f);
        sums_3 = vec4<f32>(0.0f);
        sums_4 = vec4<f32>(0.0f);
        sums_5 = vec4<f32>(0.0f);
        sums_6 = vec4<f32>(0.0f);
        sums_7 = vec4<f32>(0.0f);
        for (var k: i32 = 0; k < 6; k += 1) {
            var factor_0: vec4<f32>;
            var factor_1: vec4<f32>;
            var factor_2: vec4<f32>;
            var factor_3: vec4<f32>;
            let offset_8: i32 = offset_3 + (k * 4);
            factor_0 = x[offset_8 / 4];
            factor_1 = x[(offset_8 / 4) + 6];
            factor_2 = x[(offset_8 / 4) + 12];
            factor_3 = x[(offset_8 / 4) + 18];
            var factor_1_0: vec4<f32>;
            var factor_1_1: vec4<f32>;
            var factor_1_2: vec4<f32>;
            var factor_1_3: vec4<f32>;
            var factor_1_4: vec4<f32>;
            var factor_1_5: vec4<f32>;
            var factor_1_6: vec4<f32>;
            var factor_1_7: vec4<f32>;
            let offset_9: i32 = offset_4 + (k * 32);
            factor_1_0 = param_0[offset_9 / 4];
            factor_1_1 = param_0[(offset_9 / 4) + 1];
            factor_1_2 = param_0[(offset_9 / 4) + 2];
            factor_1_3 = param_0[(offset_9 / 4) + 3];
            factor_1_4 = param_0[(offset_9 / 4) + 4];
            factor_1_5 = param_0[(offset_9 / 4) + 5];
            factor_1_6 = param_0[(offset_9 / 4) + 6];
            factor_1_7 = param_0[(offset_9 / 4) + 7];
            sums_0 = sums_0 + (vec4<f32>(factor_0.x) * factor_1_0);
            sums_1 = sums_1 + (vec4<f32>(factor_0.x) * factor_1_1);
            sums_2 = sums_2 + (vec4<f32>(factor_1.x) * factor_1_0);
            sums_3 = sums_3 + (vec4<f32>(factor_1.x) * factor_1_1);
            sums_4 = sums_4 + (vec4<f32>(factor_2.x) * factor_1_0);
            sums_5 = sums_5 + (vec4<f32>(factor_2.x) * factor_1_1);
            sums_6 = sums_6 + (vec4<f32>(factor_3.x) * factor_1_0);
            sums_7 = sums_7 + (vec4<f32>(factor_3.x) * factor_1_1);
            sums_0 = sums_0 + (vec4<f32>(factor_0.y) * factor_1_2);
            sums_1 = sums_1 + (vec4<f32>(factor_0.y) * factor_1_3);
            sums_2 = sums_2 + (vec4<f32>(factor_1.y) * factor_1_2);
            sums_3 = sums_3 + (vec4<f32>(factor_1.y) * factor_1_3);
            sums_4 = sums_4 + (vec4<f32>(factor_2.y) * factor_1_2);
            sums_5 = sums_5 + (vec4<f32>(factor_2.y) * factor_1_3);
            sums_6 = sums_6 + (vec4<f32>(factor_3.y) * factor_1_2);
            sums_7 = sums_7 + (vec4<f32>(factor_3.y) * factor_1_3);
            sums_0 = sums_0 + (vec4<f32>(factor_0.z) * factor_1_4);
            sums_1 = sums_1 + (vec4<f32>(factor_0.z) * factor_1_5);
            sums_2 = sums_2 + (vec4<f32>(factor_1.z) * factor_1_4);
            sums_3 = sums_3 + (vec4<f32>(factor_1.z) * factor_1_5);
            sums_4 = sums_4 + (vec4<f32>(factor_2.z) * factor_1_4);
            sums_5 = sums_5 + (vec4<f32>(factor_2.z) * factor_1_5);
            sums_6 = sums_6 + (vec4<f32>(factor_3.z) * factor_1_4);
            sums_7 = sums_7 + (vec4<f32>(factor_3.z) * factor_1_5);
            sums_0 = sums_0 + (vec4<f32>(factor_0.w) * factor_1_6);
            sums_1 = sums_1 + (vec4<f32>(factor_0.w) * factor_1_7);
            sums_2 = sums_2 + (vec4<f32>(factor_1.w) * factor_1_6);
            sums_3 = sums_3 + (vec4<f32>(factor_1.w) * factor_1_7);
            sums_4 = sums_4 + (vec4<f32>(factor_2.w) * factor_1_6);
            sums_5 = sums_5 + (vec4<f32>(factor_2.w) * factor_1_7);
            sums_6 = sums_6 + (vec4<f32>(factor_3.w) * factor_1_6);
            sums_7 = sums_7 + (vec4<f32>(factor_3.w) * factor_1_7);
        }
        let offset_8: i32 = offset_6 + offset_5;
        relu_intermediate[offset_8 / 4] = select(sums_0 + param_1[offset_5 / 4], vec4<f32>(0.0f), (sums_0 + param_1[offset_5 / 4]) < vec4<f32>(0.0f));
        relu_intermediate[(offset_8 / 4) + 1] = select(sums_1 + param_1[offset_7 / 4], vec4<f32>(0.0f), (sums_1 + param_1[offset_7 / 4]) < vec4<f32>(0.0f));
        relu_intermediate[(offset_8 / 4) + 8] = select(sums_2 + param_1[offset_5 / 4], vec4<f32>(0.0f), (sums_2 + param_1[offset_5 / 4]) < vec4<f32>(0.0f));
        relu_intermediate[(offset_8 / 4) + 9] = select(sums_3 + param_1[offset_7 / 4], vec4<f32>(0.0f), (sums_3 + param_1[offset_7 / 4]) < vec4<f32>(0.0f));
        relu_intermediate[(offset_8 / 4) + 16] = select(sums_4 + param_1[offset_5 / 4], vec4<f32>(0.0f), (sums_4 + param_1[offset_5 / 4]) < vec4<f32>(0.0f));
        relu_intermediate[(offset_8 / 4) + 17] = select(sums_5 + param_1[offset_7 / 4], vec4<f32>(0.0f), (sums_5 + param_1[offset_7 / 4]) < vec4<f32>(0.0f));
        relu_intermediate[(offset_8 / 4) + 24] = select(sums_6 + param_1[offset_5 / 4], vec4<f32>(0.0f), (sums_6 + param_1[offset_5 / 4]) < vec4<f32>(0.0f));
        relu_intermediate[(offset_8 / 4) + 25] = select(sums_7 + param_1[offset_7 / 4], vec4<f32>(0.0f), (sums_7 + param_1[offset_7 / 4]) < vec4<f32>(0.0f));
    }
    else {
        let end = scalars.batch - offset_2;
        for (var rest: i32 = 0; rest < end; rest += 1) {
            var sums_0: vec4<f32>;
            var sums_1: vec4<f32>;
            sums_0 = vec4<f32>(0.0f);
            sums_1 = vec4<f32>(0.0f);
            for (var k: i32 = 0; k < 6; k += 1) {
                var factor_0: vec4<f32>;
                factor_0 = x[((rest * 6) + (offset_3 / 4)) + k];
                var factor_1_0: vec4<f32>;
                var factor_1_1: vec4<f32>;
                var factor_1_2: vec4<f32>;
                var factor_1_3: vec4<f32>;
                var factor_1_4: vec4<f32>;
                var factor_1_5: vec4<f32>;
                var factor_1_6: vec4<f32>;
                var factor_1_7: vec4<f32>;
                let offset_8: i32 = offset_4 + (k * 32);
                factor_1_0 = param_0[offset_8 / 4];
                factor_1_1 = param_0[(offset_8 / 4) + 1];
                factor_1_2 = param_0[(offset_8 / 4) + 2];
                factor_1_3 = param_0[(offset_8 / 4) + 3];
                factor_1_4 = param_0[(offset_8 / 4) + 4];
                factor_1_5 = param_0[(offset_8 / 4) + 5];
                factor_1_6 = param_0[(offset_8 / 4) + 6];
                factor_1_7 = param_0[(offset_8 / 4) + 7];
                sums_0 = sums_0 + (vec4<f32>(factor_0.x) * factor_1_0);
                sums_1 = sums_1 + (vec4<f32>(factor_0.x) * factor_1_1);
                sums_0 = sums_0 + (vec4<f32>(factor_0.y) * factor_1_2);
                sums_1 = sums_1 + (vec4<f32>(factor_0.y) * factor_1_3);
                sums_0 = sums_0 + (vec4<f32>(factor_0.z) * factor_1_4);
                sums_1 = sums_1 + (vec4<f32>(factor_0.z) * factor_1_5);
                sums_0 = sums_0 + (vec4<f32>(factor_0.w) * factor_1_6);
                sums_1 = sums_1 + (vec4<f32>(factor_0.w) * factor_1_7);
            }
            let offset_8: i32 = (offset_6 + (rest * 32)) + offset_5;
            relu_intermediate[offset_8 / 4] = select(sums_0 + param_1[offset_5 / 4], vec4<f32>(0.0f), (sums_0 + param_1[offset_5 / 4]) < vec4<f32>(0.0f));
            relu_intermediate[(offset_8 / 4) + 1] = select(sums_1 + param_1[offset_7 / 4], vec4<f32>(0.0f), (sums_1 + param_1[offset_7 / 4]) < vec4<f32>(0.0f));
        }
    }
}
// shader 1
struct Scalars { batch: i32, threads: i32 }
@group(0) @binding(0) var<uniform> scalars: Scalars;
@group(0) @binding(1) var<storage, read_write> r: array<f32>;
@group(0) @binding(2) var<storage, read> B: array<f32>;
@group(0) @binding(3) var<storage, read_write> matmul: array<f32>;
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) number: u32) {
    let thread = i32(group.x + group.y * 65535u) * 64 + i32(number);
    if (thread >= scalars.threads) { return; }
    let offset: i32 = thread / 10;
    let offset_1: i32 = thread % 10;
    var acc_0: f32;
    acc_0 = 0.0f;
    for (var k: i32 = 0; k < 32; k += 1) {
        acc_0 = acc_0 + (r[(offset * 32) + k] * B[(((offset_1 / 8) * 256) + (k * 8)) + (offset_1 % 8)]);
    }
    matmul[thread] = acc_0;
}
// shader 2
struct Scalars { batch: i32, threads: i32 }
@group(0) @binding(0) var<uniform> scalars: Scalars;
@group(0) @binding(1) var<storage, read_write> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> peak: array<f32>;
fn max_of(a: f32, b: f32) -> f32 { return select(b, a, a > b); }
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) number: u32) {
    let thread = i32(group.x + group.y * 65535u) * 64 + i32(number);
    if (thread >= scalars.threads) { return; }
    var acc_0: f32;
    acc_0 = -3.4028234663852886e+38f;
    for (var along: i32 = 0; along < 10; along += 1) {
        acc_0 = max_of(acc_0, x[(thread * 10) + along]);
    }
    peak[thread] = acc_0;
}
// shader 3
struct Scalars { batch: i32, threads: i32 }
@group(0) @binding(0) var<uniform> scalars: Scalars;
@group(0) @binding(1) var<storage, read_write> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> peak: array<f32>;
@group(0) @binding(3) var<storage, read_write> softmax: array<f32>;
fn exp_polynomial(x: f32) -> f32 { return (((((0.0013814596459269524) * x + (0.0083687175065279)) * x + (0.04166838899254799)) * x + (0.1666652113199234)) * x + (0.4999999403953552)); }
fn exponential(x: f32) -> f32 { return exponential_scaled(x, 0); }
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
fn infinity() -> f32 { var bits = 0x7f800000u; return bitcast<f32>(bits); }
fn multiple_of_ln_2(x: f32) -> i32 { return i32(round(x * 1.442695)); }
fn power_of_two(n: i32) -> f32 { return bitcast<f32>(u32(n + 127) << 23u); }
fn rest_of_ln_2(x: f32, n: i32) -> f32 {
    let rest = i32(x * 16777216.0) - n * 11629080;
    return select(f32(rest) * 5.9604645e-8 + f32(n) * 1.9046543e-9, x, n == 0);
}
fn sign_of(x: f32) -> u32 { return bitcast<u32>(x) & 0x80000000u; }
fn size_of(x: f32) -> u32 { return bitcast<u32>(x) & 0x7fffffffu; }
fn times_power_of_two(x: f32, n: i32) -> f32 {
    let half = n >> 1u;
    return x * power_of_two(half) * power_of_two(n - half);
}
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) number: u32) {
    let thread = i32(group.x + group.y * 65535u) * 64 + i32(number);
    if (thread >= scalars.threads) { return; }
    let offset: i32 = thread / 10;
    softmax[thread] = select(exponential(select(select(x[thread] - peak[offset], 0.0f, 0.0f < (x[thread] - peak[offset])), -87.0f, (x[thread] - peak[offset]) < (-87.0f))), 0.0f, (x[thread] - peak[offset]) < (-87.0f));
}
// shader 4
struct Scalars { batch: i32, threads: i32 }
@group(0) @binding(0) var<uniform> scalars: Scalars;
@group(0) @binding(1) var<storage, read_write> softmax: array<f32>;
@group(0) @binding(2) var<storage, read_write> share: array<f32>;
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) number: u32) {
    let thread = i32(group.x + group.y * 65535u) * 64 + i32(number);
    if (thread >= scalars.threads) { return; }
    var acc_0: f32;
    acc_0 = 0.0f;
    for (var along: i32 = 0; along < 10; along += 1) {
        acc_0 = acc_0 + softmax[(thread * 10) + along];
    }
    share[thread] = 1.0f / acc_0;
}
// shader 5
struct Scalars { batch: i32, threads: i32 }
@group(0) @binding(0) var<uniform> scalars: Scalars;
@group(0) @binding(1) var<storage, read_write> share: array<f32>;
@group(0) @binding(2) var<storage, read_write> softmax: array<f32>;
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) number: u32) {
    let thread = i32(group.x + group.y * 65535u) * 64 + i32(number);
    if (thread >= scalars.threads) { return; }
    let offset: i32 = thread / 10;
    softmax[thread] = softmax[thread] * share[offset];
}

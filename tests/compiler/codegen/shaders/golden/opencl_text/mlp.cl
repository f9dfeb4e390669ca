#ifdef DK_F16
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#endif

float max_of(float a, float b) {
    return (a > b) ? a : b;
}

uint size_of(float x) {
    return as_uint(x) & 0x7fffffffu;
}

float infinity(void) {
    uint bits = 0x7f800000u;
    return as_float(bits);
}

uint sign_of(float x) {
    return as_uint(x) & 0x80000000u;
}

int multiple_of_ln_2(float x) {
    return convert_int_sat_rtz(rint(x * 1.442695f));
}

float rest_of_ln_2(float x, int n) {
    const int rest = as_int(as_uint(convert_int_sat_rtz(x * 1.6777216e+07f)) - (as_uint(n) * 11629080u));
    return (n == 0) ? x : ((convert_float(rest) * 5.9604645e-08f) + (convert_float(n) * 1.9046542e-09f));
}

float exp_polynomial(float x) {
    return (((((((0.0013814596f * x) + 0.0083687175f) * x) + 0.04166839f) * x) + 0.16666521f) * x) + 0.49999994f;
}

float power_of_two(int n) {
    return as_float(as_uint(as_int(as_uint(n) + 127u)) << 23u);
}

float times_power_of_two(float x, int n) {
    const int half_ = n >> 1u;
    return (x * power_of_two(half_)) * power_of_two(as_int(as_uint(n) - as_uint(half_)));
}

float exponential_scaled(float x, int scale) {
    const uint size = size_of(x);
    if (size > 0x42d00000u) {
        if (size > 0x7f800000u) {
            return x;
        }
        return (sign_of(x) != 0u) ? 0.0f : infinity();
    }
    const int n = multiple_of_ln_2(x);
    const float r = rest_of_ln_2(x, n);
    return times_power_of_two(1.0f + (r + ((r * r) * exp_polynomial(r))), as_int(as_uint(n) + as_uint(scale)));
}

float exponential(float x) {
    return exponential_scaled(x, 0);
}

__kernel __attribute__((reqd_work_group_size(64, 1, 1)))
void kernel_0(
    __global const uint4* x_base, const uint x_at,
    __global const uint4* param_0_base, const uint param_0_at,
    __global const uint4* param_1_base, const uint param_1_at,
    __global uint4* relu_intermediate_base, const uint relu_intermediate_at,
    const int batch, const int threads
) {
    __global const float4* restrict x = (__global const float4*)(x_base + x_at);
    __global const float4* restrict param_0 = (__global const float4*)(param_0_base + param_0_at);
    __global const float4* restrict param_1 = (__global const float4*)(param_1_base + param_1_at);
    __global float4* restrict relu_intermediate = (__global float4*)(relu_intermediate_base + relu_intermediate_at);
    const uint3 group = (uint3)(get_group_id(0), get_group_id(1), 0u);
    const uint number = (uint)get_local_id(0);
    const int thread = (as_int(group.x + (group.y * 65535u)) * 64) + as_int(number);
    if (thread >= threads) {
        return;
    }
    const int offset = thread % 4;
    const int offset_1 = thread / 4;
    const int offset_2 = offset_1 * 4;
    const int offset_3 = offset_1 * 96;
    const int offset_4 = offset * 192;
    const int offset_5 = offset * 8;
    const int offset_6 = offset_1 * 128;
    const int offset_7 = offset_5 + 4;
    if ((offset_2 + 4) <= batch) {
        float4 sums_0;
        float4 sums_1;
        float4 sums_2;
        float4 sums_3;
        float4 sums_4;
        float4 sums_5;
        float4 sums_6;
        float4 sums_7;
        sums_0 = (float4)(0.0f);
        sums_1 = (float4)(0.0f);
        sums_2 = (float4)(0.0f);
        sums_3 = (float4)(0.0f);
        sums_4 = (float4)(0.0f);
        sums_5 = (float4)(0.0f);
        sums_6 = (float4)(0.0f);
        sums_7 = (float4)(0.0f);
        for (int k = 0; k < 6; k += 1) {
            float4 factor_0;
            float4 factor_1;
            float4 factor_2;
            float4 factor_3;
            const int offset_8 = offset_3 + (k * 4);
            factor_0 = x[offset_8 / 4];
            factor_1 = x[(offset_8 / 4) + 6];
            factor_2 = x[(offset_8 / 4) + 12];
            factor_3 = x[(offset_8 / 4) + 18];
            float4 factor_1_0;
            float4 factor_1_1;
            float4 factor_1_2;
            float4 factor_1_3;
            float4 factor_1_4;
            float4 factor_1_5;
            float4 factor_1_6;
            float4 factor_1_7;
            const int offset_9 = offset_4 + (k * 32);
            factor_1_0 = param_0[offset_9 / 4];
            factor_1_1 = param_0[(offset_9 / 4) + 1];
            factor_1_2 = param_0[(offset_9 / 4) + 2];
            factor_1_3 = param_0[(offset_9 / 4) + 3];
            factor_1_4 = param_0[(offset_9 / 4) + 4];
            factor_1_5 = param_0[(offset_9 / 4) + 5];
            factor_1_6 = param_0[(offset_9 / 4) + 6];
            factor_1_7 = param_0[(offset_9 / 4) + 7];
            sums_0 += (float4)(factor_0.x) * factor_1_0;
            sums_1 += (float4)(factor_0.x) * factor_1_1;
            sums_2 += (float4)(factor_1.x) * factor_1_0;
            sums_3 += (float4)(factor_1.x) * factor_1_1;
            sums_4 += (float4)(factor_2.x) * factor_1_0;
            sums_5 += (float4)(factor_2.x) * factor_1_1;
            sums_6 += (float4)(factor_3.x) * factor_1_0;
            sums_7 += (float4)(factor_3.x) * factor_1_1;
            sums_0 += (float4)(factor_0.y) * factor_1_2;
            sums_1 += (float4)(factor_0.y) * factor_1_3;
            sums_2 += (float4)(factor_1.y) * factor_1_2;
            sums_3 += (float4)(factor_1.y) * factor_1_3;
            sums_4 += (float4)(factor_2.y) * factor_1_2;
            sums_5 += (float4)(factor_2.y) * factor_1_3;
            sums_6 += (float4)(factor_3.y) * factor_1_2;
            sums_7 += (float4)(factor_3.y) * factor_1_3;
            sums_0 += (float4)(factor_0.z) * factor_1_4;
            sums_1 += (float4)(factor_0.z) * factor_1_5;
            sums_2 += (float4)(factor_1.z) * factor_1_4;
            sums_3 += (float4)(factor_1.z) * factor_1_5;
            sums_4 += (float4)(factor_2.z) * factor_1_4;
            sums_5 += (float4)(factor_2.z) * factor_1_5;
            sums_6 += (float4)(factor_3.z) * factor_1_4;
            sums_7 += (float4)(factor_3.z) * factor_1_5;
            sums_0 += (float4)(factor_0.w) * factor_1_6;
            sums_1 += (float4)(factor_0.w) * factor_1_7;
            sums_2 += (float4)(factor_1.w) * factor_1_6;
            sums_3 += (float4)(factor_1.w) * factor_1_7;
            sums_4 += (float4)(factor_2.w) * factor_1_6;
            sums_5 += (float4)(factor_2.w) * factor_1_7;
            sums_6 += (float4)(factor_3.w) * factor_1_6;
            sums_7 += (float4)(factor_3.w) * factor_1_7;
        }
        const int offset_8 = offset_6 + offset_5;
        relu_intermediate[offset_8 / 4] = select(sums_0 + param_1[offset_5 / 4], (float4)(0.0f), (sums_0 + param_1[offset_5 / 4]) < (float4)(0.0f));
        relu_intermediate[(offset_8 / 4) + 1] = select(sums_1 + param_1[offset_7 / 4], (float4)(0.0f), (sums_1 + param_1[offset_7 / 4]) < (float4)(0.0f));
        relu_intermediate[(offset_8 / 4) + 8] = select(sums_2 + param_1[offset_5 / 4], (float4)(0.0f), (sums_2 + param_1[offset_5 / 4]) < (float4)(0.0f));
        relu_intermediate[(offset_8 / 4) + 9] = select(sums_3 + param_1[offset_7 / 4], (float4)(0.0f), (sums_3 + param_1[offset_7 / 4]) < (float4)(0.0f));
        relu_intermediate[(offset_8 / 4) + 16] = select(sums_4 + param_1[offset_5 / 4], (float4)(0.0f), (sums_4 + param_1[offset_5 / 4]) < (float4)(0.0f));
        relu_intermediate[(offset_8 / 4) + 17] = select(sums_5 + param_1[offset_7 / 4], (float4)(0.0f), (sums_5 + param_1[offset_7 / 4]) < (float4)(0.0f));
        relu_intermediate[(offset_8 / 4) + 24] = select(sums_6 + param_1[offset_5 / 4], (float4)(0.0f), (sums_6 + param_1[offset_5 / 4]) < (float4)(0.0f));
        relu_intermediate[(offset_8 / 4) + 25] = select(sums_7 + param_1[offset_7 / 4], (float4)(0.0f), (sums_7 + param_1[offset_7 / 4]) < (float4)(0.0f));
    }
    else {
        const int end = batch - offset_2;
        for (int rest = 0; rest < end; rest += 1) {
            float4 sums_0;
            float4 sums_1;
            sums_0 = (float4)(0.0f);
            sums_1 = (float4)(0.0f);
            for (int k = 0; k < 6; k += 1) {
                float4 factor_0;
                factor_0 = x[((rest * 6) + (offset_3 / 4)) + k];
                float4 factor_1_0;
                float4 factor_1_1;
                float4 factor_1_2;
                float4 factor_1_3;
                float4 factor_1_4;
                float4 factor_1_5;
                float4 factor_1_6;
                float4 factor_1_7;
                const int offset_8 = offset_4 + (k * 32);
                factor_1_0 = param_0[offset_8 / 4];
                factor_1_1 = param_0[(offset_8 / 4) + 1];
                factor_1_2 = param_0[(offset_8 / 4) + 2];
                factor_1_3 = param_0[(offset_8 / 4) + 3];
                factor_1_4 = param_0[(offset_8 / 4) + 4];
                factor_1_5 = param_0[(offset_8 / 4) + 5];
                factor_1_6 = param_0[(offset_8 / 4) + 6];
                factor_1_7 = param_0[(offset_8 / 4) + 7];
                sums_0 += (float4)(factor_0.x) * factor_1_0;
                sums_1 += (float4)(factor_0.x) * factor_1_1;
                sums_0 += (float4)(factor_0.y) * factor_1_2;
                sums_1 += (float4)(factor_0.y) * factor_1_3;
                sums_0 += (float4)(factor_0.z) * factor_1_4;
                sums_1 += (float4)(factor_0.z) * factor_1_5;
                sums_0 += (float4)(factor_0.w) * factor_1_6;
                sums_1 += (float4)(factor_0.w) * factor_1_7;
            }
            const int offset_8 = (offset_6 + (rest * 32)) + offset_5;
            relu_intermediate[offset_8 / 4] = select(sums_0 + param_1[offset_5 / 4], (float4)(0.0f), (sums_0 + param_1[offset_5 / 4]) < (float4)(0.0f));
            relu_intermediate[(offset_8 / 4) + 1] = select(sums_1 + param_1[offset_7 / 4], (float4)(0.0f), (sums_1 + param_1[offset_7 / 4]) < (float4)(0.0f));
        }
    }
}

__kernel __attribute__((reqd_work_group_size(64, 1, 1)))
void kernel_1(
    __global uint4* r_base, const uint r_at,
    __global const uint4* B_base, const uint B_at,
    __global uint4* matmul_base, const uint matmul_at,
    const int batch, const int threads
) {
    __global float* restrict r = (__global float*)(r_base + r_at);
    __global const float* restrict B = (__global const float*)(B_base + B_at);
    __global float* restrict matmul = (__global float*)(matmul_base + matmul_at);
    const uint3 group = (uint3)(get_group_id(0), get_group_id(1), 0u);
    const uint number = (uint)get_local_id(0);
    const int thread = (as_int(group.x + (group.y * 65535u)) * 64) + as_int(number);
    if (thread >= threads) {
        return;
    }
    const int offset = thread / 10;
    const int offset_1 = thread % 10;
    float acc_0;
    acc_0 = 0.0f;
    for (int k = 0; k < 32; k += 1) {
        acc_0 += r[(offset * 32) + k] * B[(((offset_1 / 8) * 256) + (k * 8)) + (offset_1 % 8)];
    }
    matmul[thread] = acc_0;
}

__kernel __attribute__((reqd_work_group_size(64, 1, 1)))
void kernel_2(
    __global uint4* x_base, const uint x_at,
    __global uint4* peak_base, const uint peak_at,
    const int batch, const int threads
) {
    __global float* restrict x = (__global float*)(x_base + x_at);
    __global float* restrict peak = (__global float*)(peak_base + peak_at);
    const uint3 group = (uint3)(get_group_id(0), get_group_id(1), 0u);
    const uint number = (uint)get_local_id(0);
    const int thread = (as_int(group.x + (group.y * 65535u)) * 64) + as_int(number);
    if (thread >= threads) {
        return;
    }
    float acc_0;
    acc_0 = -3.4028235e+38f;
    for (int along = 0; along < 10; along += 1) {
        acc_0 = max_of(acc_0, x[(thread * 10) + along]);
    }
    peak[thread] = acc_0;
}

__kernel __attribute__((reqd_work_group_size(64, 1, 1)))
void kernel_3(
    __global uint4* x_base, const uint x_at,
    __global uint4* peak_base, const uint peak_at,
    __global uint4* softmax_base, const uint softmax_at,
    const int batch, const int threads
) {
    __global float* restrict x = (__global float*)(x_base + x_at);
    __global float* restrict peak = (__global float*)(peak_base + peak_at);
    __global float* restrict softmax = (__global float*)(softmax_base + softmax_at);
    const uint3 group = (uint3)(get_group_id(0), get_group_id(1), 0u);
    const uint number = (uint)get_local_id(0);
    const int thread = (as_int(group.x + (group.y * 65535u)) * 64) + as_int(number);
    if (thread >= threads) {
        return;
    }
    const int offset = thread / 10;
    softmax[thread] = ((x[thread] - peak[offset]) < (-87.0f)) ? 0.0f : exponential(((x[thread] - peak[offset]) < (-87.0f)) ? (-87.0f) : ((0.0f < (x[thread] - peak[offset])) ? 0.0f : (x[thread] - peak[offset])));
}

__kernel __attribute__((reqd_work_group_size(64, 1, 1)))
void kernel_4(
    __global uint4* softmax_base, const uint softmax_at,
    __global uint4* share_base, const uint share_at,
    const int batch, const int threads
) {
    __global float* restrict softmax = (__global float*)(softmax_base + softmax_at);
    __global float* restrict share = (__global float*)(share_base + share_at);
    const uint3 group = (uint3)(get_group_id(0), get_group_id(1), 0u);
    const uint number = (uint)get_local_id(0);
    const int thread = (as_int(group.x + (group.y * 65535u)) * 64) + as_int(number);
    if (thread >= threads) {
        return;
    }
    float acc_0;
    acc_0 = 0.0f;
    for (int along = 0; along < 10; along += 1) {
        acc_0 += softmax[(thread * 10) + along];
    }
    share[thread] = 1.0f / acc_0;
}

__kernel __attribute__((reqd_work_group_size(64, 1, 1)))
void kernel_5(
    __global uint4* share_base, const uint share_at,
    __global uint4* softmax_base, const uint softmax_at,
    const int batch, const int threads
) {
    __global float* restrict share = (__global float*)(share_base + share_at);
    __global float* restrict softmax = (__global float*)(softmax_base + softmax_at);
    const uint3 group = (uint3)(get_group_id(0), get_group_id(1), 0u);
    const uint number = (uint)get_local_id(0);
    const int thread = (as_int(group.x + (group.y * 65535u)) * 64) + as_int(number);
    if (thread >= threads) {
        return;
    }
    const int offset = thread / 10;
    softmax[thread] *= share[offset];
}

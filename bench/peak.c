/* Loops that measure the limits of a thread of this CPU: independent fused multiply-adds, and memory traffic. */
#include <stdint.h>

#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(__AVX__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif

typedef float vector __attribute__((vector_size(VECTOR_BYTES)));

#define LANES ((int64_t)(VECTOR_BYTES / sizeof(float)))
#define EACH(apply)                                                                                                    \
    apply(0) apply(1) apply(2) apply(3) apply(4) apply(5) apply(6) apply(7) apply(8) apply(9) apply(10) apply(11)
#define CHAINS 12 /* at least latency times number of units of any core, and few enough for 16 registers */

int64_t peak_flops_per_round(void) {
    return 2 * CHAINS * LANES;
}

/* The result depends on the whole computation, so that no part of it can be optimised away. */
float peak_fma(int64_t rounds, float factor, float summand) {
    vector sum = {0};
    const vector by = sum + factor;
    const vector plus = sum + summand;
    int64_t round;
#define START(i) vector v##i = sum + (float)i;
    EACH(START)
    for (round = 0; round < rounds; ++round) {
#define STEP(i) v##i = v##i * by + plus;
        EACH(STEP)
    }
#define ADD(i) sum += v##i;
    EACH(ADD)
    return sum[0];
}

/* Reads `count` floats, a multiple of 128. */
float peak_read(const float* data, int64_t count) {
    const vector* from = (const vector*)(const void*)data;
    vector a = {0}, b = {0}, c = {0}, d = {0};
    int64_t index;
    for (index = 0; index < count / LANES; index += 4) {
        a += from[index];
        b += from[index + 1];
        c += from[index + 2];
        d += from[index + 3];
    }
    a += b + c + d;
    return a[0];
}

/* target = left + factor * right (J. D. McCalpin's STREAM triad): reads two arrays and writes one. */
void peak_triad(
    float* restrict target, const float* restrict left, const float* restrict right, float factor, int64_t count
) {
    int64_t index;
    for (index = 0; index < count; ++index) {
        target[index] = left[index] + factor * right[index];
    }
}

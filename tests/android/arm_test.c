/* Compares the functions of arm.c, whose names begin with own_ here, with those of the compiler's library. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef int64_t pair __attribute__((vector_size(16))); /* in r0..r3 */

pair own_ldivmod(int64_t a, int64_t b);
pair own_uldivmod(uint64_t a, uint64_t b);
int32_t own_idiv(int32_t a, int32_t b);
uint32_t own_uidiv(uint32_t a, uint32_t b);
uint64_t own_idivmod(int32_t a, int32_t b);
uint64_t own_uidivmod(uint32_t a, uint32_t b);
int64_t own_d2lz(double value);
uint64_t own_d2ulz(double value);
int64_t own_f2lz(float value);
uint64_t own_f2ulz(float value);
double own_l2d(int64_t value);
double own_ul2d(uint64_t value);
float own_l2f(int64_t value);
float own_ul2f(uint64_t value);
float own_h2f(uint16_t half);
uint16_t own_f2h(float value);

static int faults;

#define SAME(found, expected)                                                                                          \
    do {                                                                                                               \
        if ((found) != (expected)) {                                                                                   \
            ++faults;                                                                                                  \
            printf("%s, line %d\n", #found, __LINE__);                                                                 \
        }                                                                                                              \
    } while (0)

static uint64_t state = 88172645463325252u;

static uint64_t next(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

/* Numbers of all magnitudes, and the ends of the ranges. */
static uint64_t some(int round) {
    static const uint64_t ends[] = {0, 1, UINT32_MAX, (uint64_t)1 << 32, INT64_MAX, (uint64_t)1 << 63, UINT64_MAX};
    return round % 16 == 0 ? ends[next() % 7] : next() >> next() % 64;
}

static void divide(uint64_t a, uint64_t b) {
    const int64_t sa = (int64_t)a, sb = (int64_t)b;
    const uint32_t na = (uint32_t)a, nb = (uint32_t)b;
    const int32_t da = (int32_t)na, db = (int32_t)nb;
    if (b != 0) {
        pair both = own_uldivmod(a, b);
        SAME((uint64_t)both[0], a / b);
        SAME((uint64_t)both[1], a % b);
    }
    if (b != 0 && !(sa == INT64_MIN && sb == -1)) {
        pair both = own_ldivmod(sa, sb);
        SAME(both[0], sa / sb);
        SAME(both[1], sa % sb);
    }
    if (nb != 0) {
        SAME(own_uidiv(na, nb), na / nb);
        SAME(own_uidivmod(na, nb), (uint64_t)(na % nb) << 32 | na / nb);
    }
    if (nb != 0 && !(da == INT32_MIN && db == -1)) {
        SAME(own_idiv(da, db), da / db);
        SAME(own_idivmod(da, db), (uint64_t)(uint32_t)(da % db) << 32 | (uint32_t)(da / db));
    }
}

static void convert(uint64_t bits) {
    double wide;
    float narrow;
    const uint32_t low = (uint32_t)bits;
    SAME(own_l2d((int64_t)bits), (double)(int64_t)bits);
    SAME(own_ul2d(bits), (double)bits);
    SAME(own_l2f((int64_t)bits), (float)(int64_t)bits);
    SAME(own_ul2f(bits), (float)bits);
    memcpy(&wide, &bits, sizeof wide);
    memcpy(&narrow, &low, sizeof narrow);
    if (fabs(wide) < 9.2e18) {
        SAME(own_d2lz(wide), (int64_t)wide);
    }
    if (wide >= 0 && wide < 1.8e19) {
        SAME(own_d2ulz(wide), (uint64_t)wide);
    }
    if (fabsf(narrow) < 9.2e18f) {
        SAME(own_f2lz(narrow), (int64_t)narrow);
    }
    if (narrow >= 0 && narrow < 1.8e19f) {
        SAME(own_f2ulz(narrow), (uint64_t)narrow);
    }
    if (narrow == narrow) {
        __fp16 half = (__fp16)narrow;
        uint16_t expected;
        memcpy(&expected, &half, sizeof expected);
        SAME(own_f2h(narrow), expected);
    } else {
        SAME(own_f2h(narrow) & 0x7e00, 0x7e00);
    }
}

int main(void) {
    int round;
    for (round = 0; round < 200000; ++round) {
        uint64_t a = some(round), b = some(round + 1);
        divide(a, b);
        divide(b, a);
        convert(a);
        convert(next());
    }
    for (round = 0; round < 65536; ++round) {
        const uint16_t bits = (uint16_t)round;
        __fp16 half;
        memcpy(&half, &bits, sizeof half);
        if (half == half) {
            SAME(own_h2f(bits), (float)half);
            SAME(own_f2h(own_h2f(bits)), bits);
        } else {
            SAME(own_h2f(bits) != own_h2f(bits), 1);
        }
    }
    SAME(own_d2lz(1e300), INT64_MAX);
    SAME(own_d2lz(-1e300), INT64_MIN);
    SAME(own_d2lz(NAN), 0);
    SAME(own_d2ulz(-1), 0u);
    return faults != 0;
}

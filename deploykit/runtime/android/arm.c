/* Functions that compilers for 32-bit Arm call where the CPU has no instruction: division, and conversions between
   64-bit integers and floating point, and from and to half precision (IEEE 754 binary16). Names and conventions:
   Run-time ABI for the Arm Architecture, section 4. The library has its own because Android's C library does not
   promise to have them. */
#include <stdint.h>

typedef struct {
    uint32_t quotient;
    uint32_t rest;
} division32;

typedef struct {
    uint64_t quotient;
    uint64_t rest;
} division64;

uint64_t dk_divide_unsigned(uint64_t a, uint64_t b, uint64_t* rest);
int64_t dk_divide_signed(int64_t a, int64_t b, int64_t* rest);
uint32_t __aeabi_uidiv(uint32_t a, uint32_t b);
int32_t __aeabi_idiv(int32_t a, int32_t b);
uint64_t __aeabi_uidivmod(uint32_t a, uint32_t b);
uint64_t __aeabi_idivmod(int32_t a, int32_t b);
int64_t __aeabi_d2lz(double value);
uint64_t __aeabi_d2ulz(double value);
int64_t __aeabi_f2lz(float value);
uint64_t __aeabi_f2ulz(float value);
double __aeabi_l2d(int64_t value);
double __aeabi_ul2d(uint64_t value);
float __aeabi_l2f(int64_t value);
float __aeabi_ul2f(uint64_t value);
float __gnu_h2f_ieee(uint16_t half);
uint16_t __gnu_f2h_ieee(float value);

static division32 divide32(uint32_t a, uint32_t b) {
    division32 result = {0, a};
    int shift;
    if (b == 0 || a < b) {
        return result;
    }
    for (shift = __builtin_clz(b) - __builtin_clz(a); shift >= 0; --shift) {
        if (result.rest >> shift >= b) {
            result.rest -= b << shift;
            result.quotient |= (uint32_t)1 << shift;
        }
    }
    return result;
}

static division64 divide64(uint64_t a, uint64_t b) {
    division64 result = {0, a};
    int shift;
    if ((a | b) >> 32 == 0) {
        division32 narrow = divide32((uint32_t)a, (uint32_t)b);
        result.quotient = narrow.quotient;
        result.rest = narrow.rest;
        return result;
    }
    if (b == 0 || a < b) {
        return result;
    }
    for (shift = __builtin_clzll(b) - __builtin_clzll(a); shift >= 0; --shift) {
        if (result.rest >> shift >= b) {
            result.rest -= b << shift;
            result.quotient |= (uint64_t)1 << shift;
        }
    }
    return result;
}

static uint32_t magnitude32(int32_t value) {
    return value < 0 ? -(uint32_t)value : (uint32_t)value;
}

static uint64_t magnitude64(int64_t value) {
    return value < 0 ? -(uint64_t)value : (uint64_t)value;
}

uint32_t __aeabi_uidiv(uint32_t a, uint32_t b) {
    return divide32(a, b).quotient;
}

/* Quotient and rest in two registers, the first as the low half. */
uint64_t __aeabi_uidivmod(uint32_t a, uint32_t b) {
    division32 result = divide32(a, b);
    return (uint64_t)result.rest << 32 | result.quotient;
}

uint64_t __aeabi_idivmod(int32_t a, int32_t b) {
    division32 result = divide32(magnitude32(a), magnitude32(b));
    uint32_t quotient = (a < 0) != (b < 0) ? -result.quotient : result.quotient;
    uint32_t rest = a < 0 ? -result.rest : result.rest;
    return (uint64_t)rest << 32 | quotient;
}

int32_t __aeabi_idiv(int32_t a, int32_t b) {
    return (int32_t)(uint32_t)__aeabi_idivmod(a, b);
}

__attribute__((used)) uint64_t dk_divide_unsigned(uint64_t a, uint64_t b, uint64_t* rest) {
    division64 result = divide64(a, b);
    *rest = result.rest;
    return result.quotient;
}

__attribute__((used)) int64_t dk_divide_signed(int64_t a, int64_t b, int64_t* rest) {
    division64 result = divide64(magnitude64(a), magnitude64(b));
    *rest = (int64_t)(a < 0 ? -result.rest : result.rest);
    return (int64_t)((a < 0) != (b < 0) ? -result.quotient : result.quotient);
}

/* `name` takes two integers of 64 bits in r0..r3, and gives the quotient in r0, r1 and the rest in r2, r3. */
#define DIVISION(name, divide)                                                                                         \
    __attribute__((naked)) void name(void);                                                                            \
    void name(void) {                                                                                                  \
        __asm__("push {r11, lr}\n"                                                                                     \
                "sub sp, sp, #16\n"                                                                                    \
                "add r12, sp, #8\n"                                                                                    \
                "str r12, [sp]\n"                                                                                      \
                "bl " divide "\n"                                                                                      \
                "ldr r2, [sp, #8]\n"                                                                                   \
                "ldr r3, [sp, #12]\n"                                                                                  \
                "add sp, sp, #16\n"                                                                                    \
                "pop {r11, pc}\n");                                                                                    \
    }

DIVISION(__aeabi_uldivmod, "dk_divide_unsigned")
DIVISION(__aeabi_ldivmod, "dk_divide_signed")

/* Beyond the range of the result, conversions give its nearest end, and 0 for NaN. The halves are exact. */
uint64_t __aeabi_d2ulz(double value) {
    uint32_t high;
    if (!(value >= 1.0)) {
        return 0;
    }
    if (value >= 18446744073709551616.0) {
        return UINT64_MAX;
    }
    high = (uint32_t)(value * (1.0 / 4294967296.0));
    return (uint64_t)high << 32 | (uint32_t)(value - (double)high * 4294967296.0);
}

int64_t __aeabi_d2lz(double value) {
    uint64_t size = __aeabi_d2ulz(value < 0 ? -value : value);
    if (value < 0) {
        return size >= (uint64_t)INT64_MAX + 1 ? INT64_MIN : -(int64_t)size;
    }
    return size > (uint64_t)INT64_MAX ? INT64_MAX : (int64_t)size;
}

int64_t __aeabi_f2lz(float value) {
    return __aeabi_d2lz((double)value);
}

uint64_t __aeabi_f2ulz(float value) {
    return __aeabi_d2ulz((double)value);
}

/* Both summands are exact, so the sum is rounded once. */
double __aeabi_ul2d(uint64_t value) {
    return (double)(uint32_t)(value >> 32) * 4294967296.0 + (double)(uint32_t)value;
}

double __aeabi_l2d(int64_t value) {
    return (double)(int32_t)(value >> 32) * 4294967296.0 + (double)(uint32_t)value;
}

/* Bits that a double cannot hold become one sticky bit, so that rounding twice equals rounding once. */
float __aeabi_ul2f(uint64_t value) {
    if (value >> 53 != 0) {
        value = (value & ~(uint64_t)0xfff) | ((value & 0xfff) != 0 ? 0x800 : 0);
    }
    return (float)__aeabi_ul2d(value);
}

float __aeabi_l2f(int64_t value) {
    float size = __aeabi_ul2f(magnitude64(value));
    return value < 0 ? -size : size;
}

static float float_of(uint32_t bits) {
    union {
        uint32_t bits;
        float value;
    } both = {bits};
    return both.value;
}

static uint32_t bits_of(float value) {
    union {
        float value;
        uint32_t bits;
    } both = {value};
    return both.bits;
}

float __gnu_h2f_ieee(uint16_t half) {
    const uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    const uint32_t exponent = half >> 10 & 31;
    const uint32_t fraction = half & 0x3ff;
    if (exponent == 31) {
        return float_of(sign | 0x7f800000 | fraction << 13);
    }
    if (exponent == 0) {
        return float_of(sign | bits_of((float)fraction * (1.0f / 16777216)));
    }
    return float_of(sign | (exponent + 112) << 23 | fraction << 13);
}

/* Rounds to the nearest, halves to even. */
uint16_t __gnu_f2h_ieee(float value) {
    const uint32_t sign = bits_of(value) >> 16 & 0x8000;
    const uint32_t size = bits_of(value) & 0x7fffffff;
    const uint32_t shift = 126 - (size >> 23);
    uint32_t fraction, rest, half;
    if (size > 0x7f800000) {
        return (uint16_t)(sign | 0x7e00 | (size >> 13 & 0x1ff));
    }
    if (size >= 0x477ff000) { /* 65520, half a step beyond the greatest number */
        return (uint16_t)(sign | 0x7c00);
    }
    if (size >= 0x38800000) { /* 2^-14, the least normal number */
        fraction = size - (112u << 23);
        return (uint16_t)(sign | (fraction + 0xfff + (fraction >> 13 & 1)) >> 13);
    }
    if (size < 0x33000000) { /* 2^-25, half of the least number */
        return (uint16_t)sign;
    }
    fraction = (size & 0x7fffff) | 0x800000;
    rest = fraction & (((uint32_t)1 << shift) - 1);
    half = (uint32_t)1 << (shift - 1);
    fraction >>= shift;
    return (uint16_t)(sign | (fraction + (rest > half || (rest == half && (fraction & 1)))));
}

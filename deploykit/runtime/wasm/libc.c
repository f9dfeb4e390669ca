/* The part of the C library that a model may call, for WebAssembly without one. Memory functions use WebAssembly's own
   instructions; functions of <math.h> call those of JavaScript, which the module imports if it uses them. */
#include <stddef.h>

#define JAVASCRIPT(function) __attribute__((import_module("math"), import_name(#function)))

/* A function of one argument, for double and for float. */
#define UNARY(name)                                                                                                    \
    JAVASCRIPT(name) double dk_js_##name(double x);                                                                    \
    double name(double x) {                                                                                            \
        return dk_js_##name(x);                                                                                        \
    }                                                                                                                  \
    float name##f(float x) {                                                                                           \
        return (float)dk_js_##name((double)x);                                                                         \
    }

#define BINARY(name)                                                                                                   \
    JAVASCRIPT(name) double dk_js_##name(double x, double y);                                                          \
    double name(double x, double y) {                                                                                  \
        return dk_js_##name(x, y);                                                                                     \
    }                                                                                                                  \
    float name##f(float x, float y) {                                                                                  \
        return (float)dk_js_##name((double)x, (double)y);                                                              \
    }

UNARY(acos)
UNARY(acosh)
UNARY(asin)
UNARY(asinh)
UNARY(atan)
UNARY(atanh)
UNARY(cos)
UNARY(cosh)
UNARY(erf)
UNARY(exp)
UNARY(exp2)
UNARY(log)
UNARY(log10)
UNARY(log1p)
UNARY(log2)
UNARY(sin)
UNARY(sinh)
UNARY(tan)
UNARY(tanh)
BINARY(atan2)
BINARY(fmod)
BINARY(pow)

double round(double x) {
    double whole = __builtin_trunc(x);
    return __builtin_fabs(x - whole) >= 0.5 ? whole + __builtin_copysign(1.0, x) : whole;
}

float roundf(float x) {
    return (float)round((double)x);
}

long lrint(double x) {
    return (long)__builtin_rint(x);
}

long lrintf(float x) {
    return (long)__builtin_rintf(x);
}

void* memcpy(void* restrict target, const void* restrict source, size_t bytes) {
    __asm__ volatile("local.get %0\n\tlocal.get %1\n\tlocal.get %2\n\tmemory.copy 0, 0"
                     :
                     : "r"(target), "r"(source), "r"(bytes)
                     : "memory");
    return target;
}

void* memset(void* target, int value, size_t bytes) {
    __asm__ volatile("local.get %0\n\tlocal.get %1\n\tlocal.get %2\n\tmemory.fill 0"
                     :
                     : "r"(target), "r"(value), "r"(bytes)
                     : "memory");
    return target;
}

int memcmp(const void* left, const void* right, size_t bytes) {
    const unsigned char *one = left, *other = right;
    for (; bytes > 0; --bytes, ++one, ++other) {
        if (*one != *other) {
            return *one < *other ? -1 : 1;
        }
    }
    return 0;
}

size_t strlen(const char* text) {
    const char* end = text;
    while (*end != '\0') {
        ++end;
    }
    return (size_t)(end - text);
}

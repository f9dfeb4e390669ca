/* Calls functions on rows in assembly (`vectors_...`) and in plain C (`plain_...`) with the same arguments, and says
   where what they write differs. */
#include "functions.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define CHECK_PAIR(name, type)                                                                                         \
    plain_##name##_rvv(expected.type, a.type, b.type, count);                                                          \
    vectors_##name##_rvv(found.type, a.type, b.type, count);                                                           \
    check(#name, count, 0, 0);

#define CHECK_SAME(name, type, y)                                                                                      \
    plain_##name##_rvv(expected.type, a.type, y, count);                                                               \
    vectors_##name##_rvv(found.type, a.type, y, count);                                                                \
    check(#name, count, 0, 0);

#define CHECK_ONE(name, from, to)                                                                                      \
    plain_##name##_rvv(expected.to, a.from, count);                                                                    \
    vectors_##name##_rvv(found.to, a.from, count);                                                                     \
    check(#name, count, 0, 0);

#define CHECK_FILL(name, to, y)                                                                                        \
    plain_##name##_rvv(expected.to, y, count);                                                                         \
    vectors_##name##_rvv(found.to, y, count);                                                                          \
    check(#name, count, 0, 0);

enum { SUMS = 1024, BYTES = 1 << 16 };

typedef union {
    int32_t i32[SUMS];
    float f32[SUMS];
    int8_t i8[SUMS];
    uint8_t u8[SUMS];
} strip;

static strip expected, found, a, b;
static float factors[SUMS], biases[SUMS];
static _Alignas(4) uint8_t left[BYTES], to_expected[BYTES], to_found[BYTES];
static int8_t right[BYTES];
static uint32_t state = 1;
static int wrong;

static uint32_t any(void) {
    state = state * 1664525u + 1013904223u;
    return state >> 8;
}

static int32_t any_sum(void) {
    static const int32_t ends[] = {INT32_MIN, INT32_MAX, 0, -1, 1 << 24, (1 << 24) + 1};
    const uint32_t choice = any() % 16;
    return choice < 6 ? ends[choice] : (int32_t)(any() % 400000) - 200000;
}

static float any_float(float scale) {
    static const float ends[] = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 1e-40f, 3e38f, 0.5f};
    const uint32_t choice = any() % 24;
    return choice < 8 ? ends[choice] : ((float)(any() % 20001) - 10000.0f) * scale;
}

static void fill(void) {
    for (int i = 0; i < BYTES; ++i) {
        left[i] = (uint8_t)any();
        right[i] = (int8_t)(any() % 8 == 0 ? -128 : (int)any());
        to_expected[i] = to_found[i] = (uint8_t)any();
    }
    for (int i = 0; i < SUMS; ++i) {
        expected.i32[i] = found.i32[i] = any_sum();
        a.i32[i] = any_sum();
        b.i32[i] = any_sum();
        factors[i] = any_float(1e-7f);
        biases[i] = any_float(0.5f);
    }
}

static void check(const char* what, int a, int b, int c) {
    if (memcmp(&expected, &found, sizeof found) != 0 || memcmp(to_expected, to_found, sizeof to_found) != 0) {
        printf("%s differs with %d %d %d\n", what, a, b, c);
        wrong = 1;
    }
}

static void check_products(int terms, int columns, int more) {
    const int width = columns + (int)(any() % 5), between = columns + (int)(any() % 3);
    const int8_t* rows = (const int8_t*)left;
    fill();
    plain_multiply_row_int8_rvv(expected.i32, rows, right, width, terms, columns, more);
    vectors_multiply_row_int8_rvv(found.i32, rows, right, width, terms, columns, more);
    check("multiply_row_int8", terms, columns, more);
    plain_multiply_row_uint8_rvv(expected.i32, left, right, width, terms, columns, more);
    vectors_multiply_row_uint8_rvv(found.i32, left, right, width, terms, columns, more);
    check("multiply_row_uint8", terms, columns, more);
    plain_multiply_rows_int8_rvv(
        expected.i32, between, rows, rows + 99, rows + 777, right, width, terms, columns, more
    );
    vectors_multiply_rows_int8_rvv(found.i32, between, rows, rows + 99, rows + 777, right, width, terms, columns, more);
    check("multiply_rows_int8", terms, columns, more);
    plain_multiply_rows_uint8_rvv(
        expected.i32, between, left, left + 99, left + 777, right, width, terms, columns, more
    );
    vectors_multiply_rows_uint8_rvv(
        found.i32, between, left, left + 99, left + 777, right, width, terms, columns, more
    );
    check("multiply_rows_uint8", terms, columns, more);
    const int16_t* wide = (const int16_t*)left;
    plain_multiply_row_int16_rvv(expected.i32, wide, right, width, terms, columns, more);
    vectors_multiply_row_int16_rvv(found.i32, wide, right, width, terms, columns, more);
    check("multiply_row_int16", terms, columns, more);
    plain_multiply_rows_int16_rvv(
        expected.i32, between, wide, wide + 99, wide + 777, right, width, terms, columns, more
    );
    vectors_multiply_rows_int16_rvv(
        found.i32, between, wide, wide + 99, wide + 777, right, width, terms, columns, more
    );
    check("multiply_rows_int16", terms, columns, more);
}

static void check_taps(int channels, int outputs, int rows) {
    const int columns = 1 + (int)(any() % 4), column = channels + (int)(any() % 9), step = (int)(any() % 200);
    const int row = (int)(any() % 900), between = channels + (int)(any() % 5);
    fill();
    plain_multiply_taps_int8_rvv(
        expected.i32, (const int8_t*)left, step, outputs, row, column, rows, columns, right, between, channels
    );
    vectors_multiply_taps_int8_rvv(
        found.i32, (const int8_t*)left, step, outputs, row, column, rows, columns, right, between, channels
    );
    check("multiply_taps_int8", channels, outputs, rows);
    plain_multiply_taps_uint8_rvv(
        expected.i32, left, step, outputs, row, column, rows, columns, right, between, channels
    );
    vectors_multiply_taps_uint8_rvv(
        found.i32, left, step, outputs, row, column, rows, columns, right, between, channels
    );
    check("multiply_taps_uint8", channels, outputs, rows);
    plain_multiply_taps_int16_rvv(
        expected.i32, (const int16_t*)left, step, outputs, row, column, rows, columns, right, between, channels
    );
    vectors_multiply_taps_int16_rvv(
        found.i32, (const int16_t*)left, step, outputs, row, column, rows, columns, right, between, channels
    );
    check("multiply_taps_int16", channels, outputs, rows);
}

static void check_requantized(int count, int rows, int zero) {
    const float low = (float)(-128 - zero), high = (float)(127 - zero), factor = any_float(1e-7f);
    const int between = count + (int)(any() % 4);
    fill();
    plain_requantize_rows_rvv(to_expected, expected.i32, between, rows, factors, biases, count, low, high, zero);
    vectors_requantize_rows_rvv(to_found, found.i32, between, rows, factors, biases, count, low, high, zero);
    check("requantize_rows", count, rows, zero);
    plain_requantize_rows_evenly_rvv(to_expected, expected.i32, between, rows, factor, biases, count, low, high, zero);
    vectors_requantize_rows_evenly_rvv(to_found, found.i32, between, rows, factor, biases, count, low, high, zero);
    check("requantize_rows_evenly", count, rows, zero);
    const int shift = zero * 256;
    const float least = (float)(-32768 - shift), most = (float)(32767 - shift);
    plain_requantize_rows_int16_rvv(
        to_expected, expected.i32, between, rows, factors, biases, count, least, most, shift
    );
    vectors_requantize_rows_int16_rvv(to_found, found.i32, between, rows, factors, biases, count, least, most, shift);
    check("requantize_rows_int16", count, rows, zero);
    plain_requantize_rows_evenly_int16_rvv(
        to_expected, expected.i32, between, rows, factor, biases, count, least, most, shift
    );
    vectors_requantize_rows_evenly_int16_rvv(
        to_found, found.i32, between, rows, factor, biases, count, least, most, shift
    );
    check("requantize_rows_evenly_int16", count, rows, zero);
}

static void fill_floats(void) {
    fill();
    for (int i = 0; i < SUMS; ++i) {
        expected.f32[i] = found.f32[i] = any_float(1e-3f);
        a.f32[i] = any_float(any() % 2 == 0 ? 1e-3f : 1e7f);
        b.f32[i] = any_float(0.25f);
    }
}

static void check_strips(int count) {
    const int32_t number = any_sum();
    const float y = any_float(0.25f);
    fill();
    CHECK_PAIR(add_i32, i32)
    CHECK_PAIR(sub_i32, i32)
    CHECK_PAIR(mul_i32, i32)
    CHECK_SAME(add_i32_same, i32, number)
    CHECK_SAME(sub_i32_same, i32, number)
    CHECK_SAME(mul_i32_same, i32, number)
    CHECK_SAME(from_i32_same, i32, number)
    CHECK_ONE(float_i32, i32, f32)
    CHECK_ONE(narrow_i8, i32, i32)
    CHECK_ONE(narrow_u8, i32, i32)
    CHECK_ONE(load_i8, i8, i32)
    CHECK_ONE(load_u8, u8, i32)
    CHECK_ONE(store_i32, i32, i32)
    CHECK_ONE(store_i8, i32, i8)
    CHECK_ONE(store_u8, i32, u8)
    CHECK_FILL(fill_i32, i32, number)
    CHECK_FILL(fill_i8, i8, number)
    CHECK_FILL(fill_u8, u8, number)
    fill_floats();
    CHECK_PAIR(add_f32, f32)
    CHECK_PAIR(sub_f32, f32)
    CHECK_PAIR(mul_f32, f32)
    CHECK_SAME(add_f32_same, f32, y)
    CHECK_SAME(sub_f32_same, f32, y)
    CHECK_SAME(mul_f32_same, f32, y)
    CHECK_SAME(from_f32_same, f32, y)
    CHECK_SAME(min_f32_same, f32, 6.0f)
    CHECK_SAME(max_f32_same, f32, 0.0f)
    CHECK_SAME(at_least_f32_same, f32, -0.5f)
    CHECK_SAME(at_least_f32_same, f32, 0.0f)
    CHECK_ONE(round_f32, f32, i32)
    CHECK_ONE(store_f32, f32, f32)
    CHECK_FILL(fill_f32, f32, y)
}

static void check_floats(int terms, int width, int outputs) {
    const int rows = 1 + (int)(any() % 3), columns = (int)(any() % 4), step = (int)(any() % 20),
              row = (int)(any() % 90);
    const int column = (int)(any() % 60), across = (int)(any() % 90), between = (int)(any() % 60);
    fill_floats();
    plain_multiply_outputs_rvv(expected.f32, a.f32, step, outputs, b.f32, terms, width);
    vectors_multiply_outputs_rvv(found.f32, a.f32, step, outputs, b.f32, terms, width);
    check("multiply_outputs", terms, width, outputs);
    plain_multiply_taps_float_rvv(
        expected.f32, a.f32, step, outputs, row, column, rows, columns, b.f32, across, between, width
    );
    vectors_multiply_taps_float_rvv(
        found.f32, a.f32, step, outputs, row, column, rows, columns, b.f32, across, between, width
    );
    check("multiply_taps_float", columns, width, outputs);
}

static void check_copies(int count) {
    fill();
    plain_copy_bytes_rvv(to_expected + 3, left + 1, count);
    vectors_copy_bytes_rvv(to_found + 3, left + 1, count);
    check("copy_bytes", count, 0, 0);
    plain_fill_bytes_rvv(to_expected + 1, count, count);
    vectors_fill_bytes_rvv(to_found + 1, count, count);
    check("fill_bytes", count, 0, 0);
}

int main(void) {
    static const int sizes[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 130, 200};
    const int known = (int)(sizeof sizes / sizeof *sizes);
    for (int i = 0; i < known; ++i) {
        for (int k = 0; k < known; k += 2) {
            check_products(sizes[i], 1 + sizes[k], (int)(any() % 2));
        }
        for (int outputs = 1; outputs < 6; ++outputs) {
            check_taps(1 + sizes[i] % 180, outputs, 1 + (int)(any() % 3));
        }
        check_requantized(sizes[i], 1 + (int)(any() % 4), (int)(any() % 256) - 128);
        check_copies(sizes[i] * 7);
        check_strips(sizes[i] - 1);
        for (int outputs = 1; outputs < 8; ++outputs) {
            check_floats((int)(any() % 21) - 1, 1 + sizes[i] % 40, outputs);
        }
    }
    printf("checked\n");
    return wrong;
}

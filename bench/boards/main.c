/* Runs a side once and prints what is seen of it: the depth of its stack in bytes, and its output in hexadecimal.
 *
 * The plugin `count.c` counts the instructions between `count_begin` and `count_end`. The stack below the caller is
 * filled with a pattern before the run; the lowest word that changed is the end of the stack. */
#include <stdint.h>
#include <stdio.h>

#include "side.h"

enum { DEPTH = 1 << 20, BESIDE = 64, PATTERN = 0x5AA55AA5 };

__attribute__((noinline)) void count_begin(void) {
    __asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) void count_end(void) {
    __asm__ volatile("" ::: "memory");
}

/* Volatile, so that no compiler turns the loops into calls, whose frames would lie in the filled memory. */
static volatile uint32_t* lowest;

static __attribute__((noinline)) void fill(volatile uint32_t* top) {
    lowest = top - DEPTH / sizeof *top;
    volatile uint32_t* end = (volatile uint32_t*)__builtin_frame_address(0) - BESIDE / sizeof *top;
    for (volatile uint32_t* at = lowest; at < end; ++at) {
        *at = PATTERN;
    }
}

static __attribute__((noinline)) unsigned depth(const volatile uint32_t* top) {
    const volatile uint32_t* at = lowest;
    while (at < top && *at == PATTERN) {
        ++at;
    }
    return (unsigned)(top - at) * (unsigned)sizeof *at;
}

/* Returns what the side does; `*found` is the depth of its stack. */
static __attribute__((noinline)) int counted(unsigned* found) {
    volatile uint32_t* top = __builtin_frame_address(0);
    fill(top);
    count_begin();
    int failed = side_run();
    count_end();
    *found = depth(top);
    return failed;
}

int main(void) {
    int failed = side_open();
    if (failed != 0) {
        printf("failed at start: %d\n", failed);
        return 1;
    }
    unsigned found;
    failed = counted(&found);
    if (failed != 0) {
        printf("failed: %d\n", failed);
        return 1;
    }
    if (found >= DEPTH) {
        printf("its stack is deeper than %d bytes\n", DEPTH);
        return 1;
    }
    printf("stack %u\noutput ", found);
    const unsigned char* output = side_output();
    for (unsigned i = 0; i < given_output_bytes; ++i) {
        printf("%02x", output[i]);
    }
    printf("\n");
    return 0;
}

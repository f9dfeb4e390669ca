/* Runs a side once and prints what is seen of it: the depth of its stack in bytes, and its output in hexadecimal.
 *
 * The plugin `count.c` counts the instructions between `count_begin` and `count_end`. The stack below the caller is
 * filled with a pattern before the run; the lowest byte that changed is the end of the stack. */
#include <stdint.h>
#include <stdio.h>

#include "side.h"

enum { DEPTH = 48 * 1024, BESIDE = 256, PATTERN = 0xA5 };

__attribute__((noinline)) void count_begin(void) {
    __asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) void count_end(void) {
    __asm__ volatile("" ::: "memory");
}

/* Volatile, so that no compiler turns the loops into calls, whose frames would lie in the filled memory. */
static volatile unsigned char* floor_of_stack;

static __attribute__((noinline)) void fill(volatile unsigned char* top) {
    floor_of_stack = top - DEPTH;
    for (volatile unsigned char* at = floor_of_stack; at < top - BESIDE; ++at) {
        *at = PATTERN;
    }
}

static __attribute__((noinline)) unsigned depth(const volatile unsigned char* top) {
    const volatile unsigned char* at = floor_of_stack;
    while (at < top - BESIDE && *at == PATTERN) {
        ++at;
    }
    return (unsigned)(top - at);
}

static __attribute__((noinline)) int counted(void) {
    count_begin();
    int failed = side_run();
    count_end();
    return failed;
}

int main(void) {
    volatile unsigned char* top = __builtin_frame_address(0);
    int failed = side_open();
    if (failed != 0) {
        printf("failed at start: %d\n", failed);
        return 1;
    }
    fill(top);
    failed = counted();
    unsigned found = depth(top);
    if (failed != 0) {
        printf("failed: %d\n", failed);
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

#include "counted.h"

#include <stdlib.h>

static int blocks;
static int failing;

static int fails(void) {
    return __atomic_load_n(&failing, __ATOMIC_RELAXED) > 0 && __atomic_sub_fetch(&failing, 1, __ATOMIC_RELAXED) == 0;
}

static void* counted(void* memory) {
    if (memory != NULL) {
        __atomic_add_fetch(&blocks, 1, __ATOMIC_RELAXED);
    }
    return memory;
}

void* counted_malloc(size_t bytes) {
    return fails() ? NULL : counted(malloc(bytes));
}

void* counted_calloc(size_t count, size_t bytes) {
    return fails() ? NULL : counted(calloc(count, bytes));
}

void* counted_realloc(void* memory, size_t bytes) {
    if (memory == NULL) {
        return counted_malloc(bytes);
    }
    return fails() ? NULL : realloc(memory, bytes);
}

void counted_free(void* memory) {
    if (memory != NULL) {
        __atomic_sub_fetch(&blocks, 1, __ATOMIC_RELAXED);
    }
    free(memory);
}

int counted_blocks(void) {
    return __atomic_load_n(&blocks, __ATOMIC_RELAXED);
}

void counted_fail(int n) {
    __atomic_store_n(&failing, n, __ATOMIC_RELAXED);
}

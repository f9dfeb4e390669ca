/* The memory that a driver holds, for tests: its sources are compiled with malloc=counted_malloc and so on. */
#ifndef DRIVER_COUNTED_H
#define DRIVER_COUNTED_H

#include <stddef.h>

void* counted_malloc(size_t bytes);
void* counted_calloc(size_t count, size_t bytes);
void* counted_realloc(void* memory, size_t bytes);
void counted_free(void* memory);

/* How many blocks there are. */
int counted_blocks(void);

/* Let the n-th allocation from now on fail, once; 0: none. */
void counted_fail(int n);

#endif

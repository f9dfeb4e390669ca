/* The part of <stdlib.h> that the runtime needs. */
#ifndef DEPLOYKIT_STDLIB_H
#define DEPLOYKIT_STDLIB_H

#include <stddef.h>

void* malloc(size_t bytes);
void* calloc(size_t count, size_t bytes);
void* realloc(void* memory, size_t bytes);
void free(void* memory);
int posix_memalign(void** memory, size_t alignment, size_t bytes);
int mkstemp(char* path);

#endif

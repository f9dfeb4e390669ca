/* The part of <string.h> that the runtime needs, for WebAssembly without a C library; defined in libc.c. */
#ifndef DEPLOYKIT_STRING_H
#define DEPLOYKIT_STRING_H

#include <stddef.h>

void* memcpy(void* restrict target, const void* restrict source, size_t bytes);
void* memset(void* target, int value, size_t bytes);
int memcmp(const void* left, const void* right, size_t bytes);
size_t strlen(const char* text);

#endif

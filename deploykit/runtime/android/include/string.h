/* The part of <string.h> that the runtime needs. */
#ifndef DEPLOYKIT_STRING_H
#define DEPLOYKIT_STRING_H

#include <stddef.h>

void* memcpy(void* restrict target, const void* restrict source, size_t bytes);
void* memmove(void* target, const void* source, size_t bytes);
void* memset(void* target, int value, size_t bytes);
int memcmp(const void* a, const void* b, size_t bytes);
size_t strlen(const char* text);
int strcmp(const char* a, const char* b);
char* strrchr(const char* text, int letter);
char* strstr(const char* text, const char* part);

#endif

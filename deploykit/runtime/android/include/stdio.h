/* The part of <stdio.h> that the runtime needs. */
#ifndef DEPLOYKIT_STDIO_H
#define DEPLOYKIT_STDIO_H

#include <stdarg.h>
#include <stddef.h>

#define EOF (-1)
#define SEEK_SET 0
#define SEEK_END 2

typedef struct dk_file FILE;

FILE* fopen(const char* path, const char* mode);
FILE* fdopen(int file, const char* mode);
int fclose(FILE* file);
size_t fread(void* target, size_t size, size_t count, FILE* file);
size_t fwrite(const void* source, size_t size, size_t count, FILE* file);
int fgetc(FILE* file);
int fseek(FILE* file, long offset, int from);
long ftell(FILE* file);
int remove(const char* path);
int rename(const char* path, const char* other);
int snprintf(char* text, size_t bytes, const char* format, ...);
int vsnprintf(char* text, size_t bytes, const char* format, va_list values);
int sscanf(const char* text, const char* format, ...);

#endif

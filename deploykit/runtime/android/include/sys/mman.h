/* The part of <sys/mman.h> and <fcntl.h> that the runtime needs. */
#ifndef DEPLOYKIT_MMAN_H
#define DEPLOYKIT_MMAN_H

#include <stddef.h>
#include <stdint.h>

#define PROT_READ 1
#define MAP_PRIVATE 2
#define MAP_FAILED ((void*)-1)
#define O_RDONLY 0
#define O_CLOEXEC 02000000

void* mmap64(void* address, size_t bytes, int protection, int flags, int file, int64_t offset);
int munmap(void* address, size_t bytes);
int open(const char* path, int flags, ...);
int close(int file);

#endif

/* The part of <dlfcn.h> that the runtime needs. Where pointers have 32 bits, Android's numbers are others. */
#ifndef DEPLOYKIT_DLFCN_H
#define DEPLOYKIT_DLFCN_H

#include <stdint.h>

#define RTLD_LOCAL 0
#if UINTPTR_MAX > 0xffffffffu
#define RTLD_NOW 2
#else
#define RTLD_NOW 0
#endif

void* dlopen(const char* path, int flags);
void* dlsym(void* library, const char* name);
int dlclose(void* library);
char* dlerror(void);

#endif

/* Libraries that a driver brings along stay in the process. A driver that is loaded again and again takes new
   thread-local memory each time, of which a process has little. Android's system, for which there is no link.h here,
   keeps its driver itself. */
#define _GNU_SOURCE /* RTLD_NOLOAD, dl_iterate_phdr */
#include "vulkan.h"

#if defined(__linux__) && defined(__has_include)
#if __has_include(<link.h>) && !defined(__ANDROID__)
#define DK_LISTS_LIBRARIES
#endif
#endif

#ifdef DK_LISTS_LIBRARIES
#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

/* Names, each with a zero at its end, and an empty one after the last. */
typedef struct {
    char* text;
    size_t bytes;
} names;

static int add(struct dl_phdr_info* library, size_t size, void* data) {
    names* list = data;
    const size_t bytes = strlen(library->dlpi_name) + 1;
    char* text = bytes == 1 ? NULL : realloc(list->text, list->bytes + bytes + 1);
    (void)size;
    if (text != NULL) {
        list->text = text;
        memcpy(text + list->bytes, library->dlpi_name, bytes);
        list->bytes += bytes;
        text[list->bytes] = '\0';
    }
    return 0;
}

static int32_t holds(const char* list, const char* name) {
    for (; list != NULL && *list != '\0'; list += strlen(list) + 1) {
        if (strcmp(list, name) == 0) {
            return 1;
        }
    }
    return 0;
}

char* dk_vk_loaded(void) {
    names list = {NULL, 0};
    dl_iterate_phdr(add, &list);
    return list.text;
}

void dk_vk_keep_loaded(const char* before) {
    char* now = before != NULL ? dk_vk_loaded() : NULL;
    for (const char* name = now; name != NULL && *name != '\0'; name += strlen(name) + 1) {
        if (!holds(before, name)) {
            (void)dlopen(name, RTLD_NOW | RTLD_NOLOAD);
        }
    }
    free(now);
}
#else
char* dk_vk_loaded(void) {
    return NULL;
}

void dk_vk_keep_loaded(const char* before) {
    (void)before;
}
#endif

/* The file that keeps compiled kernels: a head, and the data of a VkPipelineCache.

   Drivers trust the data, so a file is only used if it is whole and was written on the same device, with the same
   driver, for the same code. It is replaced by renaming, so that others who read it see the old or the new one. */
#define _POSIX_C_SOURCE 200809L

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "vulkan.h"

#define MAGIC 0x314b56504b44u
#define MOST_BYTES (256 << 20)
/* The head that Vulkan defines for the data: its bytes, its version, the vendor, the device, and an identity. */
#define DATA_HEAD 32
#define DATA_VERSION 1

typedef struct file_head {
    uint64_t magic, code_hash, bytes, hash;
} file_head;

static int32_t fits(const dk_vulkan* self, const unsigned char* data, size_t bytes) {
    const VkPhysicalDeviceProperties* properties = &self->facts.properties;
    const size_t uuid = sizeof properties->pipelineCacheUUID;
    uint32_t fields[4];
    if (bytes < DATA_HEAD) {
        return 0;
    }
    memcpy(fields, data, sizeof fields);
    return fields[0] >= DATA_HEAD && fields[0] <= bytes && fields[1] == DATA_VERSION &&
           fields[2] == properties->vendorID && fields[3] == properties->deviceID &&
           memcmp(data + sizeof fields, properties->pipelineCacheUUID, uuid) == 0;
}

/* The data of a file that fits; NULL if there are none. */
static unsigned char* read_data(const dk_vulkan* self, dk_vk_cache* cache, size_t* bytes) {
    FILE* file = fopen(cache->path, "rb");
    unsigned char* data = NULL;
    file_head head;
    if (file == NULL) {
        return NULL;
    }
    if (fread(&head, sizeof head, 1, file) == 1 && head.magic == MAGIC && head.code_hash == cache->code_hash &&
        head.bytes >= DATA_HEAD && head.bytes <= MOST_BYTES) {
        *bytes = (size_t)head.bytes;
        data = (unsigned char*)malloc(*bytes);
    }
    if (data != NULL && (fread(data, *bytes, 1, file) != 1 || fgetc(file) != EOF ||
                         dk_hash(MAGIC, data, *bytes) != head.hash || !fits(self, data, *bytes))) {
        free(data);
        data = NULL;
    }
    fclose(file);
    cache->hash = data != NULL ? head.hash : 0;
    return data;
}

VkResult dk_vk_open_cache(dk_vulkan* self, dk_vk_cache* cache, const char* path, uint64_t code_hash) {
    VkPipelineCacheCreateInfo info = {VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO, NULL, 0, 0, NULL};
    unsigned char* data = NULL;
    VkResult result;
    cache->path = path;
    cache->code_hash = code_hash;
    cache->hash = 0;
    if (path != NULL) {
        data = read_data(self, cache, &info.initialDataSize);
        info.initialDataSize = data != NULL ? info.initialDataSize : 0;
        info.pInitialData = data;
    }
    result = self->call.CreatePipelineCache(self->device, &info, NULL, &cache->cache);
    free(data);
    return result;
}

/* Write a file beside the one that it replaces. A failure leaves what is there. */
static void write_data(const dk_vk_cache* cache, const file_head* head, const void* data) {
    const size_t length = strlen(cache->path);
    char* name = (char*)malloc(length + sizeof ".XXXXXX");
    FILE* file = NULL;
    int handle = -1, whole = 0;
    if (name == NULL) {
        return;
    }
    memcpy(name, cache->path, length);
    memcpy(name + length, ".XXXXXX", sizeof ".XXXXXX");
    handle = mkstemp(name);
    if (handle >= 0) {
        file = fdopen(handle, "wb");
    }
    if (file != NULL) {
        whole = fwrite(head, sizeof *head, 1, file) == 1 && fwrite(data, (size_t)head->bytes, 1, file) == 1;
        whole = fclose(file) == 0 && whole;
    } else if (handle >= 0) {
        close(handle);
    }
    if (handle >= 0 && (!whole || rename(name, cache->path) != 0)) {
        remove(name);
    }
    free(name);
}

void dk_vk_close_cache(dk_vulkan* self, dk_vk_cache* cache) {
    size_t bytes = 0;
    unsigned char* data = NULL;
    if (cache->path != NULL &&
        self->call.GetPipelineCacheData(self->device, cache->cache, &bytes, NULL) == VK_SUCCESS && bytes > 0) {
        data = (unsigned char*)malloc(bytes);
    }
    if (data != NULL && self->call.GetPipelineCacheData(self->device, cache->cache, &bytes, data) == VK_SUCCESS) {
        const file_head head = {MAGIC, cache->code_hash, bytes, dk_hash(MAGIC, data, bytes)};
        if (head.hash != cache->hash) {
            write_data(cache, &head, data);
        }
    }
    free(data);
    self->call.DestroyPipelineCache(self->device, cache->cache, NULL);
}

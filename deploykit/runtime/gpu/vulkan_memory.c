/* Buffers of the device, and the way to and from the host's memory.

   Each of a model's buffers is an allocation of its own. Data pass through two staging buffers that the host sees: an
   upload is copied there at once, and a download is copied out when the device is done. The staging buffers grow up to
   MOST_STAGING; what is larger passes in pieces. Nothing is in flight when one of these functions runs, because
   whoever submits work also waits for it. */
#include <stdlib.h>
#include <string.h>

#include "vulkan.h"

#define LEAST_STAGING (64 << 10)
#define MOST_STAGING (16 << 20)
/* Data in a staging buffer begin at multiples of this. */
#define STAGING_UNIT 64
/* Memory of other kinds has to be asked for, or is slow. */
#define PLAIN_MEMORY 15

/* The properties of memory for a use, the best first; 0 is memory of any kind. */
static const VkFlags preferences[][3] = {
    {VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, 0, 0},
    {VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT,
     VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT,
     VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT},
    {VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT | VK_MEMORY_PROPERTY_HOST_CACHED_BIT,
     VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_CACHED_BIT,
     VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT},
};

static const VkFlags usages[] = {
    VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT,
    VK_BUFFER_USAGE_TRANSFER_SRC_BIT,
    VK_BUFFER_USAGE_TRANSFER_DST_BIT,
};

/* The type of memory for a use; UINT32_MAX if there is none. Bit i of `allowed`: type i can be used. */
static uint32_t memory_type(const dk_vulkan* self, uint32_t allowed, int32_t use) {
    for (int32_t i = 0; i < 3; ++i) {
        const VkFlags wanted = preferences[use][i];
        for (uint32_t type = 0; type < self->memory.memoryTypeCount; ++type) {
            const VkFlags properties = self->memory.memoryTypes[type].propertyFlags;
            if ((allowed >> type & 1) && (properties & wanted) == wanted && !(properties & ~(VkFlags)PLAIN_MEMORY)) {
                return type;
            }
        }
    }
    return UINT32_MAX;
}

static VkResult allocate(dk_vulkan* self, dk_vk_buffer* buffer, int32_t use) {
    VkMemoryAllocateInfo info = {VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, NULL, 0, 0};
    VkMemoryRequirements needs;
    VkResult result;
    void* mapped = NULL;
    self->call.GetBufferMemoryRequirements(self->device, buffer->buffer, &needs);
    info.allocationSize = needs.size;
    info.memoryTypeIndex = memory_type(self, needs.memoryTypeBits, use);
    if (info.memoryTypeIndex == UINT32_MAX) {
        return VK_ERROR_OUT_OF_DEVICE_MEMORY;
    }
    result = self->call.AllocateMemory(self->device, &info, NULL, &buffer->memory);
    if (result != VK_SUCCESS) {
        buffer->memory = 0;
        return result;
    }
    result = self->call.BindBufferMemory(self->device, buffer->buffer, buffer->memory, 0);
    if (result == VK_SUCCESS && use != DK_VK_ON_DEVICE) {
        result = self->call.MapMemory(self->device, buffer->memory, 0, VK_WHOLE_SIZE, 0, &mapped);
        buffer->mapped = (unsigned char*)mapped;
    }
    buffer->coherent =
        (self->memory.memoryTypes[info.memoryTypeIndex].propertyFlags & VK_MEMORY_PROPERTY_HOST_COHERENT_BIT) != 0;
    return result;
}

VkResult dk_vk_make_buffer(dk_vulkan* self, dk_vk_buffer* buffer, int64_t bytes, int32_t use) {
    const VkBufferCreateInfo info = {
        VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, NULL, 0, (VkDeviceSize)bytes, usages[use], 0, 0, NULL,
    };
    VkResult result;
    memset(buffer, 0, sizeof *buffer);
    result = self->call.CreateBuffer(self->device, &info, NULL, &buffer->buffer);
    if (result != VK_SUCCESS) {
        buffer->buffer = 0;
        return result;
    }
    result = allocate(self, buffer, use);
    if (result != VK_SUCCESS) {
        dk_vk_free_buffer(self, buffer);
        return result;
    }
    buffer->bytes = bytes;
    return VK_SUCCESS;
}

/* Freeing memory unmaps it. */
void dk_vk_free_buffer(dk_vulkan* self, dk_vk_buffer* buffer) {
    if (buffer->buffer != 0) {
        self->call.DestroyBuffer(self->device, buffer->buffer, NULL);
    }
    if (buffer->memory != 0) {
        self->call.FreeMemory(self->device, buffer->memory, NULL);
    }
    memset(buffer, 0, sizeof *buffer);
}

static const char* name_of(int32_t number) {
    switch (number) {
    case DK_BUFFER_ARENA:
        return "intermediate results";
    case DK_BUFFER_WEIGHTS:
        return "weights";
    case DK_BUFFER_STATES:
        return "states";
    default:
        return "a model's input or output";
    }
}

static int32_t lacks_memory(VkResult result) {
    return result == VK_ERROR_OUT_OF_DEVICE_MEMORY || result == VK_ERROR_OUT_OF_HOST_MEMORY;
}

/* The size of a buffer for `bytes`. Limits are multiples of DK_VK_BLOCK, too. */
static int64_t size_of(int64_t bytes) {
    return bytes > DK_VK_BLOCK ? dk_rounded(bytes, DK_VK_BLOCK) : DK_VK_BLOCK;
}

dk_status dk_vk_replace(dk_vulkan* self, dk_vk_buffer* buffer, int64_t bytes, int32_t number) {
    const int64_t most = self->facts.adapter.buffer_bytes;
    VkResult result;
    if (buffer->buffer != 0) {
        dk_vk_forget(self);
        dk_vk_free_buffer(self, buffer);
    }
    if (bytes > most) {
        return dk_vk_fail(
            self, "%s would take %lld bytes of the GPU, whose buffers have at most %lld", name_of(number),
            (long long)bytes, (long long)most
        );
    }
    do {
        result = dk_vk_make_buffer(self, buffer, size_of(bytes), DK_VK_ON_DEVICE);
    } while (lacks_memory(result) && dk_vk_release_kept(self, 0));
    if (lacks_memory(result)) {
        return dk_vk_fail(
            self, "the GPU has not enough memory: %s would take %lld bytes", name_of(number), (long long)bytes
        );
    }
    return dk_vk_check(self, result, name_of(number));
}

/* Make sure that the table has a number. */
static dk_status extend(dk_vulkan* self, int32_t number) {
    if (number < 0) {
        return dk_vk_fail(self, "there is no buffer %d", (int)number);
    }
    while (self->buffer_count <= number) {
        dk_vk_buffer* grown =
            (dk_vk_buffer*)dk_vk_grown(self->buffers, self->buffer_count, &self->buffer_room, sizeof *self->buffers);
        if (grown == NULL) {
            return dk_vk_check(self, VK_ERROR_OUT_OF_HOST_MEMORY, name_of(number));
        }
        self->buffers = grown;
        memset(&self->buffers[self->buffer_count++], 0, sizeof *self->buffers);
    }
    return DK_OK;
}

/* Check that a buffer of the caller has `bytes`. */
static dk_status check_kept(dk_vulkan* self, int32_t number, int64_t bytes) {
    const dk_vk_buffer* buffer = dk_vk_kept(self, number);
    if (buffer == NULL) {
        return dk_vk_fail(self, "this GPU keeps no buffer %d", (int)number);
    }
    return buffer->bytes >= bytes ? DK_OK
                                  : dk_vk_fail(
                                        self, "a kept buffer has %lld bytes, and a run needs %lld",
                                        (long long)buffer->bytes, (long long)bytes
                                    );
}

dk_status dk_vk_provide(dk_driver* driver, int32_t number, int64_t bytes) {
    dk_vulkan* self = (dk_vulkan*)driver;
    dk_status status = dk_vk_usable(self);
    if (status == DK_OK && number >= DK_BUFFER_KEPT) {
        return check_kept(self, number, bytes);
    }
    status = status != DK_OK ? status : extend(self, number);
    if (status != DK_OK || (self->buffers[number].bytes >= bytes && self->buffers[number].buffer != 0)) {
        return status;
    }
    status = dk_vk_flush(self);
    return status != DK_OK ? status : dk_vk_replace(self, &self->buffers[number], bytes, number);
}

dk_status dk_vk_clear(dk_gpu* gpu, int32_t number, int64_t bytes) {
    dk_vulkan* self = (dk_vulkan*)gpu;
    dk_region all = {number, 0, 0};
    dk_status status = dk_vk_usable(self);
    dk_vk_drop(self);
    status = status != DK_OK ? status : extend(self, number);
    if (status == DK_OK && (self->buffers[number].bytes < bytes || self->buffers[number].buffer == 0 ||
                            self->buffers[number].bytes > size_of(bytes))) {
        status = dk_vk_replace(self, &self->buffers[number], bytes, number);
    }
    all.bytes = status == DK_OK ? self->buffers[number].bytes : 0;
    status = status != DK_OK ? status : dk_vk_collect(self, DK_WORK_ZERO, &all, 1, NULL, 0);
    return status != DK_OK ? status : dk_vk_flush(self);
}

/* The end of the tensor that start `index` of the weights is in. */
static int64_t end_of(const dk_gpu_program* program, int32_t index) {
    for (int32_t i = index + 1; i < program->start_count; ++i) {
        if (program->starts[i] >= 0) {
            return program->starts[i];
        }
    }
    return program->weights_bytes;
}

/* The weights are divided where a buffer would be too large otherwise, as late as possible. A tensor that kernels can
   bind as a whole is not divided. */
dk_status dk_vk_divide(dk_vulkan* self, const dk_gpu_program* program) {
    const int64_t most = self->facts.adapter.buffer_bytes;
    const int32_t count = program->start_count;
    int64_t tensor = 0, fits = 0, begin = 0;
    int32_t parts = 0;
    self->starts = (int64_t*)calloc((size_t)count + 2, sizeof *self->starts);
    self->parts = (dk_vk_buffer*)calloc((size_t)count + 1, sizeof *self->parts);
    if (self->starts == NULL || self->parts == NULL) {
        return dk_vk_check(self, VK_ERROR_OUT_OF_HOST_MEMORY, "the weights");
    }
    for (int32_t i = 0; i <= count && program->weights_bytes > 0; ++i) {
        const int64_t start = i < count ? program->starts[i] : program->weights_bytes;
        const int64_t at = start < 0 ? -start : start;
        tensor = start < 0 ? tensor : start;
        if (start < 0 && end_of(program, i) - tensor <= self->gpu.driver.binding_bytes) {
            continue;
        }
        if (at - begin > most && fits > begin) {
            begin = self->starts[++parts] = fits;
        }
        if (at - begin > most) {
            return dk_vk_fail(
                self, "the weights have a tensor of %lld bytes; buffers of the GPU have at most %lld",
                (long long)(at - begin), (long long)most
            );
        }
        fits = at;
    }
    self->part_count = program->weights_bytes > 0 ? parts + 1 : 0;
    self->starts[self->part_count] = program->weights_bytes;
    return DK_OK;
}

dk_status dk_vk_load(dk_gpu* gpu, const void* weights) {
    dk_vulkan* self = (dk_vulkan*)gpu;
    dk_status status = dk_vk_usable(self);
    dk_vk_drop(self);
    if (status != DK_OK) {
        return status;
    }
    for (int32_t i = 0; i < self->part_count && status == DK_OK; ++i) {
        const int64_t start = self->starts[i], bytes = self->starts[i + 1] - start;
        const dk_slice part = {DK_BUFFER_WEIGHTS, "weights", start, bytes};
        if (self->parts[i].buffer == 0) {
            status = dk_vk_replace(self, &self->parts[i], bytes, DK_BUFFER_WEIGHTS);
        }
        if (status == DK_OK) {
            status = dk_vk_upload(&gpu->driver, &part, (const unsigned char*)weights + start);
        }
    }
    status = status != DK_OK ? status : dk_vk_flush(self);
    /* Runs seldom need as large a staging buffer. */
    dk_vk_drop(self);
    dk_vk_forget(self);
    dk_vk_free_buffer(self, &self->uploads);
    return status;
}

const dk_vk_buffer* dk_vk_buffer_of(const dk_vulkan* self, int64_t number) {
    switch (number) {
    case DK_VK_UPLOADS:
        return &self->uploads;
    case DK_VK_DOWNLOADS:
        return &self->downloads;
    default:
        return number < 0                 ? &self->parts[DK_VK_WEIGHTS - number]
               : number >= DK_BUFFER_KEPT ? &self->kept[number - DK_BUFFER_KEPT]
                                          : &self->buffers[number];
    }
}

dk_status dk_vk_place(dk_vulkan* self, const dk_slice* slice, int64_t offset, int64_t bytes, dk_region* place) {
    static const dk_region nothing = {0, 0, 0};
    int64_t number = slice->buffer, at = slice->offset + offset, most = 0;
    *place = nothing;
    if (bytes == 0) {
        return DK_OK;
    }
    if (slice->buffer == DK_BUFFER_WEIGHTS) {
        int32_t part = self->part_count - 1;
        while (part > 0 && self->starts[part] > at) {
            --part;
        }
        number = DK_VK_WEIGHTS - part;
        at -= part >= 0 ? self->starts[part] : 0;
        most = part >= 0 ? self->parts[part].bytes : 0;
    } else if (number >= DK_BUFFER_KEPT) {
        const dk_vk_buffer* kept = dk_vk_kept(self, number);
        most = kept != NULL ? kept->bytes : 0;
    } else if (number >= 0 && number < self->buffer_count) {
        most = self->buffers[number].bytes;
    }
    if (at < 0 || bytes < 0 || at > most - bytes) {
        return dk_vk_fail(
            self, "%s has %lld bytes from %lld on in a buffer of %lld: provide a larger one",
            slice->name != NULL ? slice->name : "a tensor", (long long)bytes, (long long)at, (long long)most
        );
    }
    place->buffer = number;
    place->offset = at;
    place->bytes = bytes;
    return DK_OK;
}

/* Make a staging buffer larger, so that it has `bytes`, or as many as it may. */
static dk_status grow(dk_vulkan* self, dk_vk_buffer* staging, int64_t used, int64_t bytes, int32_t use) {
    const int64_t limit = self->facts.adapter.buffer_bytes;
    const int64_t most = limit < MOST_STAGING ? limit : MOST_STAGING;
    int64_t size = LEAST_STAGING;
    dk_vk_buffer larger;
    VkResult result;
    while (size < bytes) {
        size *= 2;
    }
    size = size < most ? size : most;
    if (size <= staging->bytes) {
        return DK_OK;
    }
    result = dk_vk_make_buffer(self, &larger, size, use);
    if (result != VK_SUCCESS) {
        /* A smaller one does as well, in pieces. */
        return staging->bytes > 0 ? DK_OK : dk_vk_check(self, result, "a buffer for inputs and outputs");
    }
    if (used > 0 && use == DK_VK_TO_DEVICE) {
        memcpy(larger.mapped, staging->mapped, (size_t)used);
    }
    dk_vk_forget(self);
    dk_vk_free_buffer(self, staging);
    *staging = larger;
    return DK_OK;
}

/* Find room in a staging buffer for at most `bytes`, and use it. */
static dk_status stage(dk_vulkan* self, int32_t use, int64_t bytes, dk_region* place) {
    const int32_t up = use == DK_VK_TO_DEVICE;
    dk_vk_buffer* staging = up ? &self->uploads : &self->downloads;
    int64_t* used = up ? &self->uploaded : &self->downloaded;
    dk_status status = DK_OK;
    if (bytes > staging->bytes - *used) {
        status = grow(self, staging, *used, *used + bytes, use);
    }
    if (status == DK_OK && *used >= staging->bytes) {
        status = dk_vk_flush(self);
    }
    place->buffer = up ? DK_VK_UPLOADS : DK_VK_DOWNLOADS;
    place->offset = *used;
    place->bytes = bytes < staging->bytes - *used ? bytes : staging->bytes - *used;
    *used += dk_rounded(place->bytes, STAGING_UNIT);
    return status;
}

dk_status dk_vk_upload(dk_driver* driver, const dk_slice* target, const void* source) {
    dk_vulkan* self = (dk_vulkan*)driver;
    dk_status status = dk_vk_usable(self);
    dk_region places[2];
    for (int64_t done = 0; done < target->bytes && status == DK_OK; done += places[0].bytes) {
        status = stage(self, DK_VK_TO_DEVICE, target->bytes - done, &places[0]);
        status = status != DK_OK ? status : dk_vk_place(self, target, done, places[0].bytes, &places[1]);
        if (status == DK_OK) {
            memcpy(
                self->uploads.mapped + places[0].offset, (const unsigned char*)source + done, (size_t)places[0].bytes
            );
            status = dk_vk_collect(self, DK_WORK_COPY, places, 2, NULL, 0);
        }
    }
    return status;
}

dk_status dk_vk_download_to(dk_driver* driver, void* target, const dk_slice* source) {
    dk_vulkan* self = (dk_vulkan*)driver;
    dk_status status = dk_vk_usable(self);
    dk_region places[2];
    for (int64_t done = 0; done < source->bytes && status == DK_OK; done += places[1].bytes) {
        dk_vk_download* grown;
        status = stage(self, DK_VK_FROM_DEVICE, source->bytes - done, &places[1]);
        status = status != DK_OK ? status : dk_vk_place(self, source, done, places[1].bytes, &places[0]);
        status = status != DK_OK ? status : dk_vk_collect(self, DK_WORK_COPY, places, 2, NULL, 0);
        if (status != DK_OK) {
            break;
        }
        grown = (dk_vk_download*)dk_vk_grown(
            self->pending, self->pending_count, &self->pending_room, sizeof *self->pending
        );
        if (grown == NULL) {
            return dk_vk_check(self, VK_ERROR_OUT_OF_HOST_MEMORY, "the list of outputs");
        }
        self->pending = grown;
        grown = &self->pending[self->pending_count++];
        grown->target = (unsigned char*)target + done;
        grown->offset = places[1].offset;
        grown->bytes = places[1].bytes;
    }
    return status;
}

dk_status dk_vk_finish_downloads(dk_vulkan* self) {
    if (self->pending_count > 0 && !self->downloads.coherent) {
        const VkMappedMemoryRange all = {
            VK_STRUCTURE_TYPE_MAPPED_MEMORY_RANGE, NULL, self->downloads.memory, 0, VK_WHOLE_SIZE,
        };
        const VkResult result = self->call.InvalidateMappedMemoryRanges(self->device, 1, &all);
        if (result != VK_SUCCESS) {
            return dk_vk_check(self, result, "results");
        }
    }
    for (int32_t i = 0; i < self->pending_count; ++i) {
        const dk_vk_download* download = &self->pending[i];
        memcpy(download->target, self->downloads.mapped + download->offset, (size_t)download->bytes);
    }
    return DK_OK;
}

void dk_vk_free_memory(dk_vulkan* self) {
    for (int32_t i = 0; i < self->buffer_count; ++i) {
        dk_vk_free_buffer(self, &self->buffers[i]);
    }
    for (int32_t i = 0; i < self->part_count; ++i) {
        dk_vk_free_buffer(self, &self->parts[i]);
    }
    for (int32_t i = 0; i < self->keeper.count; ++i) {
        if (self->keeper.kept[i].bytes != 0) {
            dk_vk_free_buffer(self, &self->kept[i]);
        }
    }
    free(self->keeper.kept);
    free(self->kept);
    dk_vk_free_buffer(self, &self->nothing);
    dk_vk_free_buffer(self, &self->uploads);
    dk_vk_free_buffer(self, &self->downloads);
    free(self->buffers);
    free(self->parts);
    free(self->starts);
    free(self->pending);
}

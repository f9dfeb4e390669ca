/* The driver for Vulkan: opens a device, and takes the calls of a model's steps.

   Calls are collected until the model waits for the device; then they are recorded and submitted together
   (vulkan_recordings.c, vulkan_commands.c). The other parts are the system's library (vulkan_system.c) and its adapters
   (vulkan_adapters.c), memory (vulkan_memory.c), and kernels (vulkan_kernels.c, vulkan_cache.c). */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vulkan.h"

/* Kernels may use tensors up to the next multiple of this. */
#define PADDING 16

dk_status dk_vk_fail(dk_vulkan* self, const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(self->error, sizeof self->error, format, arguments);
    va_end(arguments);
    self->gpu.driver.error = self->error;
    return DK_ERROR_DEVICE;
}

dk_status dk_vk_usable(dk_vulkan* self) {
    return self->lost ? dk_vk_fail(self, "the GPU device is lost: open the model again") : DK_OK;
}

dk_status dk_vk_check(dk_vulkan* self, VkResult result, const char* what) {
    switch (result) {
    case VK_SUCCESS:
        return DK_OK;
    case VK_ERROR_DEVICE_LOST:
        self->lost = 1;
        return dk_vk_usable(self);
    case VK_ERROR_OUT_OF_HOST_MEMORY:
        return dk_vk_fail(self, "there is not enough memory for %s", what);
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
    case VK_ERROR_OUT_OF_POOL_MEMORY:
    case VK_ERROR_MEMORY_MAP_FAILED:
    case VK_ERROR_TOO_MANY_OBJECTS:
        return dk_vk_fail(self, "the GPU has not enough memory for %s", what);
    default:
        return dk_vk_fail(self, "the GPU's driver refused %s: Vulkan's result %d", what, (int)result);
    }
}

void* dk_vk_grown(void* array, int32_t count, int32_t* room, size_t element) {
    const int32_t wanted = *room == 0 ? 16 : 2 * *room;
    void* grown;
    if (count < *room) {
        return array;
    }
    grown = realloc(array, (size_t)wanted * element);
    if (grown != NULL) {
        *room = wanted;
    }
    return grown;
}

static dk_status dispatch(
    dk_driver* driver, int32_t number, const dk_slice* slices, int32_t slice_count, const int32_t* scalars,
    int32_t scalar_count, int32_t invocations
) {
    dk_vulkan* self = (dk_vulkan*)driver;
    const uint64_t alignment = self->facts.properties.limits.minStorageBufferOffsetAlignment;
    dk_region places[DK_VK_MOST_BINDINGS];
    int32_t words[DK_VK_MOST_WORDS];
    dk_status status = dk_vk_usable(self);
    if (invocations <= 0 || status != DK_OK) {
        return status;
    }
    if (number < 0 || number >= self->kernel_count || self->kernels[number].bindings != slice_count ||
        self->kernels[number].words != scalar_count + 1) {
        return dk_vk_fail(self, "a step and the kernel %d that it calls do not fit each other", (int)number);
    }
    for (int32_t i = 0; i < slice_count && status == DK_OK; ++i) {
        if (slices[i].bytes > driver->binding_bytes) {
            return dk_vk_fail(
                self, "a tensor of %lld bytes is larger than the %lld that this GPU can bind",
                (long long)slices[i].bytes, (long long)driver->binding_bytes
            );
        }
        status = dk_vk_place(self, &slices[i], 0, dk_rounded(slices[i].bytes, PADDING), &places[i]);
        if (status == DK_OK && ((uint64_t)places[i].offset & (alignment - 1)) != 0) {
            return dk_vk_fail(self, "this GPU needs tensors at multiples of %d bytes", (int)alignment);
        }
    }
    if (scalar_count > 0) {
        memcpy(words, scalars, (size_t)scalar_count * sizeof *words);
    }
    words[scalar_count] = invocations;
    return status != DK_OK ? status : dk_vk_collect(self, number, places, slice_count, words, scalar_count + 1);
}

static dk_status copy(dk_driver* driver, const dk_slice* target, int64_t offset, const dk_slice* source) {
    dk_vulkan* self = (dk_vulkan*)driver;
    dk_region places[2];
    dk_status status = dk_vk_usable(self);
    if (source->bytes == 0 || status != DK_OK) {
        return status;
    }
    status = dk_vk_place(self, source, 0, source->bytes, &places[0]);
    status = status != DK_OK ? status : dk_vk_place(self, target, offset, source->bytes, &places[1]);
    return status != DK_OK ? status : dk_vk_collect(self, DK_WORK_COPY, places, 2, NULL, 0);
}

static dk_status wait_for_device(dk_driver* driver) {
    return dk_vk_flush((dk_vulkan*)driver);
}

static dk_status restart(dk_driver* driver) {
    dk_vulkan* self = (dk_vulkan*)driver;
    dk_vk_drop(self);
    return dk_vk_usable(self);
}

static void profile(dk_gpu* gpu, int32_t on) {
    dk_vulkan* self = (dk_vulkan*)gpu;
    self->profiling = on != 0;
    self->time_count = 0;
    if (!on && self->clock != 0) {
        self->call.DestroyQueryPool(self->device, self->clock, NULL);
        self->clock = 0;
        self->clock_room = 0;
    }
}

static int32_t times(dk_gpu* gpu, double* nanoseconds, int32_t* steps, int32_t most) {
    dk_vulkan* self = (dk_vulkan*)gpu;
    const int32_t count = self->time_count;
    for (int32_t i = 0; i < count && i < most; ++i) {
        nanoseconds[i] = self->times[i].nanoseconds;
        steps[i] = self->times[i].step;
    }
    self->time_count = count <= most ? 0 : count;
    return count;
}

static void close_device(dk_gpu* gpu) {
    dk_vulkan* self = (dk_vulkan*)gpu;
    if (self->device != NULL && self->call.DestroyDevice != NULL) {
        self->call.DeviceWaitIdle(self->device);
        dk_vk_free_recordings(self);
        dk_vk_free_kernels(self);
        dk_vk_free_memory(self);
        if (self->fence != 0) {
            self->call.DestroyFence(self->device, self->fence, NULL);
        }
        self->call.DestroyDevice(self->device, NULL);
    }
    dk_vk_close_system(&self->system);
    free(self);
}

static int32_t rank(const dk_gpu_adapter* adapter) {
    static const int32_t ranks[] = {2, 3, 4, 1}; /* by kind */
    return adapter->unusable != NULL ? 0 : ranks[adapter->kind];
}

/* Choose the adapter that is asked for, or the best one. */
static dk_status choose_adapter(dk_vulkan* self, const dk_vk_facts* facts, int32_t count, int32_t asked) {
    int32_t chosen = asked - 1;
    if (asked < 0 || asked > count) {
        return dk_vk_fail(self, "there is no adapter %d: there are %d", (int)asked, (int)count);
    }
    for (int32_t i = 0; i < count && asked == 0; ++i) {
        chosen = chosen < 0 || rank(&facts[i].adapter) > rank(&facts[chosen].adapter) ? i : chosen;
    }
    self->facts = facts[chosen];
    self->gpu.adapter = self->facts.adapter;
    self->gpu.driver.binding_bytes = self->facts.adapter.binding_bytes;
    if (self->facts.adapter.unusable != NULL) {
        return dk_vk_fail(
            self, "%.100s cannot run the model: %s", self->facts.adapter.name, self->facts.adapter.unusable
        );
    }
    return DK_OK;
}

static dk_status find_adapter(dk_vulkan* self, const dk_gpu_options* options) {
    dk_vk_facts* facts = (dk_vk_facts*)calloc(DK_VK_MOST_ADAPTERS, sizeof *facts);
    dk_status status = DK_ERROR_DEVICE;
    int32_t count = 0;
    if (facts == NULL) {
        return dk_vk_check(self, VK_ERROR_OUT_OF_HOST_MEMORY, "the list of adapters");
    }
    if (dk_vk_open_system(&self->system, options, self->error, sizeof self->error)) {
        count = dk_vk_list(&self->system, options, facts, self->error, sizeof self->error);
    }
    if (count > 0) {
        status = choose_adapter(self, facts, count, options != NULL ? options->adapter : 0);
    }
    free(facts);
    return status;
}

static int32_t load_functions(dk_vulkan* self) {
    const char* name = DK_VK_DEVICE_FUNCTIONS(DK_VK_NAME);
    unsigned char* field = (unsigned char*)&self->call;
    for (; *name != '\0'; name += strlen(name) + 1) {
        const PFN_vkVoidFunction function = self->system.call.GetDeviceProcAddr(self->device, name);
        if (function == NULL) {
            return 0;
        }
        memcpy(field, &function, sizeof function);
        field += sizeof function;
    }
    return 1;
}

static dk_status make_device(dk_vulkan* self) {
    const VkFenceCreateInfo fence = {VK_STRUCTURE_TYPE_FENCE_CREATE_INFO, NULL, 0};
    const VkCommandPoolCreateInfo pool = {
        VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
        NULL,
        VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
        self->facts.family,
    };
    VkResult result = dk_vk_make_device(&self->system, &self->facts, &self->device);
    if (result != VK_SUCCESS) {
        self->device = NULL;
        return dk_vk_check(self, result, "a device");
    }
    dk_vk_keep_loaded(self->system.before);
    if (!load_functions(self)) {
        if (self->call.DestroyDevice != NULL) {
            self->call.DestroyDevice(self->device, NULL);
        }
        self->device = NULL;
        return dk_vk_fail(self, "the GPU's driver lacks functions of Vulkan 1.1");
    }
    self->system.call.GetPhysicalDeviceMemoryProperties(self->facts.device, &self->memory);
    self->call.GetDeviceQueue(self->device, self->facts.family, 0, &self->queue);
    result = self->call.CreateFence(self->device, &fence, NULL, &self->fence);
    result = result != VK_SUCCESS ? result : self->call.CreateCommandPool(self->device, &pool, NULL, &self->commands);
    result = result != VK_SUCCESS ? result : dk_vk_make_buffer(self, &self->nothing, DK_VK_BLOCK, DK_VK_ON_DEVICE);
    return dk_vk_check(self, result, "a device");
}

static void set_functions(dk_gpu* gpu) {
    gpu->driver.dispatch = dispatch;
    gpu->driver.copy = copy;
    gpu->driver.upload = dk_vk_upload;
    gpu->driver.download = dk_vk_download_to;
    gpu->driver.wait = wait_for_device;
    gpu->driver.restart = restart;
    gpu->driver.provide = dk_vk_provide;
    gpu->load = dk_vk_load;
    gpu->clear = dk_vk_clear;
    gpu->keep = dk_vk_keep;
    gpu->read = dk_vk_read;
    gpu->discard = dk_vk_discard;
    gpu->profile = profile;
    gpu->times = times;
    gpu->close = close_device;
}

dk_gpu* dk_vulkan_open(
    const dk_gpu_program* program, const void* code, const dk_gpu_options* options, char* error, size_t error_bytes
) {
    dk_vulkan* self = (dk_vulkan*)calloc(1, sizeof *self);
    dk_status status;
    if (self == NULL) {
        snprintf(error, error_bytes, "there is not enough memory");
        return NULL;
    }
    set_functions(&self->gpu);
    status = find_adapter(self, options);
    status = status != DK_OK ? status : make_device(self);
    status = status != DK_OK ? status : dk_vk_divide(self, program);
    status = status != DK_OK ? status : dk_vk_compile(self, program, code, options);
    if (status != DK_OK) {
        snprintf(error, error_bytes, "%s", self->error);
        close_device(&self->gpu);
        return NULL;
    }
    return &self->gpu;
}

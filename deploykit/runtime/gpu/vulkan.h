/* The parts of the Vulkan driver: the system's library and its adapters, the memory, the kernels, and the recordings of
   a device. Functions that return a dk_status leave the text of an error in the device. */
#ifndef DEPLOYKIT_VULKAN_H
#define DEPLOYKIT_VULKAN_H

#include "gpu.h"
#include "kept.h"
#include "vulkan_functions.h"
#include "work.h"

#define DK_VK_MOST_BINDINGS 32
#define DK_VK_MOST_WORDS 32 /* 128 bytes of push constants, which every device has */
#define DK_VK_MOST_ADAPTERS 16
/* How many recordings of different runs are kept. */
#define DK_VK_RECORDINGS 8
/* Buffers are multiples of this, which every device accepts as an offset in a binding. */
#define DK_VK_BLOCK 256

/* The system's library, and what it says of each adapter. */
typedef struct dk_vk_system {
    void* library;
    PFN_vkGetInstanceProcAddr load;
    VkInstance instance;
    dk_vk_instance_functions call;
    char* before; /* the libraries that were there before it */
} dk_vk_system;

typedef struct dk_vk_facts {
    dk_gpu_adapter adapter;
    VkPhysicalDevice device;
    VkPhysicalDeviceProperties properties;
    uint32_t family; /* of queues that compute */
    uint32_t clock_bits;
    uint32_t bindings;       /* storage buffers that a kernel may have */
    uint32_t extensions;     /* as bits */
    int32_t sized;           /* the size of subgroups can be asked for */
    uint32_t most_subgroups; /* of a workgroup, if it is */
} dk_vk_facts;

/* Load the library and make an instance. Returns 0 and a text in `error` on failure; nothing is left open then. */
int32_t dk_vk_open_system(dk_vk_system* system, const dk_gpu_options* options, char* error, size_t error_bytes);
void dk_vk_close_system(dk_vk_system* system);

/* The names of the libraries in the process, to be freed, or NULL. Then those that came since stay. */
char* dk_vk_loaded(void);
void dk_vk_keep_loaded(const char* before);

/* The facts of at most DK_VK_MOST_ADAPTERS adapters. Returns how many there are; `error` says why there is none. */
int32_t
dk_vk_list(dk_vk_system* system, const dk_gpu_options* options, dk_vk_facts* facts, char* error, size_t error_bytes);

/* Make a device of an adapter. */
VkResult dk_vk_make_device(const dk_vk_system* system, const dk_vk_facts* facts, VkDevice* device);

typedef struct dk_vk_buffer {
    VkBuffer buffer; /* 0: there is none */
    VkDeviceMemory memory;
    int64_t bytes;
    unsigned char* mapped; /* NULL if the host does not see the memory */
    int32_t coherent;
} dk_vk_buffer;

/* The numbers of buffers in operations that driver.h does not know. The weights are in the buffers DK_VK_WEIGHTS,
   DK_VK_WEIGHTS - 1, ... */
enum { DK_VK_UPLOADS = -1, DK_VK_DOWNLOADS = -2, DK_VK_WEIGHTS = -3 };

typedef struct dk_vk_kernel {
    VkPipeline pipeline;
    int32_t bindings;
    int32_t words;
    uint32_t written;
    int32_t stride; /* how many of the invocations that a step asks for a workgroup runs */
} dk_vk_kernel;

/* Host memory that gets data after the next wait. */
typedef struct dk_vk_download {
    void* target;
    int64_t offset; /* in the buffer of downloads */
    int64_t bytes;
} dk_vk_download;

/* Commands that carry out a list of operations. */
typedef struct dk_vk_recording {
    dk_work work; /* empty: there are none */
    VkCommandBuffer commands;
    VkDescriptorPool sets;
    uint32_t set_room;
    uint32_t binding_room;
    uint64_t used; /* when, in submissions */
} dk_vk_recording;

typedef struct dk_vk_time {
    double nanoseconds;
    int32_t step;
} dk_vk_time;

/* An open device. `gpu` is first: a pointer to it is a pointer to the device. */
typedef struct dk_vulkan {
    dk_gpu gpu;
    char error[DK_ERROR_TEXT];
    int32_t lost;

    dk_vk_system system;
    dk_vk_facts facts;
    VkPhysicalDeviceMemoryProperties memory;
    VkDevice device;
    VkQueue queue;
    VkFence fence;
    dk_vk_device_functions call;

    int32_t workgroup;
    int32_t groups;
    int32_t kernel_count;
    dk_vk_kernel* kernels;
    /* By the number of bindings. */
    VkDescriptorSetLayout set_layouts[DK_VK_MOST_BINDINGS + 1];
    VkPipelineLayout layouts[DK_VK_MOST_BINDINGS + 1];

    dk_vk_buffer* buffers; /* by number */
    int32_t buffer_count;
    int32_t buffer_room;
    /* The weights: part i has the bytes from starts[i] to starts[i + 1]. */
    dk_vk_buffer* parts;
    int64_t* starts;
    int32_t part_count;
    dk_keeper keeper; /* of the caller's buffers */
    dk_vk_buffer* kept;
    dk_vk_buffer nothing; /* stands for empty tensors */
    dk_vk_buffer uploads;
    dk_vk_buffer downloads;
    int64_t uploaded; /* bytes in use of both */
    int64_t downloaded;

    dk_work work;
    dk_vk_download* pending;
    int32_t pending_count;
    int32_t pending_room;
    VkCommandPool commands;
    dk_vk_recording recordings[DK_VK_RECORDINGS];
    uint64_t submissions;

    int32_t profiling;
    VkQueryPool clock;
    uint32_t clock_room;
    dk_vk_time* times;
    int32_t time_count;
    int32_t time_room;
} dk_vulkan;

/* Set the text of the error; returns DK_ERROR_DEVICE. */
dk_status dk_vk_fail(dk_vulkan* self, const char* format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;

/* The status of a result; `what` was being done, or takes the memory that there is not. */
dk_status dk_vk_check(dk_vulkan* self, VkResult result, const char* what);

/* An array with room for `count` + 1 elements, or NULL if there is no memory; `array` is unchanged then. */
void* dk_vk_grown(void* array, int32_t count, int32_t* room, size_t element);

/* DK_OK unless the device is lost. */
dk_status dk_vk_usable(dk_vulkan* self);

/* Memory: vulkan_memory.c. */
enum { DK_VK_ON_DEVICE, DK_VK_TO_DEVICE, DK_VK_FROM_DEVICE };
VkResult dk_vk_make_buffer(dk_vulkan* self, dk_vk_buffer* buffer, int64_t bytes, int32_t use);
void dk_vk_free_buffer(dk_vulkan* self, dk_vk_buffer* buffer);
/* Make a buffer on the device in place of one that is there, or in none; `number` is the one that an error names. */
dk_status dk_vk_replace(dk_vulkan* self, dk_vk_buffer* buffer, int64_t bytes, int32_t number);
/* Choose how the weights are divided between buffers. */
dk_status dk_vk_divide(dk_vulkan* self, const dk_gpu_program* program);
/* The buffer with a number that operations use. */
const dk_vk_buffer* dk_vk_buffer_of(const dk_vulkan* self, int64_t number);
/* The place of `bytes` of a slice, from byte `offset` of it on. */
dk_status dk_vk_place(dk_vulkan* self, const dk_slice* slice, int64_t offset, int64_t bytes, dk_region* place);
/* Copy what was downloaded to where it was asked for. */
dk_status dk_vk_finish_downloads(dk_vulkan* self);
void dk_vk_free_memory(dk_vulkan* self);
/* Of the driver. */
dk_status dk_vk_upload(dk_driver* driver, const dk_slice* target, const void* source);
dk_status dk_vk_download_to(dk_driver* driver, void* target, const dk_slice* source);
dk_status dk_vk_provide(dk_driver* driver, int32_t number, int64_t bytes);
dk_status dk_vk_load(dk_gpu* gpu, const void* weights);
dk_status dk_vk_clear(dk_gpu* gpu, int32_t number, int64_t bytes);

/* The caller's buffers: vulkan_kept.c. */
dk_status dk_vk_keep(dk_gpu* gpu, int64_t bytes, int32_t* number);
dk_status dk_vk_read(dk_gpu* gpu, int32_t number, int64_t bytes, void* target);
void dk_vk_discard(dk_gpu* gpu, int32_t number);
/* The buffer in use with this number, at least DK_BUFFER_KEPT; NULL if there is none. */
const dk_vk_buffer* dk_vk_kept(const dk_vulkan* self, int64_t number);
/* Release discarded buffers, so that at most `most` are left. Returns whether any was released. */
int32_t dk_vk_release_kept(dk_vulkan* self, int32_t most);

/* Kernels: vulkan_kernels.c. */
dk_status
dk_vk_compile(dk_vulkan* self, const dk_gpu_program* program, const void* code, const dk_gpu_options* options);
void dk_vk_free_kernels(dk_vulkan* self);

/* The file that keeps compiled kernels: vulkan_cache.c. */
typedef struct dk_vk_cache {
    const char* path; /* NULL: there is none */
    VkPipelineCache cache;
    uint64_t code_hash;
    uint64_t hash; /* of the data that were read; 0: none were */
} dk_vk_cache;
/* A cache with the data of the file, if it fits the device and the code. */
VkResult dk_vk_open_cache(dk_vulkan* self, dk_vk_cache* cache, const char* path, uint64_t code_hash);
/* Write the file if there is something new. */
void dk_vk_close_cache(dk_vulkan* self, dk_vk_cache* cache);

/* Recordings: vulkan_recordings.c. */
/* Collect an operation. */
dk_status dk_vk_collect(
    dk_vulkan* self, int32_t kernel, const dk_region* places, int32_t place_count, const int32_t* words,
    int32_t word_count
);
/* Carry out what is collected, and wait until it is. */
dk_status dk_vk_flush(dk_vulkan* self);
/* Forget what is collected. */
void dk_vk_drop(dk_vulkan* self);
/* Forget all recordings, because buffers change. */
void dk_vk_forget(dk_vulkan* self);
/* Forget the recordings that use the buffer with this number. */
void dk_vk_forget_buffer(dk_vulkan* self, int64_t number);
void dk_vk_free_recordings(dk_vulkan* self);

/* Record a list: vulkan_commands.c. */
VkResult dk_vk_record(dk_vulkan* self, dk_vk_recording* recording);

#endif

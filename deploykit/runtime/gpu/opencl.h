/* What the sources of the OpenCL driver share. */
#ifndef DEPLOYKIT_OPENCL_H
#define DEPLOYKIT_OPENCL_H

#include "gpu.h"
#include "kept.h"
#include "opencl_api.h"

/* Bytes: buffers consist of whole units, and tensors begin at one. */
#define DK_OPENCL_UNIT 16

/* Where an error text goes. */
typedef struct dk_opencl_text {
    char* text;
    size_t bytes;
} dk_opencl_text;

typedef struct dk_opencl_device {
    cl_platform_id platform;
    cl_device_id device;
    cl_bits floats; /* CL_FP_... of 32-bit floats */
    const char* language;
    dk_gpu_adapter adapter;
} dk_opencl_device;

typedef struct dk_opencl_buffer {
    cl_mem memory;
    int64_t bytes;
} dk_opencl_buffer;

/* How many tensors and integers a kernel takes. */
typedef struct dk_opencl_shape {
    int32_t bindings;
    int32_t words;
} dk_opencl_shape;

/* Part of the weights, in a buffer of its own. */
typedef struct dk_opencl_part {
    int64_t first;
    dk_opencl_buffer buffer;
} dk_opencl_part;

/* Data of an upload that may not be carried out yet. */
typedef struct dk_opencl_staged {
    struct dk_opencl_staged* next;
    unsigned char data[];
} dk_opencl_staged;

/* A command of a profile. */
typedef struct dk_opencl_timed {
    cl_event event;
    double nanoseconds;
    int32_t step;
} dk_opencl_timed;

typedef struct dk_opencl_gpu {
    dk_gpu base;
    char text[DK_ERROR_TEXT];
    dk_opencl_api api;
    dk_opencl_device device;
    cl_context context;
    cl_command_queue queue;
    cl_program program;
    cl_kernel* kernels;
    dk_opencl_shape* shapes; /* of the kernels */
    int32_t kernel_count;
    int32_t workgroup;
    dk_opencl_part* parts;
    int32_t part_count;
    int64_t weights_bytes;
    dk_opencl_buffer* buffers;
    int32_t buffer_count;
    dk_keeper keeper; /* of the caller's buffers */
    dk_opencl_buffer* kept;
    dk_opencl_buffer nothing; /* what empty tensors are bound to */
    dk_opencl_staged* staged;
    int64_t staged_bytes;
    int32_t ahead; /* commands since the device was told to begin */
    int busy;      /* there may be commands that are not carried out */
    int lost;
    int timing;
    dk_opencl_timed* timed;
    int32_t timed_count, timed_room;
    int32_t timed_known; /* how many of them have times instead of events */
} dk_opencl_gpu;

void dk_opencl_say(dk_opencl_text error, const char* format, ...);

/* Load the library; returns 0 and a text if there is none. It stays loaded, because drivers have threads. */
int dk_opencl_load(dk_opencl_api* api, const char* path, dk_opencl_text error);

/* Find the device with this number, from 1, and what it can do with these options; returns 0 if there are fewer. */
int dk_opencl_find(const dk_opencl_api* api, const dk_gpu_options* options, int32_t number, dk_opencl_device* found);

/* Build the kernels, from the file of compiled kernels if it fits; returns NULL and a text if that is not possible. */
cl_program dk_opencl_build(
    const dk_opencl_api* api, cl_context context, const dk_opencl_device* device, const dk_gpu_program* program,
    const void* code, const char* cache, dk_opencl_text error
);

/* Report an error, which `dk_driver.error` shows from now on. */
dk_status dk_opencl_fail(dk_opencl_gpu* self, const char* format, ...);
dk_status dk_opencl_fail_memory(dk_opencl_gpu* self, int32_t buffer, int64_t bytes);
/* Report a failure after which nothing can be done with the device. */
dk_status dk_opencl_fail_device(dk_opencl_gpu* self, cl_int code);
dk_status dk_opencl_fail_place(dk_opencl_gpu* self, const dk_slice* slice);
/* The status of a command. */
dk_status dk_opencl_checked(dk_opencl_gpu* self, cl_int code);
int dk_opencl_lacks_memory(cl_int code);

/* Divide the weights between as few buffers as possible; returns 0 and a text if a tensor has no place. */
int dk_opencl_divide(dk_opencl_gpu* self, const dk_gpu_program* program, dk_opencl_text error);
/* Make a buffer in place of what there is; `number` is the one that an error names. */
dk_status dk_opencl_make(dk_opencl_gpu* self, dk_opencl_buffer* buffer, int64_t bytes, cl_bits access, int32_t number);
void dk_opencl_release(dk_opencl_gpu* self, dk_opencl_buffer* buffer);
/* The buffer in which a slice lies, and the bytes before it there. NULL: it lies in none. */
const dk_opencl_buffer* dk_opencl_placed(const dk_opencl_gpu* self, const dk_slice* slice, int64_t* offset);
dk_status dk_opencl_provide(dk_driver* driver, int32_t number, int64_t bytes);
dk_status dk_opencl_clear(dk_gpu* gpu, int32_t number, int64_t bytes);
dk_status dk_opencl_load_weights(dk_gpu* gpu, const void* weights);

/* The caller's buffers. */
dk_status dk_opencl_keep(dk_gpu* gpu, int64_t bytes, int32_t* number);
dk_status dk_opencl_read(dk_gpu* gpu, int32_t number, int64_t bytes, void* target);
void dk_opencl_discard(dk_gpu* gpu, int32_t number);
/* The buffer in use with this number, at least DK_BUFFER_KEPT; NULL if there is none. */
const dk_opencl_buffer* dk_opencl_kept_buffer(const dk_opencl_gpu* self, int32_t number);
/* Release discarded buffers, so that at most `most` are left. Returns whether any was released. */
int dk_opencl_release_kept(dk_opencl_gpu* self, int32_t most);

#endif

/* GPUs of native machines: the drivers for Vulkan and OpenCL, behind driver.h. They load the system's library when a
   device is opened; nothing is linked. */
#ifndef DEPLOYKIT_GPU_H
#define DEPLOYKIT_GPU_H

#include "driver.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a form of a kernel needs of the device, as bits. */
#define DK_GPU_F16 1u       /* buffers of 16-bit floats; arithmetic on them is in 32 bits */
#define DK_GPU_SUBGROUPS 2u /* subgroups that shuffle */
#define DK_GPU_DOT 4u       /* dot products of four 8-bit integers */

/* One form of a kernel's code. */
typedef struct dk_gpu_form {
    uint32_t needs;
    int64_t binding_bytes; /* the device must bind as much at once */
    int64_t offset, bytes; /* the place of its code in the code of all forms */
} dk_gpu_form;

/* A kernel. Its tensors are the bindings 1 to `bindings`. Its uniform data are `words` integers of 32 bits: the
   scalars, and last the number of invocations. */
typedef struct dk_gpu_kernel {
    const char* name;
    int32_t bindings;
    int32_t words;
    uint32_t written; /* bit i: binding i + 1 may be written to */
    int32_t team;     /* not 0: `workgroup` invocations are asked for each team; see dk_gpu_program */
    int32_t form_count;
    const dk_gpu_form* forms; /* the best first; one of them needs nothing */
} dk_gpu_kernel;

/* The kernels of a model. A workgroup has `workgroup` invocations; a grid has at most `groups` workgroups along its
   first axis, and more are folded into the second. With DK_GPU_SUBGROUPS a team is a subgroup, so that a workgroup runs
   as many teams as it has subgroups; otherwise a team is a workgroup.

   For OpenCL the code is one text with all kernels, by their names, and forms are not used, because the text chooses by
   macros (opencl.c). Its grids have one axis, with no more workgroups than there are teams. */
typedef struct dk_gpu_program {
    const dk_gpu_kernel* kernels;
    int32_t kernel_count;
    int32_t workgroup;
    int32_t groups;
    /* The bytes at which the weights may be divided between buffers, in order: where tensors begin, from 0, and, with
       a minus sign, places inside of a tensor. There it is divided only if it is larger than `binding_bytes` of the
       driver, so that kernels never see it as a whole. */
    int32_t start_count;
    const int64_t* starts;
    int64_t first_weight; /* the byte of weights.bin at which the weights for GPUs begin */
    int64_t weights_bytes;
    int64_t code_bytes;
    uint64_t code_hash;   /* dk_hash of the code: any other code is refused */
    int64_t packed_bytes; /* of the file, if the code in it is packed (for Vulkan); 0: it is as it is */
} dk_gpu_program;

/* The kinds of devices, by the memory they work on and what they prefer. */
typedef enum dk_gpu_kind { DK_GPU_OTHER, DK_GPU_INTEGRATED, DK_GPU_DISCRETE, DK_GPU_SOFTWARE } dk_gpu_kind;

/* A device that a driver can open. */
typedef struct dk_gpu_adapter {
    char name[128];
    char driver[128]; /* the driver's name and version */
    dk_gpu_kind kind;
    uint32_t features; /* DK_GPU_... that it has */
    int32_t subgroup;  /* invocations of a subgroup; 0: unknown */
    int64_t memory_bytes;
    int64_t buffer_bytes;  /* of the largest buffer */
    int64_t binding_bytes; /* of the largest tensor that a kernel reads or writes */
    const char* unusable;  /* why it cannot run kernels; NULL if it can */
} dk_gpu_adapter;

/* Choices of the caller. All zeros are the defaults. */
typedef struct dk_gpu_options {
    const char* library; /* the path of the system's library, if it is not where it usually is */
    const char* cache;   /* the path of a file that keeps compiled kernels; NULL: none. A file that does not fit is
                            replaced */
    int32_t adapter;     /* 1 for the first adapter that is listed, and so on; 0: the best one */
    uint32_t without;    /* features not to use */
    int64_t buffer_bytes, binding_bytes; /* limits lower than those of the device */
} dk_gpu_options;

/* An open device with the kernels of one model. One thread uses it at a time. */
typedef struct dk_gpu {
    dk_driver driver; /* its `error` is a text of this struct */
    dk_gpu_adapter adapter;
    /* Copy the weights for GPUs to the device: DK_BUFFER_WEIGHTS. Between runs: drops what is left of one that failed.
     */
    dk_status (*load)(struct dk_gpu* self, const void* weights);
    /* Make buffer `buffer` anew with `bytes` zeros. Between runs, too. */
    dk_status (*clear)(struct dk_gpu* self, int32_t buffer, int64_t bytes);
    /* Make a buffer for a value that stays on the device: its number goes to `kept` of the driver. Between runs, as the
       next two. */
    dk_status (*keep)(struct dk_gpu* self, int64_t bytes, int32_t* buffer);
    /* Copy the first `bytes` of such a buffer to host memory. */
    dk_status (*read)(struct dk_gpu* self, int32_t buffer, int64_t bytes, void* target);
    /* Release such a buffer. It serves the next values of its size. */
    void (*discard)(struct dk_gpu* self, int32_t buffer);
    /* Measure how long kernels run from now on, or stop doing so. */
    void (*profile)(struct dk_gpu* self, int32_t on);
    /* The nanoseconds of each dispatch, copy, upload and download that was carried out since `profile` or the last call
       that got all of them, in order, and the step that asked for each. Writes at most `most`; returns how many there
       are: none on a device without a clock. A transfer in pieces has several. */
    int32_t (*times)(struct dk_gpu* self, double* nanoseconds, int32_t* steps, int32_t most);
    /* Release everything. The struct is gone. */
    void (*close)(struct dk_gpu* self);
    int32_t step; /* for profiles: the step of the model that makes the next calls */
} dk_gpu;

/* List the adapters; returns how many there are, of which at most `most` are written. If there are none, `error` says
   why. */
int32_t dk_vulkan_adapters(
    const dk_gpu_options* options, dk_gpu_adapter* adapters, int32_t most, char* error, size_t error_bytes
);
int32_t dk_opencl_adapters(
    const dk_gpu_options* options, dk_gpu_adapter* adapters, int32_t most, char* error, size_t error_bytes
);

/* Open a device, and compile the kernels. The program, its code and the options, which may be NULL, have to be there
   only until this returns. Returns NULL and a text in `error` if that is not possible. */
dk_gpu* dk_vulkan_open(
    const dk_gpu_program* program, const void* code, const dk_gpu_options* options, char* error, size_t error_bytes
);
dk_gpu* dk_opencl_open(
    const dk_gpu_program* program, const void* code, const dk_gpu_options* options, char* error, size_t error_bytes
);

#ifdef __cplusplus
}
#endif

#endif

/* The interface to a device with memory of its own, such as a GPU.

   A driver owns the buffers and the kernels; the steps of a model call it in order. It may carry out calls later, up to
   the next `wait`, but must keep their order. Some drivers cannot wait in place, because the device only goes on when
   the caller returns. Their `wait` returns DK_PENDING. The model's run then returns it too, and must be called again,
   with the same arguments, when the device is done. Between these calls the struct is free (DK_ERROR_BUSY): the caller
   keeps others from it until the run has ended. */
#ifndef DEPLOYKIT_DRIVER_H
#define DEPLOYKIT_DRIVER_H

#include "deploykit.h"

#ifdef DK_SLICED
#error "a model with kernels for a GPU has no run_steps: compile it without DK_SLICED"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Numbers of the device's buffers. After the states come the inputs, then the outputs, one buffer each. */
#define DK_BUFFER_ARENA 0
#define DK_BUFFER_WEIGHTS 1
#define DK_BUFFER_STATES 2
#define DK_BUFFER_PORTS 3
/* From here on: buffers of the caller, for values that stay on the device between runs. */
#define DK_BUFFER_KEPT (1 << 20)

/* The `data` of an input or output whose value is in such a buffer. */
#define DK_ON_DEVICE ((void*)(uintptr_t)DK_ALIGNMENT)

/* The part of a buffer that holds a tensor. Kernels may read and write up to the next multiple of 16 bytes; that
   padding holds no data. */
typedef struct dk_slice {
    int32_t buffer;
    const char* name; /* of the tensor, for errors */
    int64_t offset;   /* bytes, a multiple of the alignment that the model was built for */
    int64_t bytes;
} dk_slice;

typedef struct dk_driver {
    /* The largest tensor, in bytes, that a kernel can read and write. */
    int64_t binding_bytes;
    /* What went wrong, behind DK_ERROR_DEVICE; NULL: there is no text. */
    const char* error;
    /* Run a kernel. */
    dk_status (*dispatch)(
        struct dk_driver* self, int32_t kernel, const dk_slice* slices, int32_t slice_count, const int32_t* scalars,
        int32_t scalar_count, int32_t invocations
    );
    /* Copy all of `source` to `target`, starting `offset` bytes after its beginning. */
    dk_status (*copy)(struct dk_driver* self, const dk_slice* target, int64_t offset, const dk_slice* source);
    /* Copy host memory to the device. The host memory may change as soon as this returns. */
    dk_status (*upload)(struct dk_driver* self, const dk_slice* target, const void* source);
    /* Copy to host memory, which holds the data after the next `wait`. Until then only downloads are called. */
    dk_status (*download)(struct dk_driver* self, void* target, const dk_slice* source);
    /* DK_OK when all calls are carried out. */
    dk_status (*wait)(struct dk_driver* self);
    /* Begin a run: drop what is left of one that failed. NULL if the caller does so. */
    dk_status (*restart)(struct dk_driver* self);
    /* Make sure that a buffer has at least `bytes`, and up to the next multiple of 16; its contents may be lost. A
       buffer of the caller is only checked. NULL if the caller does so. */
    dk_status (*provide)(struct dk_driver* self, int32_t buffer, int64_t bytes);
    /* Where the next runs of a model find its inputs and leave its outputs, set by the caller: for each input, then for
       each output, the number of the caller's buffer that has or gets the value, and 0 for a value in host memory. An
       output has a buffer that nothing else of the run uses. NULL: all are in host memory. */
    const int32_t* kept;
    int64_t uploaded, downloaded; /* bytes of tensors so far */
} dk_driver;

/* The buffer of an input or output. */
static inline int32_t dk_port_buffer(const dk_driver* driver, int32_t port) {
    return driver->kept != NULL && driver->kept[port] != 0 ? driver->kept[port] : DK_BUFFER_PORTS + port;
}

/* The rest is for generated code: calls of the driver that refuse sizes too large for a GPU. `model` gets the error. */

dk_status dk_dispatch(
    dk_model* model, dk_driver* driver, int32_t kernel, const dk_slice* slices, int32_t slice_count,
    const int64_t* scalars, int32_t scalar_count, int64_t invocations
);

/* Binding `number` of the `count` bindings, of `part` bytes each, of a tensor. A device that binds `most` bytes has all
   of it in the first one, and nothing in the others. So has another device if the tensor is larger than all bindings;
   the dispatch is refused then. */
static inline dk_slice
dk_part(const dk_driver* driver, dk_slice whole, int64_t most, int64_t part, int32_t number, int32_t count) {
    const int64_t all = whole.bytes, before = part * number;
    if (driver->binding_bytes >= most || all > part * count) {
        whole.bytes = number == 0 ? all : 0;
        return whole;
    }
    whole.offset += before;
    whole.bytes = all <= before ? 0 : all - before < part ? all - before : part;
    return whole;
}

/* Check that there is a driver. */
dk_status dk_require_driver(dk_model* model, const dk_driver* driver);

/* Report the status of a call of the driver. */
dk_status dk_check_driver(dk_model* model, const dk_driver* driver, dk_status status);

/* Transfers of a tensor. Values in buffers of the caller stay where they are. */
dk_status dk_upload(dk_model* model, dk_driver* driver, const dk_slice* target, const void* source);
dk_status dk_download(dk_model* model, dk_driver* driver, void* target, const dk_slice* source);

/* Begin a run, with room for an arena and for the ports, which have the sizes of `inputs` and `outputs`. `resident`:
   for each input, then for each output, whether it may be in a buffer of the caller. */
dk_status dk_begin_run(
    dk_model* model, dk_driver* driver, int64_t arena_bytes, const dk_tensor* inputs, const dk_tensor* outputs,
    const unsigned char* resident
);

#ifdef __cplusplus
}
#endif

#endif

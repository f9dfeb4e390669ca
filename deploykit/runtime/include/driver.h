/* The interface to a device with memory of its own, such as a GPU.

   A driver owns the buffers and the kernels; the steps of a model call it in order. It may carry out calls later, up to
   the next `wait`, but must keep their order. Some drivers cannot wait in place, because the device only goes on when
   the caller returns. Their `wait` returns DK_PENDING. The model's run then returns it too, and must be called again,
   with the same arguments, when the device is done. */
#ifndef DEPLOYKIT_DRIVER_H
#define DEPLOYKIT_DRIVER_H

#include "deploykit.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Numbers of the device's buffers. After the states come the inputs, then the outputs, one buffer each. */
#define DK_BUFFER_ARENA 0
#define DK_BUFFER_WEIGHTS 1
#define DK_BUFFER_STATES 2
#define DK_BUFFER_PORTS 3

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
    /* Make sure that a buffer has at least `bytes`, and up to the next multiple of 16; its contents may be lost. NULL
       if the caller does so. */
    dk_status (*provide)(struct dk_driver* self, int32_t buffer, int64_t bytes);
} dk_driver;

/* The rest is for generated code: calls of the driver that refuse sizes too large for a GPU. `model` gets the error. */

dk_status dk_dispatch(
    dk_model* model, dk_driver* driver, int32_t kernel, const dk_slice* slices, int32_t slice_count,
    const int64_t* scalars, int32_t scalar_count, int64_t invocations
);

/* Check that there is a driver. */
dk_status dk_require_driver(dk_model* model, const dk_driver* driver);

/* Report the status of a call of the driver. */
dk_status dk_check_driver(dk_model* model, const dk_driver* driver, dk_status status);

/* Begin a run, with room for an arena and for the ports, which have the sizes of `inputs` and `outputs`. */
dk_status dk_begin_run(
    dk_model* model, dk_driver* driver, int64_t arena_bytes, const dk_tensor* inputs, const dk_tensor* outputs
);

#ifdef __cplusplus
}
#endif

#endif

/* The interface to a device with memory of its own, such as a GPU.

   A driver owns the buffers and the kernels; a model's steps say what to do with them, in order. What they ask for may
   be done later, up to the next `wait`, as long as it is done in that order. A driver that cannot wait in place,
   because its caller must return for the device to get on, answers DK_PENDING; the model's run then returns that, too,
   and is to be called again, with the same arguments, once the device is done. */
#ifndef DEPLOYKIT_DRIVER_H
#define DEPLOYKIT_DRIVER_H

#include "deploykit.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Buffers of the device by number. Behind the states come the inputs, then the outputs, one buffer each. */
#define DK_BUFFER_ARENA 0
#define DK_BUFFER_WEIGHTS 1
#define DK_BUFFER_STATES 2
#define DK_BUFFER_PORTS 3

/* A stretch of a buffer: a tensor. Kernels may read and write up to the next multiple of 16 bytes; what lies there is
   nobody's. */
typedef struct dk_slice {
    int32_t buffer;
    const char* name; /* of the tensor, for errors */
    int64_t offset;   /* bytes, a multiple of what the model was built for */
    int64_t bytes;
} dk_slice;

typedef struct dk_driver {
    /* The most bytes of a tensor that a kernel can read and write. */
    int64_t binding_bytes;
    /* Run a kernel with so many invocations. */
    dk_status (*dispatch)(
        struct dk_driver* self, int32_t kernel, const dk_slice* slices, int32_t slice_count, const int32_t* scalars,
        int32_t scalar_count, int32_t invocations
    );
    /* Copy all of `source` to `target`, `offset` bytes behind its beginning. */
    dk_status (*copy)(struct dk_driver* self, const dk_slice* target, int64_t offset, const dk_slice* source);
    /* Copy host memory to the device; it may change as soon as this returns. */
    dk_status (*upload)(struct dk_driver* self, const dk_slice* target, const void* source);
    /* Copy to host memory; it holds the data after the next `wait`, before which only downloads are asked for. */
    dk_status (*download)(struct dk_driver* self, void* target, const dk_slice* source);
    /* DK_OK when everything asked for is done. */
    dk_status (*wait)(struct dk_driver* self);
} dk_driver;

/* The rest is for generated code: calls of the driver that check what a GPU cannot count. `model` gets the error. */

dk_status dk_dispatch(
    dk_model* model, dk_driver* driver, int32_t kernel, const dk_slice* slices, int32_t slice_count,
    const int64_t* scalars, int32_t scalar_count, int64_t invocations
);

/* Check that there is a driver. */
dk_status dk_require_driver(dk_model* model, const dk_driver* driver);

/* Report a status that a call of the driver gave. */
dk_status dk_check_driver(dk_model* model, dk_status status);

#ifdef __cplusplus
}
#endif

#endif

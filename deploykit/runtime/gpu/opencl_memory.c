/* The buffers of the OpenCL driver. */
#define _POSIX_C_SOURCE 200809L

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "opencl.h"

#define LEAST_BYTES 256 /* of a buffer */

int dk_opencl_lacks_memory(cl_int code) {
    return code == CL_MEM_OBJECT_ALLOCATION_FAILURE || code == CL_OUT_OF_HOST_MEMORY;
}

/* Whether a buffer could not be made because memory is short. */
static int no_room(cl_int code) {
    return dk_opencl_lacks_memory(code) || code == CL_OUT_OF_RESOURCES || code == CL_INVALID_BUFFER_SIZE;
}

static const char* name_of(int32_t buffer) {
    switch (buffer) {
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

dk_status dk_opencl_fail(dk_opencl_gpu* self, const char* format, ...) {
    va_list values;
    va_start(values, format);
    vsnprintf(self->text, sizeof self->text, format, values);
    va_end(values);
    self->base.driver.error = self->text;
    return DK_ERROR_DEVICE;
}

dk_status dk_opencl_fail_memory(dk_opencl_gpu* self, int32_t buffer, int64_t bytes) {
    return dk_opencl_fail(
        self, "the GPU has not enough memory: %s would take %" PRId64 " bytes", name_of(buffer), bytes
    );
}

dk_status dk_opencl_fail_device(dk_opencl_gpu* self, cl_int code) {
    self->lost = 1;
    return dk_opencl_fail(self, "the GPU device failed (%" PRId32 "): open the model again", code);
}

/* Bytes as whole units. */
static int64_t rounded(int64_t bytes) {
    return bytes > 0 ? (bytes - 1) / DK_OPENCL_UNIT * DK_OPENCL_UNIT + DK_OPENCL_UNIT : 0;
}

void dk_opencl_release(dk_opencl_gpu* self, dk_opencl_buffer* buffer) {
    if (buffer->memory != NULL) {
        self->api.ReleaseMemObject(buffer->memory);
    }
    buffer->memory = NULL;
    buffer->bytes = 0;
}

dk_status dk_opencl_make(dk_opencl_gpu* self, dk_opencl_buffer* buffer, int64_t bytes, cl_bits access, int32_t number) {
    cl_int code = CL_SUCCESS;
    const int64_t most = self->base.adapter.buffer_bytes;
    dk_opencl_release(self, buffer);
    if (bytes > most) {
        return dk_opencl_fail(
            self, "%s would take %" PRId64 " bytes of the GPU, whose buffers have at most %" PRId64, name_of(number),
            bytes, most
        );
    }
    const int64_t size = rounded(bytes > LEAST_BYTES ? bytes : LEAST_BYTES);
    cl_mem memory;
    do {
        memory = self->api.CreateBuffer(self->context, access, (size_t)size, NULL, &code);
    } while (no_room(code) && dk_opencl_release_kept(self, 0));
    if (no_room(code)) {
        return dk_opencl_fail_memory(self, number, bytes);
    }
    if (code != CL_SUCCESS) {
        return dk_opencl_fail_device(self, code);
    }
    buffer->memory = memory;
    buffer->bytes = size;
    return DK_OK;
}

/* The buffer with this number, which may not be made yet; NULL without memory. */
static dk_opencl_buffer* buffer_of(dk_opencl_gpu* self, int32_t number) {
    if (number >= self->buffer_count) {
        dk_opencl_buffer* more = realloc(self->buffers, ((size_t)number + 1) * sizeof *more);
        if (more == NULL) {
            return NULL;
        }
        memset(more + self->buffer_count, 0, (size_t)(number + 1 - self->buffer_count) * sizeof *more);
        self->buffers = more;
        self->buffer_count = number + 1;
    }
    return &self->buffers[number];
}

dk_status dk_opencl_provide(dk_driver* driver, int32_t number, int64_t bytes) {
    dk_opencl_gpu* self = (dk_opencl_gpu*)driver;
    if (self->lost) {
        return DK_ERROR_DEVICE;
    }
    if (number >= DK_BUFFER_KEPT) {
        const dk_opencl_buffer* kept = dk_opencl_kept_buffer(self, number);
        if (kept == NULL) {
            return dk_opencl_fail(self, "this GPU keeps no buffer %" PRId32, number);
        }
        return kept->bytes >= bytes
                   ? DK_OK
                   : dk_opencl_fail(
                         self, "a kept buffer has %" PRId64 " bytes, and a run needs %" PRId64, kept->bytes, bytes
                     );
    }
    if (number < 0 || number == DK_BUFFER_WEIGHTS) {
        return dk_opencl_fail(self, "there is no buffer %" PRId32, number);
    }
    dk_opencl_buffer* buffer = buffer_of(self, number);
    if (buffer == NULL) {
        return dk_opencl_fail_memory(self, number, bytes);
    }
    return buffer->memory != NULL && buffer->bytes >= bytes
               ? DK_OK
               : dk_opencl_make(self, buffer, bytes, CL_MEM_READ_WRITE, number);
}

dk_status dk_opencl_clear(dk_gpu* gpu, int32_t number, int64_t bytes) {
    dk_opencl_gpu* self = (dk_opencl_gpu*)gpu;
    const uint32_t zero = 0;
    dk_opencl_buffer* buffer = self->lost ? NULL : buffer_of(self, number);
    if (buffer == NULL) {
        return self->lost ? DK_ERROR_DEVICE : dk_opencl_fail_memory(self, number, bytes);
    }
    const dk_status status = dk_opencl_make(self, buffer, bytes, CL_MEM_READ_WRITE, number);
    if (status != DK_OK) {
        return status;
    }
    return dk_opencl_checked(
        self, self->api.EnqueueFillBuffer(
                  self->queue, buffer->memory, &zero, sizeof zero, 0, (size_t)buffer->bytes, 0, NULL, NULL
              )
    );
}

dk_status dk_opencl_load_weights(dk_gpu* gpu, const void* weights) {
    dk_opencl_gpu* self = (dk_opencl_gpu*)gpu;
    dk_status status = self->lost ? DK_ERROR_DEVICE : DK_OK;
    for (int32_t i = 0; i < self->part_count && status == DK_OK; ++i) {
        dk_opencl_part* part = &self->parts[i];
        const int64_t end = i + 1 < self->part_count ? part[1].first : self->weights_bytes;
        status = dk_opencl_make(self, &part->buffer, end - part->first, CL_MEM_READ_ONLY, DK_BUFFER_WEIGHTS);
        if (status == DK_OK) {
            status = dk_opencl_checked(
                self, self->api.EnqueueWriteBuffer(
                          self->queue, part->buffer.memory, 1, 0, (size_t)(end - part->first),
                          (const unsigned char*)weights + part->first, 0, NULL, NULL
                      )
            );
        }
    }
    return status;
}

const dk_opencl_buffer* dk_opencl_placed(const dk_opencl_gpu* self, const dk_slice* slice, int64_t* offset) {
    const dk_opencl_buffer* buffer = NULL;
    *offset = 0;
    if (slice->bytes <= 0) {
        return &self->nothing;
    }
    *offset = slice->offset;
    if (slice->buffer == DK_BUFFER_WEIGHTS && self->part_count > 0) {
        int32_t part = self->part_count;
        while (--part > 0 && self->parts[part].first > slice->offset) {
        }
        buffer = &self->parts[part].buffer;
        *offset -= self->parts[part].first;
    } else if (slice->buffer >= DK_BUFFER_KEPT) {
        buffer = dk_opencl_kept_buffer(self, slice->buffer);
    } else if (slice->buffer >= 0 && slice->buffer < self->buffer_count) {
        buffer = &self->buffers[slice->buffer];
    }
    return buffer == NULL || *offset < 0 || buffer->bytes - *offset < slice->bytes ? NULL : buffer;
}

dk_status dk_opencl_fail_place(dk_opencl_gpu* self, const dk_slice* slice) {
    const int known = slice->buffer >= 0 && slice->buffer < self->buffer_count && slice->buffer != DK_BUFFER_WEIGHTS;
    return dk_opencl_fail(
        self, "%.60s has %" PRId64 " bytes from %" PRId64 " on in a buffer of %" PRId64 ": provide a larger one",
        slice->name != NULL ? slice->name : "a tensor", rounded(slice->bytes), slice->offset,
        known ? self->buffers[slice->buffer].bytes : 0
    );
}

/* The end of the tensor (`whole`), or of the part of one, that begins at number `i` of the starts. */
static int64_t end_of(const dk_gpu_program* program, int32_t i, int whole) {
    while (++i < program->start_count) {
        if (program->starts[i] >= 0 || !whole) {
            return program->starts[i] < 0 ? -program->starts[i] : program->starts[i];
        }
    }
    return program->weights_bytes;
}

int dk_opencl_divide(dk_opencl_gpu* self, const dk_gpu_program* program, dk_opencl_text error) {
    const dk_gpu_adapter* adapter = &self->base.adapter;
    int divided = 0; /* kernels see the tensor only in parts */
    self->weights_bytes = program->weights_bytes;
    self->parts = calloc((size_t)program->start_count + 1, sizeof *self->parts);
    if (self->parts == NULL) {
        dk_opencl_say(error, "there is not enough memory to open the GPU");
        return 0;
    }
    self->part_count = program->weights_bytes > 0;
    for (int32_t i = 0; i < program->start_count && program->weights_bytes > 0; ++i) {
        const int64_t start = program->starts[i];
        if (start >= 0) {
            divided = end_of(program, i, 1) - start > adapter->binding_bytes;
        } else if (!divided) {
            continue;
        }
        const int64_t first = start < 0 ? -start : start, end = end_of(program, i, !divided);
        if (end - first > adapter->buffer_bytes) {
            dk_opencl_say(
                error, "the weights have a tensor of %" PRId64 " bytes; buffers of the GPU have at most %" PRId64,
                end - first, adapter->buffer_bytes
            );
            return 0;
        }
        if (end - self->parts[self->part_count - 1].first > adapter->buffer_bytes) {
            self->parts[self->part_count++].first = first;
        }
    }
    return 1;
}

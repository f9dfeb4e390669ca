/* Buffers that keep values on the device between runs. The buffer with index i in `keeper` is `kept[i]`. */
#define _POSIX_C_SOURCE 200809L

#include <stdlib.h>

#include "opencl.h"

dk_status dk_opencl_keep(dk_gpu* gpu, int64_t bytes, int32_t* number) {
    dk_opencl_gpu* self = (dk_opencl_gpu*)gpu;
    if (self->lost) {
        return DK_ERROR_DEVICE;
    }
    int32_t index = dk_kept_again(&self->keeper, bytes);
    if (index < 0) {
        dk_opencl_buffer made = {NULL, 0};
        const dk_status status = dk_opencl_make(self, &made, bytes, CL_MEM_READ_WRITE, DK_BUFFER_KEPT);
        if (status != DK_OK) {
            return status;
        }
        index = dk_kept_new(&self->keeper, made.bytes);
        dk_opencl_buffer* grown =
            index < 0 ? NULL : realloc(self->kept, (size_t)self->keeper.room * sizeof *self->kept);
        if (grown == NULL) {
            if (index >= 0) {
                self->keeper.kept[index].bytes = 0;
            }
            dk_opencl_release(self, &made);
            return dk_opencl_fail_memory(self, DK_BUFFER_KEPT, bytes);
        }
        self->kept = grown;
        self->kept[index] = made;
    }
    *number = DK_BUFFER_KEPT + index;
    return DK_OK;
}

const dk_opencl_buffer* dk_opencl_kept_buffer(const dk_opencl_gpu* self, int32_t number) {
    const int32_t index = number - DK_BUFFER_KEPT;
    return dk_kept_in_use(&self->keeper, index) ? &self->kept[index] : NULL;
}

int dk_opencl_release_kept(dk_opencl_gpu* self, int32_t most) {
    int released = 0;
    int32_t index;
    while ((index = dk_kept_release(&self->keeper, most)) >= 0) {
        dk_opencl_release(self, &self->kept[index]); /* when the commands that use it are carried out */
        released = 1;
    }
    return released;
}

void dk_opencl_discard(dk_gpu* gpu, int32_t number) {
    dk_opencl_gpu* self = (dk_opencl_gpu*)gpu;
    if (number >= DK_BUFFER_KEPT && dk_opencl_kept_buffer(self, number) != NULL) {
        dk_kept_discard(&self->keeper, number - DK_BUFFER_KEPT);
        dk_opencl_release_kept(self, DK_MOST_DISCARDED);
    }
}

dk_status dk_opencl_read(dk_gpu* gpu, int32_t number, int64_t bytes, void* target) {
    const dk_slice source = {number, "a value on the device", 0, bytes};
    const dk_status status = gpu->driver.download(&gpu->driver, target, &source);
    return status != DK_OK ? status : gpu->driver.wait(&gpu->driver);
}

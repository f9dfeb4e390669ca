/* Buffers that keep values on the device between runs. The buffer with index i in `keeper` is `kept[i]`. */
#include <stdlib.h>
#include <string.h>

#include "vulkan.h"

dk_status dk_vk_keep(dk_gpu* gpu, int64_t bytes, int32_t* number) {
    dk_vulkan* self = (dk_vulkan*)gpu;
    dk_status status = dk_vk_usable(self);
    int32_t index;
    dk_vk_buffer made, *grown;
    if (status != DK_OK) {
        return status;
    }
    index = dk_kept_again(&self->keeper, bytes);
    if (index < 0) {
        memset(&made, 0, sizeof made);
        status = dk_vk_replace(self, &made, bytes, DK_BUFFER_KEPT);
        if (status != DK_OK) {
            return status;
        }
        index = dk_kept_new(&self->keeper, made.bytes);
        grown = index < 0 ? NULL : (dk_vk_buffer*)realloc(self->kept, (size_t)self->keeper.room * sizeof *self->kept);
        if (grown == NULL) {
            if (index >= 0) {
                self->keeper.kept[index].bytes = 0;
            }
            dk_vk_free_buffer(self, &made);
            return dk_vk_check(self, VK_ERROR_OUT_OF_HOST_MEMORY, "a value on the device");
        }
        self->kept = grown;
        self->kept[index] = made;
    }
    *number = DK_BUFFER_KEPT + index;
    return DK_OK;
}

const dk_vk_buffer* dk_vk_kept(const dk_vulkan* self, int64_t number) {
    const int64_t index = number - DK_BUFFER_KEPT;
    return index < self->keeper.count && dk_kept_in_use(&self->keeper, (int32_t)index) ? &self->kept[index] : NULL;
}

int32_t dk_vk_release_kept(dk_vulkan* self, int32_t most) {
    int32_t released = 0, index;
    while ((index = dk_kept_release(&self->keeper, most)) >= 0) {
        dk_vk_forget_buffer(self, DK_BUFFER_KEPT + index);
        dk_vk_free_buffer(self, &self->kept[index]);
        released = 1;
    }
    return released;
}

void dk_vk_discard(dk_gpu* gpu, int32_t number) {
    dk_vulkan* self = (dk_vulkan*)gpu;
    if (number >= DK_BUFFER_KEPT && dk_vk_kept(self, number) != NULL) {
        dk_vk_drop(self);
        dk_kept_discard(&self->keeper, number - DK_BUFFER_KEPT);
        dk_vk_release_kept(self, DK_MOST_DISCARDED);
    }
}

dk_status dk_vk_read(dk_gpu* gpu, int32_t number, int64_t bytes, void* target) {
    dk_vulkan* self = (dk_vulkan*)gpu;
    const dk_slice source = {number, "a value on the device", 0, bytes};
    dk_status status;
    dk_vk_drop(self);
    status = dk_vk_download_to(&gpu->driver, target, &source);
    return status != DK_OK ? status : dk_vk_flush(self);
}

/* The list of what the device has to do, and the recordings of lists that were carried out lately. A list that is equal
   to a recorded one is submitted again as it is: a model's runs with inputs of the same sizes are. */
#include <stdlib.h>
#include <string.h>

#include "vulkan.h"

dk_status dk_vk_collect(
    dk_vulkan* self, int32_t kernel, const dk_region* places, int32_t place_count, const int32_t* words,
    int32_t word_count
) {
    const int32_t step = self->profiling ? self->gpu.step : 0;
    const dk_operation operation = {kernel, step, place_count, word_count, places, words};
    return dk_work_add(&self->work, &operation) ? DK_OK : dk_vk_check(self, VK_ERROR_OUT_OF_HOST_MEMORY, "a run");
}

void dk_vk_drop(dk_vulkan* self) {
    dk_work_clear(&self->work);
    self->pending_count = 0;
    self->uploaded = self->downloaded = 0;
}

static void forget(dk_vk_recording* recording) {
    dk_work_clear(&recording->work);
    recording->used = 0;
}

void dk_vk_forget(dk_vulkan* self) {
    for (int32_t i = 0; i < DK_VK_RECORDINGS; ++i) {
        forget(&self->recordings[i]);
    }
}

static int32_t uses(const dk_work* work, int64_t number) {
    size_t at = 0;
    while (at < work->bytes) {
        dk_operation operation;
        at = dk_work_read(work, at, &operation);
        for (int32_t i = 0; i < operation.place_count; ++i) {
            if (operation.places[i].buffer == number && operation.places[i].bytes > 0) {
                return 1;
            }
        }
    }
    return 0;
}

void dk_vk_forget_buffer(dk_vulkan* self, int64_t number) {
    for (int32_t i = 0; i < DK_VK_RECORDINGS; ++i) {
        if (uses(&self->recordings[i].work, number)) {
            forget(&self->recordings[i]);
        }
    }
}

/* Release the memory of the recordings, in case that others need it. */
static void release(dk_vulkan* self) {
    dk_vk_forget(self);
    for (int32_t i = 0; i < DK_VK_RECORDINGS; ++i) {
        dk_vk_recording* recording = &self->recordings[i];
        if (recording->sets != 0) {
            self->call.DestroyDescriptorPool(self->device, recording->sets, NULL);
        }
        recording->sets = 0;
        free(recording->work.data);
        memset(&recording->work, 0, sizeof recording->work);
    }
}

void dk_vk_free_recordings(dk_vulkan* self) {
    release(self);
    free(self->work.data);
    if (self->clock != 0) {
        self->call.DestroyQueryPool(self->device, self->clock, NULL);
    }
    if (self->commands != 0) {
        self->call.DestroyCommandPool(self->device, self->commands, NULL);
    }
    free(self->times);
}

/* The recording of the list, or the one to record it in: the one that was not used for longest. */
static dk_vk_recording* choose(dk_vulkan* self, int32_t* recorded) {
    dk_vk_recording* oldest = &self->recordings[0];
    for (int32_t i = 0; i < DK_VK_RECORDINGS; ++i) {
        dk_vk_recording* recording = &self->recordings[i];
        if (!self->profiling && dk_work_equal(&recording->work, &self->work)) {
            *recorded = 1;
            return recording;
        }
        oldest = recording->used < oldest->used ? recording : oldest;
    }
    *recorded = 0;
    return oldest;
}

/* Make sure that the clock can take the time of each operation. */
static VkResult prepare_clock(dk_vulkan* self) {
    VkQueryPoolCreateInfo info = {
        VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO, NULL, 0, VK_QUERY_TYPE_TIMESTAMP, 64, 0,
    };
    const uint32_t needed = (uint32_t)self->work.count + 1;
    VkResult result;
    if (self->facts.clock_bits == 0 || self->clock_room >= needed) {
        return VK_SUCCESS;
    }
    if (self->clock != 0) {
        self->call.DestroyQueryPool(self->device, self->clock, NULL);
    }
    while (info.queryCount < needed) {
        info.queryCount *= 2;
    }
    result = self->call.CreateQueryPool(self->device, &info, NULL, &self->clock);
    self->clock = result == VK_SUCCESS ? self->clock : 0;
    self->clock_room = result == VK_SUCCESS ? info.queryCount : 0;
    return result;
}

/* Keep the times that were taken. */
static VkResult read_clock(dk_vulkan* self, const dk_work* work) {
    const uint32_t count = (uint32_t)work->count + 1, bits = self->facts.clock_bits;
    const uint64_t mask = bits >= 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
    const double period = (double)self->facts.properties.limits.timestampPeriod;
    uint64_t* ticks;
    VkResult result;
    size_t at = 0;
    if (self->clock == 0) {
        return VK_SUCCESS;
    }
    ticks = (uint64_t*)malloc(count * sizeof *ticks);
    result = ticks == NULL ? VK_ERROR_OUT_OF_HOST_MEMORY
                           : self->call.GetQueryPoolResults(
                                 self->device, self->clock, 0, count, count * sizeof *ticks, ticks, sizeof *ticks,
                                 VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT
                             );
    for (uint32_t i = 0; i + 1 < count && result == VK_SUCCESS; ++i) {
        dk_operation operation;
        dk_vk_time* times = (dk_vk_time*)dk_vk_grown(self->times, self->time_count, &self->time_room, sizeof *times);
        if (times == NULL) {
            result = VK_ERROR_OUT_OF_HOST_MEMORY;
            break;
        }
        at = dk_work_read(work, at, &operation);
        self->times = times;
        times[self->time_count].nanoseconds = (double)((ticks[i + 1] - ticks[i]) & mask) * period;
        times[self->time_count].step = operation.step;
        ++self->time_count;
    }
    free(ticks);
    return result;
}

static VkResult submit(dk_vulkan* self, const dk_vk_recording* recording) {
    const VkSubmitInfo info = {
        VK_STRUCTURE_TYPE_SUBMIT_INFO, NULL, 0, NULL, NULL, 1, &recording->commands, 0, NULL,
    };
    VkResult result = self->call.ResetFences(self->device, 1, &self->fence);
    result = result != VK_SUCCESS ? result : self->call.QueueSubmit(self->queue, 1, &info, self->fence);
    result = result != VK_SUCCESS ? result : self->call.WaitForFences(self->device, 1, &self->fence, 1, UINT64_MAX);
    if (result != VK_SUCCESS) {
        /* Nothing may be in flight when buffers change. */
        self->call.DeviceWaitIdle(self->device);
    }
    return result;
}

/* Record the list, which the recording takes over. */
static VkResult record(dk_vulkan* self, dk_vk_recording* recording) {
    const dk_work room = recording->work;
    VkResult result = self->profiling ? prepare_clock(self) : VK_SUCCESS;
    recording->work = self->work;
    self->work = room;
    dk_work_clear(&self->work);
    return result != VK_SUCCESS ? result : dk_vk_record(self, recording);
}

/* Carry out the list. */
static VkResult run(dk_vulkan* self) {
    int32_t recorded;
    dk_vk_recording* recording = choose(self, &recorded);
    VkResult result = VK_SUCCESS;
    if (!recorded) {
        result = record(self, recording);
        if (result == VK_ERROR_OUT_OF_DEVICE_MEMORY || result == VK_ERROR_OUT_OF_HOST_MEMORY) {
            const dk_work work = recording->work;
            memset(&recording->work, 0, sizeof recording->work);
            release(self);
            recording->work = work;
            result = dk_vk_record(self, recording);
        }
    }
    result = result != VK_SUCCESS ? result : submit(self, recording);
    if (result == VK_SUCCESS && self->profiling) {
        result = read_clock(self, &recording->work);
    }
    recording->used = ++self->submissions;
    if (result != VK_SUCCESS || self->profiling) {
        dk_work_clear(&recording->work);
        recording->used = 0;
    }
    return result;
}

dk_status dk_vk_flush(dk_vulkan* self) {
    dk_status status = dk_vk_usable(self);
    if (status == DK_OK && self->work.count > 0) {
        status = dk_vk_check(self, run(self), "the commands of a run");
        status = status != DK_OK ? status : dk_vk_finish_downloads(self);
    }
    dk_vk_drop(self);
    return status;
}

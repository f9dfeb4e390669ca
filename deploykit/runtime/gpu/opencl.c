/* The driver for OpenCL: the calls of a model's steps, which go to a queue in order.

   A kernel takes, for each of its bindings, the buffer and the place in it in units of 16 bytes; then its scalars, and
   last the number of invocations, as integers of 32 bits. The code is compiled with DK_BINDING_BYTES, the most bytes of
   a tensor, and with DK_F16 on devices with arithmetic on 16-bit floats. */
#define _POSIX_C_SOURCE 200809L

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "opencl.h"

#define SMALL (1 << 18) /* bytes of an upload that need not wait for the device */
#define MOST_STAGED (1 << 24)
#define MOST_AHEAD 64 /* commands before the device is told to begin */

/* The status of a command. Drivers may allocate memory only when a command needs it. */
dk_status dk_opencl_checked(dk_opencl_gpu* self, cl_int code) {
    self->busy = 1;
    if (code == CL_SUCCESS) {
        if (++self->ahead == MOST_AHEAD) {
            self->ahead = 0;
            self->api.Flush(self->queue);
        }
        return DK_OK;
    }
    if (dk_opencl_lacks_memory(code) || code == CL_OUT_OF_RESOURCES) {
        return dk_opencl_fail_memory(self, DK_BUFFER_ARENA, self->buffer_count > 0 ? self->buffers[0].bytes : 0);
    }
    return dk_opencl_fail_device(self, code);
}

/* Profiles */

/* Where the event of the next command goes; NULL if there is no profile. */
static cl_event* next_event(dk_opencl_gpu* self) {
    if (!self->timing) {
        return NULL;
    }
    if (self->timed_count == self->timed_room) {
        const int32_t room = self->timed_room == 0 ? 256 : 2 * self->timed_room;
        dk_opencl_timed* more = realloc(self->timed, (size_t)room * sizeof *more);
        if (more == NULL) {
            return NULL;
        }
        self->timed = more;
        self->timed_room = room;
    }
    dk_opencl_timed* next = &self->timed[self->timed_count];
    next->event = NULL;
    next->nanoseconds = 0;
    next->step = self->base.step;
    return &next->event;
}

/* The status of a command with the event `event`, which belongs to the profile if there was one. */
static dk_status timed(dk_opencl_gpu* self, const cl_event* event, cl_int code) {
    self->timed_count += event != NULL && *event != NULL;
    return dk_opencl_checked(self, code);
}

/* Replace the events of commands that are carried out by their times. */
static void read_times(dk_opencl_gpu* self) {
    for (; self->timed_known < self->timed_count; ++self->timed_known) {
        dk_opencl_timed* next = &self->timed[self->timed_known];
        cl_ulong begin = 0, end = 0;
        if (self->api.GetEventProfilingInfo(next->event, CL_PROFILING_COMMAND_START, sizeof begin, &begin, NULL) ==
                CL_SUCCESS &&
            self->api.GetEventProfilingInfo(next->event, CL_PROFILING_COMMAND_END, sizeof end, &end, NULL) ==
                CL_SUCCESS) {
            next->nanoseconds = (double)(end - begin);
        }
        self->api.ReleaseEvent(next->event);
        next->event = NULL;
    }
}

/* Wait for all commands. */
static dk_status settle(dk_opencl_gpu* self) {
    const cl_int code = self->busy ? self->api.Finish(self->queue) : CL_SUCCESS;
    read_times(self);
    while (self->staged != NULL) {
        dk_opencl_staged* next = self->staged->next;
        free(self->staged);
        self->staged = next;
    }
    self->staged_bytes = 0;
    self->ahead = self->busy = 0;
    if (code != CL_SUCCESS) {
        return dk_opencl_lacks_memory(code) ? dk_opencl_checked(self, code) : dk_opencl_fail_device(self, code);
    }
    return DK_OK;
}

static int32_t times(dk_gpu* gpu, double* nanoseconds, int32_t* steps, int32_t most) {
    dk_opencl_gpu* self = (dk_opencl_gpu*)gpu;
    settle(self);
    const int32_t count = self->timed_count;
    for (int32_t i = 0; i < count && i < most; ++i) {
        nanoseconds[i] = self->timed[i].nanoseconds;
        steps[i] = self->timed[i].step;
    }
    if (count <= most) {
        self->timed_count = self->timed_known = 0;
    }
    return count;
}

static void profile(dk_gpu* gpu, int32_t on) {
    dk_opencl_gpu* self = (dk_opencl_gpu*)gpu;
    cl_int code = CL_SUCCESS;
    settle(self);
    if (on) {
        self->timed_count = self->timed_known = 0;
    }
    if (self->lost || self->timing == (on != 0)) {
        return;
    }
    const cl_bits properties = on ? CL_QUEUE_PROFILING_ENABLE : 0;
    cl_command_queue queue = self->api.CreateCommandQueue(self->context, self->device.device, properties, &code);
    if (code == CL_SUCCESS) {
        self->api.ReleaseCommandQueue(self->queue);
        self->queue = queue;
        self->timing = on != 0;
    }
}

/* Commands */

static dk_status dispatch(
    dk_driver* driver, int32_t kernel, const dk_slice* slices, int32_t slice_count, const int32_t* scalars,
    int32_t scalar_count, int32_t invocations
) {
    dk_opencl_gpu* self = (dk_opencl_gpu*)driver;
    if (self->lost) {
        return DK_ERROR_DEVICE;
    }
    if (kernel < 0 || kernel >= self->kernel_count || slice_count != self->shapes[kernel].bindings ||
        scalar_count + 1 != self->shapes[kernel].words) {
        return dk_opencl_fail(self, "a step and the kernel %" PRId32 " that it calls do not fit each other", kernel);
    }
    cl_kernel code = self->kernels[kernel];
    cl_uint argument = 0;
    cl_int failed = CL_SUCCESS;
    for (int32_t i = 0; i < slice_count && failed == CL_SUCCESS; ++i) {
        int64_t offset = 0;
        const dk_opencl_buffer* buffer = dk_opencl_placed(self, &slices[i], &offset);
        const cl_uint first = (cl_uint)(offset / DK_OPENCL_UNIT);
        if (slices[i].bytes > driver->binding_bytes) {
            return dk_opencl_fail(
                self, "a tensor of %" PRId64 " bytes is larger than the %" PRId64 " that this GPU can bind",
                slices[i].bytes, driver->binding_bytes
            );
        }
        if (buffer == NULL) {
            return dk_opencl_fail_place(self, &slices[i]);
        }
        failed = self->api.SetKernelArg(code, argument++, sizeof buffer->memory, &buffer->memory);
        failed = failed != CL_SUCCESS ? failed : self->api.SetKernelArg(code, argument++, sizeof first, &first);
    }
    for (int32_t i = 0; i <= scalar_count && failed == CL_SUCCESS; ++i) {
        const int32_t* value = i < scalar_count ? &scalars[i] : &invocations;
        failed = self->api.SetKernelArg(code, argument++, sizeof *value, value);
    }
    if (failed != CL_SUCCESS) {
        return dk_opencl_fail_device(self, failed);
    }
    const size_t local = (size_t)self->workgroup;
    const size_t global = ((size_t)invocations + local - 1) / local * local;
    cl_event* event = next_event(self);
    failed = self->api.EnqueueNDRangeKernel(self->queue, code, 1, NULL, &global, &local, 0, NULL, event);
    return timed(self, event, failed);
}

static dk_status
copy_bytes(dk_opencl_gpu* self, cl_mem source, int64_t from, cl_mem target, int64_t to, int64_t bytes) {
    cl_event* event = next_event(self);
    const cl_int code = self->api.EnqueueCopyBuffer(
        self->queue, source, target, (size_t)from, (size_t)to, (size_t)bytes, 0, NULL, event
    );
    return timed(self, event, code);
}

static dk_status copy(dk_driver* driver, const dk_slice* target, int64_t offset, const dk_slice* source) {
    dk_opencl_gpu* self = (dk_opencl_gpu*)driver;
    const dk_slice whole = {target->buffer, target->name, target->offset + offset, source->bytes};
    int64_t from = 0, to = 0;
    if (self->lost || source->bytes <= 0) {
        return self->lost ? DK_ERROR_DEVICE : DK_OK;
    }
    const dk_opencl_buffer* first = dk_opencl_placed(self, source, &from);
    const dk_opencl_buffer* second = dk_opencl_placed(self, &whole, &to);
    if (first == NULL || second == NULL) {
        return dk_opencl_fail_place(self, first == NULL ? source : target);
    }
    const int64_t apart = from < to ? to - from : from - to;
    if (first->memory != second->memory || apart >= source->bytes) {
        return copy_bytes(self, first->memory, from, second->memory, to, source->bytes);
    }
    dk_opencl_buffer between = {NULL, 0};
    if (apart == 0) {
        return DK_OK;
    }
    dk_status status = dk_opencl_make(self, &between, source->bytes, CL_MEM_READ_WRITE, target->buffer);
    status = status != DK_OK ? status : copy_bytes(self, first->memory, from, between.memory, 0, source->bytes);
    status = status != DK_OK ? status : copy_bytes(self, between.memory, 0, second->memory, to, source->bytes);
    dk_opencl_release(self, &between); /* when it is carried out */
    return status;
}

/* A copy of the data that lives until the commands are carried out; NULL if there is no room. */
static const void* stage(dk_opencl_gpu* self, const void* data, int64_t bytes) {
    dk_opencl_staged* kept = bytes > SMALL || self->staged_bytes + bytes > MOST_STAGED
                                 ? NULL
                                 : malloc(offsetof(dk_opencl_staged, data) + (size_t)bytes);
    if (kept == NULL) {
        return NULL;
    }
    memcpy(kept->data, data, (size_t)bytes);
    kept->next = self->staged;
    self->staged = kept;
    self->staged_bytes += bytes;
    return kept->data;
}

static dk_status upload(dk_driver* driver, const dk_slice* target, const void* source) {
    dk_opencl_gpu* self = (dk_opencl_gpu*)driver;
    int64_t offset = 0;
    if (self->lost || target->bytes <= 0) {
        return self->lost ? DK_ERROR_DEVICE : DK_OK;
    }
    const dk_opencl_buffer* buffer = dk_opencl_placed(self, target, &offset);
    if (buffer == NULL) {
        return dk_opencl_fail_place(self, target);
    }
    const void* kept = stage(self, source, target->bytes);
    cl_event* event = next_event(self);
    const cl_int code = self->api.EnqueueWriteBuffer(
        self->queue, buffer->memory, kept == NULL, (size_t)offset, (size_t)target->bytes, kept == NULL ? source : kept,
        0, NULL, event
    );
    return timed(self, event, code);
}

static dk_status download(dk_driver* driver, void* target, const dk_slice* source) {
    dk_opencl_gpu* self = (dk_opencl_gpu*)driver;
    int64_t offset = 0;
    if (self->lost || source->bytes <= 0) {
        return self->lost ? DK_ERROR_DEVICE : DK_OK;
    }
    const dk_opencl_buffer* buffer = dk_opencl_placed(self, source, &offset);
    if (buffer == NULL) {
        return dk_opencl_fail_place(self, source);
    }
    cl_event* event = next_event(self);
    const cl_int code = self->api.EnqueueReadBuffer(
        self->queue, buffer->memory, 0, (size_t)offset, (size_t)source->bytes, target, 0, NULL, event
    );
    const dk_status status = timed(self, event, code);
    if (status != DK_OK) {
        /* The caller does not wait after an error, and earlier downloads write to its memory. */
        self->api.Finish(self->queue);
    }
    return status;
}

static dk_status wait_for(dk_driver* driver) {
    dk_opencl_gpu* self = (dk_opencl_gpu*)driver;
    return self->lost ? DK_ERROR_DEVICE : settle(self);
}

/* Opening and closing */

static void release_kernels(dk_opencl_gpu* self) {
    for (int32_t i = 0; i < self->kernel_count; ++i) {
        self->api.ReleaseKernel(self->kernels[i]);
    }
    if (self->program != NULL) {
        self->api.ReleaseProgram(self->program);
    }
    free(self->kernels);
    free(self->shapes);
    self->kernels = NULL;
    self->shapes = NULL;
    self->kernel_count = 0;
    self->program = NULL;
}

static void close_gpu(dk_gpu* gpu) {
    dk_opencl_gpu* self = (dk_opencl_gpu*)gpu;
    if (self->queue != NULL) {
        settle(self);
    }
    for (int32_t i = 0; i < self->buffer_count; ++i) {
        dk_opencl_release(self, &self->buffers[i]);
    }
    for (int32_t i = 0; i < self->part_count; ++i) {
        dk_opencl_release(self, &self->parts[i].buffer);
    }
    for (int32_t i = 0; i < self->keeper.count; ++i) {
        if (self->keeper.kept[i].bytes != 0) {
            dk_opencl_release(self, &self->kept[i]);
        }
    }
    dk_opencl_release(self, &self->nothing);
    release_kernels(self);
    if (self->queue != NULL) {
        self->api.ReleaseCommandQueue(self->queue);
    }
    if (self->context != NULL) {
        self->api.ReleaseContext(self->context);
    }
    free(self->timed);
    free(self->buffers);
    free(self->keeper.kept);
    free(self->kept);
    free(self->parts);
    free(self);
}

/* Find the device that the options ask for, or the best one. */
static int choose(dk_opencl_gpu* self, const dk_gpu_options* options, dk_opencl_text error) {
    static const int ranks[] = {
        [DK_GPU_OTHER] = 1, [DK_GPU_SOFTWARE] = 0, [DK_GPU_INTEGRATED] = 2, [DK_GPU_DISCRETE] = 3
    };
    const int32_t wanted = options == NULL ? 0 : options->adapter;
    dk_opencl_device next;
    const char* why = NULL;
    int best = -1;
    for (int32_t i = wanted > 0 ? wanted : 1; dk_opencl_find(&self->api, options, i, &next); ++i) {
        const int rank = ranks[next.adapter.kind];
        why = next.adapter.unusable;
        if (why == NULL && rank > best) {
            best = rank;
            self->device = next;
        }
        if (wanted > 0) {
            break;
        }
    }
    if (best < 0 && why != NULL) {
        dk_opencl_say(error, "%.80s cannot run the model: %s", next.adapter.name, why);
    } else if (best < 0) {
        dk_opencl_say(
            error, wanted > 0 ? "there is no adapter %" PRId32 : "there is no device with an OpenCL driver", wanted
        );
    }
    self->base.adapter = self->device.adapter;
    return best >= 0;
}

static int make_kernels(dk_opencl_gpu* self, const dk_gpu_program* program, dk_opencl_text error) {
    self->kernels = calloc((size_t)program->kernel_count + 1, sizeof *self->kernels);
    self->shapes = calloc((size_t)program->kernel_count + 1, sizeof *self->shapes);
    if (self->kernels == NULL || self->shapes == NULL) {
        dk_opencl_say(error, "there is not enough memory to open the GPU");
        return 0;
    }
    for (int32_t i = 0; i < program->kernel_count; ++i) {
        self->shapes[i].bindings = program->kernels[i].bindings;
        self->shapes[i].words = program->kernels[i].words;
        const char* name = program->kernels[i].name;
        size_t most = 0;
        cl_int code = CL_SUCCESS;
        cl_kernel made = self->api.CreateKernel(self->program, name, &code);
        if (code == CL_SUCCESS) {
            self->kernels[self->kernel_count++] = made;
            code = self->api.GetKernelWorkGroupInfo(
                made, self->device.device, CL_KERNEL_WORK_GROUP_SIZE, sizeof most, &most, NULL
            );
        }
        if (code != CL_SUCCESS || most < (size_t)program->workgroup) {
            dk_opencl_say(error, "the GPU's driver cannot run the kernel '%.80s' (%" PRId32 ")", name, code);
            return 0;
        }
    }
    return 1;
}

static int
compile(dk_opencl_gpu* self, const dk_gpu_program* program, const void* code, const char* cache, dk_opencl_text error) {
    self->program = dk_opencl_build(&self->api, self->context, &self->device, program, code, cache, error);
    return self->program != NULL && make_kernels(self, program, error);
}

static int prepare(
    dk_opencl_gpu* self, const dk_gpu_program* program, const void* code, const dk_gpu_options* options,
    dk_opencl_text error
) {
    const intptr_t properties[] = {CL_CONTEXT_PLATFORM, (intptr_t)self->device.platform, 0};
    cl_int failed = CL_SUCCESS;
    self->context = self->api.CreateContext(properties, 1, &self->device.device, NULL, NULL, &failed);
    if (failed == CL_SUCCESS) {
        self->queue = self->api.CreateCommandQueue(self->context, self->device.device, 0, &failed);
    }
    if (failed != CL_SUCCESS) {
        dk_opencl_say(error, "%.80s cannot be opened (%" PRId32 ")", self->base.adapter.name, failed);
        return 0;
    }
    const char* cache = options == NULL ? NULL : options->cache;
    if (!compile(self, program, code, cache, error)) {
        /* The file may hold a program that the driver refuses only now. */
        release_kernels(self);
        if (cache == NULL || remove(cache) != 0 || !compile(self, program, code, cache, error)) {
            return 0;
        }
    }
    if (!dk_opencl_divide(self, program, error)) {
        return 0;
    }
    if (dk_opencl_make(self, &self->nothing, 0, CL_MEM_READ_WRITE, DK_BUFFER_ARENA) != DK_OK) {
        dk_opencl_say(error, "%s", self->text);
        return 0;
    }
    return 1;
}

dk_gpu* dk_opencl_open(
    const dk_gpu_program* program, const void* code, const dk_gpu_options* options, char* error, size_t error_bytes
) {
    const dk_opencl_text text = {error, error_bytes};
    dk_opencl_gpu* self = calloc(1, sizeof *self);
    if (self == NULL) {
        dk_opencl_say(text, "there is not enough memory to open the GPU");
        return NULL;
    }
    self->workgroup = program->workgroup;
    if (!dk_opencl_load(&self->api, options == NULL ? NULL : options->library, text) || !choose(self, options, text) ||
        !prepare(self, program, code, options, text)) {
        close_gpu(&self->base);
        return NULL;
    }
    dk_driver* driver = &self->base.driver;
    driver->binding_bytes = self->base.adapter.binding_bytes;
    driver->dispatch = dispatch;
    driver->copy = copy;
    driver->upload = upload;
    driver->download = download;
    driver->wait = wait_for;
    driver->restart = wait_for;
    driver->provide = dk_opencl_provide;
    self->base.load = dk_opencl_load_weights;
    self->base.clear = dk_opencl_clear;
    self->base.keep = dk_opencl_keep;
    self->base.read = dk_opencl_read;
    self->base.discard = dk_opencl_discard;
    self->base.profile = profile;
    self->base.times = times;
    self->base.close = close_gpu;
    return &self->base;
}

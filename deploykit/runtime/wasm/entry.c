/* The exports of a module: one model with its tensors, called with addresses and indices only. Compiled with
   -DDK_PREFIX=<the model's prefix>, -DDK_INPUTS and -DDK_OUTPUTS, how many there are, and -DDK_STACK_BYTES, what a
   thread needs; -DDK_GPU where kernels run on a GPU, whose driver is then imported.

   JavaScript fills the inputs (`dk_web_input`), asks for `dk_web_bind` and `dk_web_arena_bytes`, gives the arena and
   the outputs memory, and calls `dk_web_run`. Statuses are those of dk_status. A worker calls `dk_web_work` only. */
#include "model.h"
#ifdef DK_GPU
#include "gpu.h"
#endif
#include "threads.h"

#define JOIN(a, b) a##b
#define MODEL_OF(prefix, name) JOIN(prefix, name)
#define MODEL(name) MODEL_OF(DK_PREFIX, name)
#define EXPORT(name) __attribute__((export_name(#name)))

static MODEL(_model) model;
static MODEL(_dims) dims;
static dk_tensor inputs[DK_INPUTS + 1];
static dk_tensor outputs[DK_OUTPUTS];
static int32_t profiled;

__attribute__((import_module("profile"), import_name("step"))) void dk_js_step(int32_t step);

#ifdef DK_GPU
/* Begin a run from its first step, also where one before did not come to its end. `binding_bytes`: see dk_driver. */
EXPORT(restart) void dk_web_restart(double binding_bytes) {
    dk_web_driver.binding_bytes = (int64_t)binding_bytes;
    model.driver = &dk_web_driver;
    model.resume = 0;
}

/* What the host needs memory for beside the inputs and outputs: 1 the arena, 2 the weights. */
EXPORT(host_memory) int32_t dk_web_host_memory(void) {
    return DK_HOST_MEMORY;
}

EXPORT(part_bytes) int32_t dk_web_part_bytes(void) {
    return DK_PART_BYTES;
}
#endif

EXPORT(open) int32_t dk_web_open(const void* weights, size_t bytes) {
    return MODEL(_init)(&model, weights, bytes, NULL, 0);
}

EXPORT(weights_bytes) size_t dk_web_weights_bytes(void) {
    return MODEL(_descriptor).weights_bytes;
}

EXPORT(input) dk_tensor* dk_web_input(int32_t index) {
    return &inputs[index];
}

EXPORT(output) dk_tensor* dk_web_output(int32_t index) {
    return &outputs[index];
}

/* The dims found by `bind`: an int64_t each, in the order of the manifest. */
EXPORT(dims) int64_t* dk_web_dims(void) {
    return (int64_t*)(void*)&dims;
}

/* Those that the model keeps between runs; the capacity dims among them may be set. */
EXPORT(capacities) int64_t* dk_web_capacities(void) {
    return (int64_t*)(void*)&model.dims;
}

EXPORT(bind) int32_t dk_web_bind(void) {
    return MODEL(_bind)(&model, inputs, &dims);
}

EXPORT(arena_bytes) double dk_web_arena_bytes(void) {
    return (double)MODEL(_arena_bytes)(&dims);
}

EXPORT(set_arena) int32_t dk_web_set_arena(void* arena, size_t bytes) {
    return dk_set_arena(&model.base, arena, bytes);
}

/* Fills dtype, rank, shape and bytes of an output; extents that only the run can tell are -1. */
EXPORT(output_shape) int32_t dk_web_output_shape(int32_t index) {
    return MODEL(_output_shape)(&dims, index, &outputs[index]);
}

EXPORT(run) int32_t dk_web_run(void) {
    return MODEL(_run)(&model, inputs, outputs);
}

/* Say when steps of runs begin, or do not, from now on. */
EXPORT(profile) void dk_web_profile(int32_t on) {
    profiled = on;
}

void dk_profile_step(int32_t step) {
    if (profiled) {
        dk_js_step(step);
    }
}

EXPORT(need) const dk_need* dk_web_need(void) {
    return &model.base.need;
}

EXPORT(error) const char* dk_web_error(void) {
    return MODEL(_last_error)(&model);
}

/* Run parallel loops on so many threads from now on. */
EXPORT(share) void dk_web_share(int32_t threads, int32_t patient) {
    model.base.executor = dk_pool_share(threads, patient);
}

EXPORT(stack_bytes) int32_t dk_web_stack_bytes(void) {
    return DK_STACK_BYTES;
}

EXPORT(work) void dk_web_work(void* stack) {
    dk_pool_work(stack);
}

EXPORT(abandon) void dk_web_abandon(void) {
    dk_pool_abandon();
}

EXPORT(failures) int32_t dk_web_failures(void) {
    return dk_pool_failures();
}

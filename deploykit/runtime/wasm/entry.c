/* The exports of a WebAssembly module for one function of a model. Arguments and results are addresses and numbers.
   Compile with -DDK_PREFIX=<the function's prefix>, -DDK_HEADER=<its header>, -DDK_EXPORTS=<prefix of its exports>,
   -DDK_INPUTS=<number of inputs> and -DDK_OUTPUTS=<number of outputs>; with -DDK_GPU if kernels run on a GPU, whose
   driver is then imported; with -DDK_STATES if the function has states.

   JavaScript fills in the inputs (`input`), calls `bind` and `arena_bytes`, allocates the arena and the outputs, and
   calls `run`. Statuses are those of dk_status. */
#include DK_HEADER
#ifdef DK_GPU
#include "web_driver.h"
#endif
#include "threads.h"

#define JOIN(a, b) a##b
#define MODEL_OF(prefix, name) JOIN(prefix, name)
#define MODEL(name) MODEL_OF(DK_PREFIX, name)
#define EXPORT(result, name) __attribute__((export_name(DK_EXPORTS #name))) result MODEL(_web_##name)

static MODEL(_model) model;
static MODEL(_dims) dims;
static dk_tensor inputs[DK_INPUTS + 1];
static dk_tensor outputs[DK_OUTPUTS + 1];

#ifdef DK_GPU
static int32_t kept[DK_INPUTS + DK_OUTPUTS + 1];

/* The buffers of inputs and outputs that stay on the device: `kept` of dk_driver. */
EXPORT(int32_t*, kept)(void) {
    return kept;
}

/* For each input and output, whether it may stay there. */
EXPORT(const unsigned char*, resident)(void) {
    return MODEL(_resident);
}

/* Begin the next run at its first step, even if the last run did not end. `binding_bytes`: see dk_driver. */
EXPORT(void, restart)(double binding_bytes) {
    dk_web_driver.binding_bytes = (int64_t)binding_bytes;
    dk_web_driver.kept = kept;
    model.driver = &dk_web_driver;
    model.resume = 0;
}

/* What the host needs memory for besides inputs and outputs, as bits: 1 the arena, 2 the weights, 4 the states. */
EXPORT(int32_t, host_memory)(void) {
    return MODEL(_host_memory);
}

EXPORT(int32_t, part_bytes)(void) {
    return MODEL(_part_bytes);
}
#endif

EXPORT(int32_t, open)(const void* weights, size_t bytes) {
    return MODEL(_init)(&model, weights, bytes, NULL, 0);
}

EXPORT(size_t, weights_bytes)(void) {
    return MODEL(_descriptor).weights_bytes;
}

EXPORT(dk_tensor*, input)(int32_t index) {
    return &inputs[index];
}

EXPORT(dk_tensor*, output)(int32_t index) {
    return &outputs[index];
}

/* The dims that `bind` found: an int64_t each, in the order of the manifest. */
EXPORT(int64_t*, dims)(void) {
    return (int64_t*)(void*)&dims;
}

/* The dims that the model keeps between runs; the capacity dims among them may be set. */
EXPORT(int64_t*, capacities)(void) {
    return (int64_t*)(void*)&model.dims;
}

EXPORT(int32_t, bind)(void) {
    return MODEL(_bind)(&model, inputs, &dims);
}

EXPORT(double, arena_bytes)(void) {
    return (double)MODEL(_arena_bytes)(&dims);
}

EXPORT(int32_t, set_arena)(void* arena, size_t bytes) {
    return dk_set_arena(&model.base, arena, bytes);
}

/* Fill in dtype, rank, shape and bytes of an output; extents that are known only during a run are -1. */
EXPORT(int32_t, output_shape)(int32_t index) {
    return MODEL(_output_shape)(&dims, index, &outputs[index]);
}

EXPORT(int32_t, run)(void) {
    return MODEL(_run)(&model, inputs, outputs);
}

EXPORT(const dk_need*, need)(void) {
    return &model.base.need;
}

EXPORT(const char*, error)(void) {
    return MODEL(_last_error)(&model);
}

/* Run parallel loops on this many threads from now on. */
EXPORT(void, share)(int32_t threads, int32_t patient) {
    model.base.executor = dk_pool_share(threads, patient);
}

#ifdef DK_STATES
/* The size of a block of states with the sizes in `dims`. */
EXPORT(double, state_bytes)(void) {
    return (double)MODEL(_state_bytes)(&dims);
}

#ifdef DK_GPU
/* The part of a block of states that the host needs memory for. */
EXPORT(double, host_state_bytes)(void) {
    return MODEL(_host_memory) & 4 ? (double)MODEL(_state_bytes)(&dims) : MODEL(_state_header);
}
#endif

EXPORT(int32_t, reset_state)(void* state, size_t bytes) {
    return MODEL(_reset_state)(&dims, state, bytes);
}

EXPORT(int32_t, set_state)(void* state, size_t bytes) {
    return MODEL(_set_state)(&model, state, bytes);
}
#endif

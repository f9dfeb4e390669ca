/* A function of a model as a table, so that callers need not know its name. */
#ifndef DEPLOYKIT_PROGRAMS_H
#define DEPLOYKIT_PROGRAMS_H

#include "driver.h"

/* A function for CPUs, or for GPUs. `model` is its struct, which has `descriptor->model_bytes`. */
typedef struct program {
    const dk_model_descriptor* descriptor;
    dk_status (*init)(void* model, const void* weights, size_t bytes);
    dk_status (*bind)(void* model, const dk_tensor* inputs, int64_t* dims);
    dk_status (*run)(void* model, const dk_tensor* inputs, dk_tensor* outputs);
    int64_t (*arena_bytes)(const int64_t* dims);
    dk_status (*output_shape)(const int64_t* dims, int32_t output, dk_tensor* tensor);
    void (*drive)(void* model, dk_driver* driver); /* NULL: for CPUs */
    /* NULL: it has no states. The host has `host_state_bytes` of them. */
    int64_t (*state_bytes)(const int64_t* dims);
    int64_t (*host_state_bytes)(const int64_t* dims);
    dk_status (*reset_state)(const int64_t* dims, void* state, size_t bytes);
    dk_status (*set_state)(void* model, void* state, size_t bytes);
    int32_t first, count; /* of the dims that are sizes of states */
} program;

/* jni_programs.c: the functions in order, on CPUs and on GPUs; NULL: it does not run on GPUs. */
extern const int32_t dk_function_count;
extern const program* const dk_on_cpu;
extern const program* const dk_on_gpu;

#endif

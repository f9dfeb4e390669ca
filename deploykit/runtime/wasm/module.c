/* What a module exports beside the functions of its model. Compiled with -DDK_STACK_BYTES, what a thread needs. */
#include "deploykit.h"
#include "threads.h"

#define EXPORT(name) __attribute__((export_name(#name)))

static int32_t profiled;

__attribute__((import_module("profile"), import_name("step"))) void dk_js_step(int32_t step);

/* Say when steps of runs begin, or do not, from now on. */
EXPORT(profile) void dk_web_profile(int32_t on) {
    profiled = on;
}

void dk_profile_step(int32_t step) {
    if (profiled) {
        dk_js_step(step);
    }
}

EXPORT(stack_bytes) int32_t dk_web_stack_bytes(void) {
    return DK_STACK_BYTES;
}

/* All that a worker calls. */
EXPORT(work) void dk_web_work(void* stack) {
    dk_pool_work(stack);
}

EXPORT(abandon) void dk_web_abandon(void) {
    dk_pool_abandon();
}

EXPORT(failures) int32_t dk_web_failures(void) {
    return dk_pool_failures();
}

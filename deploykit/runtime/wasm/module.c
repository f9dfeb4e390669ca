/* The exports of a module besides those for its functions. Compile with -DDK_STACK_BYTES=<size of a thread's stack>. */
#include "deploykit.h"
#include "threads.h"

#define EXPORT(name) __attribute__((export_name(#name)))

static int32_t profiled;

__attribute__((import_module("profile"), import_name("step"))) void dk_js_step(int32_t step);

/* Report the beginning of steps to JavaScript from now on, or stop doing so. */
EXPORT(profile) void dk_web_profile(int32_t on) {
    profiled = on;
}

int32_t dk_profile_step(const dk_model* model, int32_t step) {
    (void)model;
    if (profiled) {
        dk_js_step(step);
    }
    return 0;
}

EXPORT(stack_bytes) int32_t dk_web_stack_bytes(void) {
    return DK_STACK_BYTES;
}

/* The only function that a worker calls. */
EXPORT(work) void dk_web_work(void* stack) {
    dk_pool_work(stack);
}

EXPORT(abandon) void dk_web_abandon(void) {
    dk_pool_abandon();
}

EXPORT(failures) int32_t dk_web_failures(void) {
    return dk_pool_failures();
}

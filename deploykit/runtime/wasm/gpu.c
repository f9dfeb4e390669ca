/* A driver that calls JavaScript (js/gpu.mjs) through imports. */
#include "web_driver.h"

#define IMPORT(name) __attribute__((import_module("gpu"), import_name(#name)))

IMPORT(dispatch)
int32_t dk_web_dispatch(
    int32_t kernel, const dk_slice* slices, int32_t slice_count, const int32_t* scalars, int32_t scalar_count,
    int32_t invocations
);
IMPORT(copy) int32_t dk_web_copy(const dk_slice* target, double offset, const dk_slice* source);
IMPORT(upload) int32_t dk_web_upload(const dk_slice* target, const void* source);
IMPORT(download) int32_t dk_web_download(void* target, const dk_slice* source);
IMPORT(wait) int32_t dk_web_wait(void);

static dk_status dispatch(
    dk_driver* self, int32_t kernel, const dk_slice* slices, int32_t slice_count, const int32_t* scalars,
    int32_t scalar_count, int32_t invocations
) {
    (void)self;
    return dk_web_dispatch(kernel, slices, slice_count, scalars, scalar_count, invocations);
}

static dk_status copy(dk_driver* self, const dk_slice* target, int64_t offset, const dk_slice* source) {
    (void)self;
    return dk_web_copy(target, (double)offset, source);
}

static dk_status upload(dk_driver* self, const dk_slice* target, const void* source) {
    (void)self;
    return dk_web_upload(target, source);
}

static dk_status download(dk_driver* self, void* target, const dk_slice* source) {
    (void)self;
    return dk_web_download(target, source);
}

static dk_status wait(dk_driver* self) {
    (void)self;
    return dk_web_wait();
}

/* JavaScript begins runs, and provides the buffers. */
dk_driver dk_web_driver = {0, NULL, dispatch, copy, upload, download, wait, NULL, NULL, NULL, 0, 0};
